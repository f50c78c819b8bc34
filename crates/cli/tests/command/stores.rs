//! Tests the subcommands exec, stat, check, recover, list and rm, and the help of all subcommands.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Expiry, Store};

use crate::support::{Place, command, fail, run, succeed};

#[test]
fn help_describes_every_command() {
    let all = [
        "serve",
        "exec",
        "stat",
        "check",
        "recover",
        "sync",
        "checkpoint",
        "durability",
        "journal",
        "export",
        "import",
        "list",
        "rm",
    ];
    let help = succeed(&["--help"]);
    for name in all {
        assert!(
            help.lines().any(|line| line.trim_start().starts_with(name)),
            "{name}: {help}"
        );
    }
    assert!(
        help.contains("Examples:") && help.contains("undercroft://NAME"),
        "{help}"
    );
    for name in all {
        let help = succeed(&[name, "--help"]);
        assert!(
            help.contains("Examples:\n") && help.contains(&format!("  undercroft {name}")),
            "{name}: {help}"
        );
        assert!(
            help.lines().all(|line| line.chars().count() <= 120),
            "{help}"
        );
    }
    let version = succeed(&["--version"]);
    assert_eq!(
        version,
        format!("undercroft {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn usage_errors_exit_with_status_two() {
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["exec"],
        &["export"],
        &["serve", "--port"],
    ] {
        assert_eq!(run(arguments).status, 2, "{arguments:?}");
    }
    let line = fail(&["stat", "--store", "undercroft://../x"], 2);
    assert!(
        line.starts_with("undercroft: expected a store name"),
        "{line}"
    );
    let line = fail(&["stat", "--store", "redis://x"], 2);
    assert!(
        line.starts_with("undercroft: expected a path, undercroft://name"),
        "{line}"
    );
    let line = fail(&["exec", "-n", "16", "GET", "k"], 2);
    assert_eq!(line, "undercroft: expected a database below 16, got 16");
}

#[test]
fn missing_store_is_not_created() {
    let place = Place::new();
    let path = place.path("none");
    let file = place.path("file");
    for arguments in [
        &["stat", "--store", &path][..],
        &["stat", &path],
        &["check", &path],
        &["recover", "--store", &path],
        &["export", "--store", &path, &file],
        &["export", &path, &file],
        &["rm", &path],
        &["exec", "--store", &path, "SET", "k", "v"],
        &["exec", "--store", &path, "GET", "k"],
    ] {
        let line = fail(arguments, 1);
        let start = format!("undercroft: there is no store {path}; undercroft serve");
        assert!(line.starts_with(&start), "{line}");
    }
    assert!(!Path::new(&path).exists() && !Path::new(&file).exists());
}

#[test]
fn mistyped_store_name_gets_a_suggestion() {
    let place = Place::new();
    let store = place.store("sessions", &[("k", "v")]);
    // A file that is not a store is never suggested, even if its name is similar.
    fs::write(place.path("sesions.txt"), "no store").expect("room");
    for typed in ["sesions", "session", "Sessions", "sessions1"] {
        let typed = place.path(typed);
        for arguments in [
            &["stat", &typed][..],
            &["exec", "--store", &typed, "GET", "k"],
        ] {
            let line = fail(arguments, 1);
            assert!(line.ends_with(&format!("did you mean {store}?")), "{line}");
        }
    }
    let line = fail(&["stat", &place.path("queue")], 1);
    assert!(!line.contains("did you mean"), "{line}");
}

#[test]
fn exec_prints_as_redis_cli_does() {
    let place = Place::new();
    let store = place.store("store", &[("k", "line\none")]);
    let exec = |more: &[&'static str]| [&["exec", "--store", store.as_str()], more].concat();
    assert_eq!(succeed(&exec(&["GET", "k"])), "line\none\n");
    assert_eq!(
        succeed(&exec(&["--no-raw", "GET", "k"])),
        "\"line\\none\"\n"
    );
    assert_eq!(succeed(&exec(&["--no-raw", "GET", "none"])), "(nil)\n");
    assert_eq!(
        succeed(&exec(&["--no-raw", "STRLEN", "k"])),
        "(integer) 8\n"
    );
    let values = succeed(&exec(&["--no-raw", "MGET", "k", "none"]));
    assert_eq!(values, "1) \"line\\none\"\n2) (nil)\n");
    assert_eq!(succeed(&exec(&["MGET", "k", "none"])), "line\none\n\n");
    assert_eq!(succeed(&exec(&["--", "SET", "-x", "--raw"])), "OK\n");
    assert_eq!(succeed(&exec(&["SET", "-x", "-n"])), "OK\n");
    assert_eq!(succeed(&exec(&["--db", "3", "SET", "k", "3"])), "OK\n");
    assert_eq!(succeed(&exec(&["-n", "3", "DBSIZE"])), "1\n");
}

#[test]
fn option_after_the_command_is_refused() {
    let place = Place::new();
    let store = place.store("store", &[]);
    for option in ["--store", "--store=x", "--db", "--raw"] {
        let line = fail(
            &["exec", "--store", &store, "LPUSH", "list", option, "x"],
            2,
        );
        assert!(
            line.contains(&format!("{option} follows the command LPUSH")),
            "{line}"
        );
    }
    assert_eq!(succeed(&["exec", "--store", &store, "LLEN", "list"]), "0\n");
    for option in ["--sotre", "-q", "--raw=yes", "-"] {
        let line = run(&["exec", option, "LLEN", "list"]);
        assert_eq!(line.status, 2, "{option}: {line:?}");
    }
    let line = fail(&["exec", "--sotre", &store, "LLEN", "list"], 2);
    assert!(line.contains("unknown option '--sotre'"), "{line}");
}

#[test]
fn naming_two_stores_is_an_error() {
    let place = Place::new();
    let store = place.store("store", &[("k", "v")]);
    let file = place.path("file");
    for arguments in [
        &["stat", &store, "--store", "other"][..],
        &["serve", &store, "--store", "other"],
        &["import", &file, &store, "--store", "other"],
        &["export", "--store", "other", &store, &file],
    ] {
        let run = run(arguments);
        assert_eq!(run.status, 2, "{run:?}");
        assert!(run.errors.contains("the store is named twice"), "{run:?}");
    }
    // The store in the environment is only a default, so the command line can name another store.
    let output = command(&["stat", &store])
        .env("UNDERCROFT_STORE", "other")
        .output();
    assert!(output.expect("it runs").status.success());
    let output = command(&["export", &store, &file])
        .env("UNDERCROFT_STORE", "other")
        .output();
    assert!(output.expect("it runs").status.success());
}

#[test]
fn exec_creates_a_store_when_asked() {
    let place = Place::new();
    let path = place.path("new");
    let set = [
        "exec", "--store", &path, "--create", "SET", "greeting", "hello",
    ];
    assert_eq!(succeed(&set), "OK\n");
    assert_eq!(succeed(&set), "OK\n");
    assert!(succeed(&["stat", &path]).contains("1 key"));
}

#[test]
fn inaccessible_directory_is_reported_as_such() {
    let place = Place::new();
    let file = place.path("file");
    fs::write(&file, b"").expect("room");
    let path = format!("{file}/store");
    let line = fail(&["stat", &path], 1);
    let start = format!("undercroft: looking up the store {path}: Not a directory");
    assert!(line.starts_with(&start), "{line}");
}

#[test]
fn exec_exits_with_a_status_on_error() {
    let place = Place::new();
    let store = place.store("store", &[]);
    let failed = run(&["exec", "--store", &store, "--no-raw", "GET"]);
    let expected = "(error) ERR wrong number of arguments for 'get' command\n";
    assert_eq!(
        (failed.status, failed.out.as_str(), failed.errors.as_str()),
        (1, expected, "")
    );
    let failed = run(&["exec", "--store", &store, "SHUTDOWN"]);
    let expected = "ERR there is no server to shut down: the store is embedded in this process\n";
    assert_eq!((failed.status, failed.out.as_str()), (1, expected));
}

#[test]
fn store_can_be_named_in_the_environment() {
    let place = Place::new();
    let store = place.store("store", &[("k", "v")]);
    let url = format!("undercroft://{store}");
    let output = command(&["exec", "GET", "k"])
        .env("UNDERCROFT_STORE", url)
        .output();
    assert_eq!(output.expect("it runs").stdout, b"v\n");
}

#[test]
fn stat_shows_sizes_and_keys() {
    let place = Place::new();
    let store = place.store("store", &[("a", "1"), ("b", "2")]);
    succeed(&[
        "exec", "--store", &store, "-n", "5", "SET", "c", "3", "EX", "1000",
    ]);
    let out = succeed(&["stat", "--store", &store]);
    for expected in [
        &format!("store        {store}\n"),
        "shards       2\n",
        "maxmemory      1.00 GiB       1,073,741,824 bytes",
        "locks        none held\n",
        "writers      no living process has written to the store\n",
        "readers      no other process has the store open\n",
        "keys         3 keys\n  db 0: 2 keys, 0 of them expire\n  db 5: 1 key, 1 of them expire\n",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
}

#[test]
fn stat_prints_the_figures_as_json() {
    let place = Place::new();
    let store = place.store("store", &[("a", "1"), ("b", "2")]);
    succeed(&[
        "exec", "--store", &store, "-n", "5", "SET", "c", "3", "EX", "1000",
    ]);
    let out = succeed(&["stat", "--store", &store, "--json"]);
    let found: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(found["store"], store.as_str());
    assert_eq!(found["shards"], 2);
    assert_eq!(found["capacity"], 256 << 20);
    assert_eq!(found["maxmemory"], 1 << 30);
    assert_eq!(found["removed"], false);
    assert_eq!(found["keys"]["0"]["keys"], 2);
    assert_eq!(found["keys"]["5"]["expiring"], 1);
    assert!(
        found["memory"]["data"]
            .as_u64()
            .is_some_and(|bytes| bytes > 0),
        "{out}"
    );
}

#[test]
fn recover_runs_pending_upkeep() {
    let place = Place::new();
    let path = place.store("store", &[]);
    let store = Store::open(Path::new(&path), true).expect("a store");
    store.leave_upkeep_to_a_timer();
    for key in 0..40_u32 {
        let set = store.set(0, &key.to_le_bytes(), &[7; 1 << 20]);
        set.expect("room");
    }
    store.flush_all(false).expect("no lock is held");
    store.set_time(1000);
    for key in 0..1500_u32 {
        let options = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(2000),
        };
        let set = store.set_with(0, &key.to_le_bytes(), &[7; 64], options);
        set.expect("room");
    }
    store.set_time(0);
    let file_bytes = || fs::metadata(&path).expect("a file").blocks() * 512;
    assert!(store.used_memory() > 40 << 20 && file_bytes() > 40 << 20);
    let out = succeed(&["recover", "--store", &path]);
    assert!(
        out.ends_with("removed: 1,500 keys that had expired\n"),
        "{out}"
    );
    assert_eq!(store.used_memory(), 0);
    // The rest is memory that is retained for reuse, and overhead that is not data.
    assert!(file_bytes() < 24 << 20, "{}", file_bytes());
}

#[test]
fn check_distinguishes_sound_from_damaged_stores() {
    let place = Place::new();
    let pairs: Vec<(String, String)> = (0..2000)
        .map(|n| (format!("key {n}"), "v".repeat(50)))
        .collect();
    let pairs: Vec<(&str, &str)> = pairs
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    let store = place.store("store", &pairs);
    let out = succeed(&["check", "--store", &store]);
    assert!(
        out.starts_with("sound: 2,") && out.contains(" blocks of "),
        "{out}"
    );
    assert_eq!(
        succeed(&["recover", "--store", &store]),
        "sound: no dead process left anything to recover\n"
    );
    damage(&store, b"key 77");
    let run = run(&["check", "--store", &store]);
    assert_eq!((run.status, run.errors.as_str()), (1, ""), "{run:?}");
    assert!(run.out.contains("belongs in another bucket"), "{run:?}");
    assert!(
        run.out.contains("damaged: ") && run.out.contains(&store),
        "{run:?}"
    );
}

/// Changes one byte of a key in a store's file, so that the key's hash no longer matches its
/// position.
fn damage(store: &str, key: &[u8]) {
    let bytes = fs::read(store).expect("a file");
    let at = bytes
        .windows(key.len() + 1)
        .position(|w| w.starts_with(key) && w[key.len()] == 0);
    let at = at.expect("the key is in the file") as u64;
    let file = fs::OpenOptions::new()
        .write(true)
        .open(store)
        .expect("a file");
    file.write_at(b"q", at).expect("it is written");
}

#[test]
fn files_that_are_not_stores_are_refused_and_kept() {
    let place = Place::new();
    let path = place.path("text");
    let mut file = fs::File::create(&path).expect("a file");
    file.write_all(b"not a store").expect("room");
    for arguments in [
        &["stat", "--store", &path][..],
        &["check", "--store", &path],
        &[
            "serve",
            "--store",
            &path,
            "--port",
            "0",
            "--unixsocket",
            &place.path("socket"),
        ],
        &["rm", &path],
        &["rm", "--yes", &path],
    ] {
        let line = fail(arguments, 1);
        assert!(line.contains("is not a usable store: "), "{line}");
    }
    assert_eq!(fs::read(&path).expect("still there"), b"not a store");
}

#[test]
fn stores_are_listed_and_removed_by_name() {
    let name = format!("test-{}", std::process::id());
    let url = format!("undercroft://{name}");
    // Named stores are always in the directory of the current user.
    let found = undercroft_engine::StoreName::parse(&url).expect("a name");
    found.prepare().expect("a directory of ours");
    let options = undercroft_engine::Options {
        capacity: Some(256 << 20),
        shards: Some(2),
        ring: None,
    };
    let store = undercroft_engine::Store::create(&found.path, &options).expect("a store");
    store.set(0, b"k", b"v").expect("room");
    let listed = succeed(&["list"]);
    let line = listed
        .lines()
        .find(|line| line.starts_with(&format!("{url} ")));
    let words: Vec<&str> = line.expect("it is listed").split_whitespace().collect();
    assert_eq!(
        (words[1], &words[words.len() - 2..]),
        ("1", &["1", "0"][..]),
        "{listed}"
    );
    // This process has the store open, and no terminal is available to ask for confirmation.
    let line = fail(&["rm", &name], 1);
    assert!(
        line.starts_with(&format!(
            "undercroft: {url} is in use by pid {}",
            std::process::id()
        )),
        "{line}"
    );
    assert!(
        line.ends_with("it was not removed; use --yes to remove it anyway"),
        "{line}"
    );
    assert_eq!(succeed(&["rm", "--yes", &url]), format!("removed {url}\n"));
    assert!(store.removed());
    let line = fail(&["rm", &name], 1);
    assert!(
        line.contains("there is no store undercroft://test-"),
        "{line}"
    );
}

#[test]
fn store_names_mean_the_same_in_every_client() {
    let name = format!("test-names-{}", std::process::id());
    let url = format!("undercroft://{name}");
    let exec = |store: &str, words: &[&str]| {
        let arguments = [&["exec", "--store", store][..], words].concat();
        succeed(&arguments)
    };
    let first = format!("{url}/1");
    let made = ["exec", "--create", "--store", &first, "SET", "k", "in 1"];
    assert_eq!(succeed(&made), "OK\n");
    assert_eq!(exec(&first, &["GET", "k"]), "in 1\n");
    // On the command line, a single word is the name of a store. Other clients refuse it, because
    // it could also be a file.
    for all in [&url, &name] {
        assert_eq!(exec(all, &["--database", "1", "GET", "k"]), "in 1\n");
        assert_eq!(exec(all, &["EXISTS", "k"]), "0\n");
    }
    let line = fail(&["exec", "--store", &format!("{url}/16"), "PING"], 2);
    assert!(line.contains("expected a database below 16"), "{line}");
    assert_eq!(succeed(&["rm", "--yes", &url]), format!("removed {url}\n"));
}

#[test]
fn store_with_a_reader_is_not_removed_without_asking() {
    let place = Place::new();
    let path = place.store("store", &[("k", "v")]);
    let reader = undercroft_engine::Store::open(Path::new(&path), false).expect("a store");
    let mut value = Vec::new();
    assert!(reader.get(0, b"k", &mut value).expect("a value") && value == b"v");
    let pid = std::process::id();
    let out = succeed(&["stat", &path]);
    let readers = "readers      1 process with the store open that did not write\n";
    assert!(out.contains(&format!("{readers}  pid {pid} (")), "{out}");
    let line = fail(&["rm", &path], 1);
    assert!(line.contains(&format!("is in use by pid {pid}")), "{line}");
    let clients = succeed(&["exec", "--store", &path, "CLIENT", "LIST"]);
    assert!(
        clients.contains(&format!(" addr={path}:{pid} ")),
        "{clients}"
    );
    drop(reader);
    let out = succeed(&["stat", &path]);
    assert!(
        out.contains("readers      no other process has the store open\n"),
        "{out}"
    );
    let clients = succeed(&["exec", "--store", &path, "CLIENT", "LIST"]);
    assert_eq!(clients.trim_end().lines().count(), 1, "{clients}");
    assert_eq!(succeed(&["rm", &path]), format!("removed {path}\n"));
}

#[test]
fn different_capacity_for_an_existing_store_is_an_error() {
    let place = Place::new();
    let path = place.store("store", &[("k", "v")]);
    let line = fail(&["serve", &path, "--port", "0", "--capacity", "1gb"], 1);
    assert!(
        line.contains("a capacity of 268435456, not the requested 1073741824"),
        "{line}"
    );
}
