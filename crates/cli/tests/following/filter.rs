//! A store that follows a part of its source: one database, or the keys with a prefix.

use std::collections::BTreeSet;

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::Server;
use undercroft_engine::DATABASES;

use crate::support::{Follower, Place, call, changes_of, redis, run, until, url_of};

/// Returns the keys of a source that a store must have: of one database, or with a prefix.
fn expected(source: &Server, only: Option<usize>, prefix: &[u8]) -> BTreeSet<(usize, Vec<u8>)> {
    let mut client = Client::connect(source.address()).expect("it accepts");
    let mut keys = BTreeSet::new();
    for database in (0..DATABASES).filter(|number| only.is_none_or(|only| only == *number)) {
        let number = database.to_string();
        client.call(["SELECT", &number]).expect("a reply");
        let Reply::Array(found) = client.call(["KEYS", "*"]).expect("a reply") else {
            panic!("expected keys");
        };
        let found = found.iter().filter_map(Reply::bytes);
        let wanted = found.filter(|key| key.starts_with(prefix));
        keys.extend(wanted.map(|key| (database, key.to_vec())));
    }
    keys
}

/// Returns the keys of a store.
fn found(place: &Place) -> BTreeSet<(usize, Vec<u8>)> {
    let path = place.path("store");
    let mut keys = BTreeSet::new();
    for database in (0..DATABASES).filter(|&number| place.store.keys(number) > 0) {
        let script = format!(
            "redis.call('SELECT', {database}) local out = {{}} \
             for _, key in ipairs(redis.call('KEYS', '*')) do \
             out[#out + 1] = 'x' .. (key:gsub('.', function(c) return string.format('%02x', c:byte()) end)) \
             end return table.concat(out, ' ')"
        );
        let listed = run(&["exec", "--store", &path, "EVAL_RO", &script, "0"]);
        assert_eq!(listed.status, 0, "{listed:?}");
        let text = listed.out.trim().trim_matches('"').to_owned();
        keys.extend(text.split(' ').map(|word| {
            let word = &word[1..];
            let bytes = (0..word.len() / 2)
                .map(|at| u8::from_str_radix(&word[2 * at..2 * at + 2], 16).expect("a digit"));
            (database, bytes.collect())
        }));
    }
    keys
}

#[test]
fn followed_part_equals_that_of_the_source() {
    for (only, prefix) in [(Some(0), ""), (Some(1), ""), (None, "a"), (Some(0), "b")] {
        let source = redis(&[]);
        let mut changes = changes_of(&source);
        changes.make(2000);
        let place = Place::new();
        let number = only.map_or(String::new(), |number| number.to_string());
        let mut options = vec!["--prefix", prefix];
        if only.is_some() {
            options.extend(["--db", &number]);
        }
        let follower = Follower::start(&url_of(&source), place.store.path(), &options);
        let mut compared = 0;
        for _ in 0..5 {
            place.catch_up(&source);
            let wanted = expected(&source, only, prefix.as_bytes());
            assert_eq!(found(&place), wanted, "{only:?} {prefix:?}");
            compared += wanted.len();
            changes.make(500);
        }
        drop(changes);
        assert!(compared > 0);
        let url = url_of(&source);
        let path = place.path("store");
        let promoted = run(&["follow", &url, "--store", &path, "--promote"]);
        assert_eq!(promoted.status, 0, "{only:?} {prefix:?}: {promoted:?}");
        assert_eq!(follower.finish().status, 0);
    }
}

#[test]
fn another_part_loads_the_data_set_again() {
    let source = redis(&[]);
    for key in ["a:1", "a:2", "b:1"] {
        call(&source, &["SET", key, "v"]);
    }
    let place = Place::new();
    let store = place.store.path().to_owned();
    let follow = |options: &[&str]| Follower::start(&url_of(&source), &store, options);
    let has = |keys: u64| until(|| place.store.keys(0) == keys, || place.describe());
    let mut follower = follow(&["--prefix", "a:"]);
    has(2);
    // A change that needs a key of another part.
    call(&source, &["RENAME", "b:1", "a:3"]);
    call(&source, &["SET", "a:4", "v"]);
    has(4);
    assert_eq!(place.get(0, "a:3").as_deref(), Some("v"));
    follower.kill();
    call(&source, &["SET", "b:2", "v"]);
    let mut follower = follow(&["--prefix", "b:"]);
    has(1);
    follower.kill();
    let _follower = follow(&[]);
    has(5);
}
