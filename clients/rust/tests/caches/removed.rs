//! Tests a store whose file is removed or replaced.
//!
//! Calls continue in the store that now has the same name. A wait, a transaction, a lease or a
//! subscription in the old store ends with an error. The module also tests the names of stores.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use undercroft::{Cache, Error, Objects, Session, SetOptions, Store, StoreCache};

fn place() -> (TempDir, PathBuf) {
    let directory = undercroft_testkit::fresh::directory();
    let path = directory.path().join("store");
    (directory, path)
}

fn open(path: &Path, option: &str) -> Store {
    Store::open(&format!("undercroft://{}{option}", path.display())).expect("a store")
}

/// Removes a store, and writes until this process notices the removal. A process checks the file
/// once a second.
fn remove(path: &Path) {
    let probe = open(path, "?on_removed=error");
    fs::remove_file(path).expect("it exists");
    let told = loop {
        if let Err(error) = probe.set("probe", "v") {
            break error;
        }
    };
    assert!(matches!(told, Error::Removed(_)), "{told:?}");
    let again = probe.mget(["probe"]).and(probe.set("probe", "v"));
    assert!(
        matches!(again, Err(Error::Removed(_))) && !path.exists(),
        "{again:?}"
    );
}

type Call = fn(&Store) -> undercroft::Result<()>;

const CALLS: [(&str, Call); 6] = [
    ("set", |store| store.set("k", "v")),
    ("get of an absent key", |store| store.get("no").map(drop)),
    ("a command", |store| store.rpush("list", ["a"]).map(drop)),
    ("DBSIZE", |store| store.command(["DBSIZE"]).map(drop)),
    ("a lease", |store| {
        store
            .take_lease("leased", Duration::from_millis(1))
            .map(drop)
    }),
    ("an object", |store| {
        Objects::new(store.clone()).put_bytes(b"x", None).map(drop)
    }),
];

#[test]
fn calls_continue_in_the_recreated_store() {
    for (what, call) in CALLS {
        let (_directory, path) = place();
        let store = open(&path, "");
        for _ in 0..2 {
            store.set("old", "1").expect("room");
            fs::remove_file(&path).expect("it exists");
            while !path.exists() {
                call(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            let other = open(&path, "");
            other.set("new", "1").expect("room");
            let found = store.mget(["old", "new"]).expect("read");
            assert_eq!(found, [None, Some(b"1".to_vec())], "{what}");
        }
    }
}

#[test]
fn session_moves_to_the_new_store_once_it_holds_no_state() {
    let (_directory, path) = place();
    let store = open(&path, "");
    let mut sessions = [store.session(), store.session()];
    let run = |session: &mut Session, words: &[&str]| session.command(words);
    let [idle, busy] = &mut sessions;
    run(idle, &["SELECT", "3"]).expect("a database");
    run(busy, &["WATCH", "k"]).expect("it begins");
    remove(&path);
    run(idle, &["SET", "k", "v"]).expect("a new store");
    let third = open(&path, "").database(3).expect("a database");
    assert_eq!(third.exists(["k"]).expect("read"), 1);
    run(busy, &["MULTI"]).expect("it begins");
    run(busy, &["SET", "k", "v"]).expect("queued");
    let told = run(busy, &["EXEC"]);
    assert!(matches!(told, Err(Error::Removed(_))), "{told:?}");
    run(busy, &["SET", "k", "v"]).expect("a new store");
    assert_eq!(open(&path, "").exists(["k"]).expect("read"), 1);
}

#[test]
fn waits_and_leases_end_with_their_store() {
    let (_directory, path) = place();
    let store = open(&path, "");
    let lease = store.take_lease("k", Duration::from_secs(60));
    let lease = lease.expect("room").expect("it is free");
    fs::remove_file(&path).expect("it exists");
    let told = store.command(["BLPOP", "jobs", "0"]);
    assert!(matches!(told, Err(Error::Removed(_))), "{told:?}");
    let told = store.set_leased(lease, "v", SetOptions::new());
    assert!(matches!(told, Err(Error::Removed(_))), "{told:?}");
    store.rpush("jobs", ["one"]).expect("a new store");
    store.command(["BLPOP", "jobs", "0"]).expect("an item");
}

#[tokio::test]
async fn cache_continues_in_the_recreated_store() {
    let (_directory, path) = place();
    let cache = StoreCache::open_path(&path).expect("a store");
    fs::remove_file(&path).expect("it exists");
    while !path.exists() {
        cache.get(b"k").await.expect("get");
    }
    let mut news = cache.subscribe(&[b"news"]).await.expect("subscribed");
    assert_eq!(cache.publish(b"news", b"text").await.expect("sent"), 1);
    assert!(matches!(news.next().await, Some(Ok(_))));
}

#[test]
fn full_store_reports_its_removal() {
    let (_directory, path) = place();
    let store = open(&path, "?on_removed=error");
    store
        .command(["CONFIG", "SET", "maxmemory", "1"])
        .expect("set");
    store
        .set("first", "it is full after this one")
        .expect("room");
    assert!(store.set("k", "v").expect_err("no room").is_full());
    fs::remove_file(&path).expect("it exists");
    let told = store.set("k", "v");
    let Err(Error::Removed(text)) = &told else {
        panic!("{told:?}");
    };
    assert!(text.contains("was removed or replaced") && !text.contains("OOM"));
}

#[test]
fn store_names_resolve_as_in_other_clients() {
    let told = Store::open("x").expect_err("it could be both");
    let text = told.to_string();
    assert!(matches!(told, Error::Url(_)), "{told:?}");
    assert!(
        text.contains("undercroft://x") && text.contains("./x"),
        "{text}"
    );
    for url in [
        "undercroft://x/16",
        "undercroft://x?on_removed=retry",
        "undercroft://x?nosuch=1",
    ] {
        assert!(matches!(Store::open(url), Err(Error::Url(_))), "{url}");
    }
    let name = format!("undercroft://rust-test-{}", std::process::id());
    let first = Store::open(&format!("{name}/1")).expect("a store");
    let all = Store::open(&name).expect("the same");
    first.set("k", "in 1").expect("room");
    assert_eq!(all.get("k").expect("read"), None);
    let found = all.database(1).and_then(|one| one.get("k"));
    assert_eq!(found.expect("read").as_deref(), Some(&b"in 1"[..]));
    fs::remove_file(all.path()).expect("it exists");
}
