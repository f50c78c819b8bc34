//! Tests the subcommand journal, and recovery as of an earlier time.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use undercroft_engine::StoreName;

use crate::support::{Place, command, fail, run, succeed};

/// Creates a store with a journal and some keys. Returns the store's path and its folder.
fn journaled(place: &Place) -> (String, String) {
    let store = place.store("store", &[("k", "v")]);
    succeed(&["durability", &store, "always"]);
    for number in 0..5 {
        set(&store, &format!("key:{number}"));
    }
    let folder = format!("{store}.journal");
    (store, folder)
}

fn set(store: &str, key: &str) {
    succeed(&["exec", "--store", store, "SET", key, "value"]);
}

fn keys(store: &str) -> String {
    succeed(&["exec", "--store", store, "--raw", "DBSIZE"])
}

/// Returns the durable position of a store.
fn position(store: &str) -> String {
    let shown = succeed(&["stat", store, "--json"]);
    let journal = shown.split("\"journal\"").nth(1).expect("a journal");
    let durable = journal.split("\"durable\":").nth(1).expect("a position");
    durable
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect()
}

/// Returns the segment of a journal that has records.
fn segment(folder: &str) -> String {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("a file").path().display().to_string())
        .filter(|name| name.ends_with(".segment"))
        .collect();
    names.sort();
    names.pop().expect("a segment")
}

#[test]
fn store_is_recovered_as_it_was_at_a_position() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    let before = position(&store);
    succeed(&["exec", "--store", &store, "FLUSHALL"]);
    assert_eq!(keys(&store), "0\n");
    let refused = fail(&["recover", &store, "--until", &before], 1);
    assert!(
        refused.contains("exists; name another one with --to"),
        "{refused}"
    );
    // Another store, while this one is in use.
    let other = place.path("other");
    let told = succeed(&["recover", &store, "--until", &before, "--to", &other]);
    assert!(
        told.contains(&format!("up to position {before}")) && told.contains("kept the journal in"),
        "{told}"
    );
    assert_eq!(keys(&other), "6\n");
    assert!(succeed(&["stat", &other]).contains("durability   none"));
    // The same store, after its file is gone.
    fs::remove_file(&store).expect("it exists");
    let told = succeed(&["recover", &store, "--until", &before]);
    let kept = format!("{folder}.before-{before}");
    assert!(
        told.contains(&format!("renamed its old journal to {kept}")),
        "{told}"
    );
    assert!(!Path::new(&folder).exists() && Path::new(&kept).exists());
    assert_eq!(keys(&store), "6\n");
    succeed(&["durability", &store, "everysec"]);
    set(&store, "later");
    fs::remove_file(&store).expect("it exists");
    let ran = run(&["exec", "--store", &store, "--raw", "DBSIZE"]);
    assert_eq!(ran.out, "7\n", "{ran:?}");
    // The journal that was set aside still has everything.
    let end = place.path("end");
    succeed(&[
        "recover",
        "--journal",
        &kept,
        "--until",
        "end",
        "--to",
        &end,
    ]);
    assert_eq!(keys(&end), "0\n");
}

#[test]
fn moments_are_positions_and_times() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    let to = place.path("to");
    let arguments = |until: &'static str| ["recover", &store, "--until", until, "--to", &to];
    for wrong in ["", "yesterday", "2026-11-30T14:05:00", "-1"] {
        let refused = run(&arguments(wrong));
        assert_eq!(refused.status, 2, "{wrong}: {refused:?}");
    }
    let early = fail(&arguments("2001-01-01T00:00:00Z"), 1);
    assert!(early.contains("older backup"), "{early}");
    let early = fail(&arguments("1"), 1);
    assert!(early.contains("position 1 not to be before"), "{early}");
    assert!(!Path::new(&to).exists());
    succeed(&arguments("2099-01-01T00:00:00+02:00"));
    assert_eq!(keys(&to), "6\n");
    let none = run(&["recover", &store, "--journal", &folder]);
    assert!(
        none.status == 2 && none.errors.contains("--until"),
        "{none:?}"
    );
    let empty = place.path("empty");
    fs::create_dir(&empty).expect("a folder");
    let none = fail(
        &[
            "recover",
            "--journal",
            &empty,
            "--until",
            "end",
            "--to",
            &empty,
        ],
        1,
    );
    assert!(none.contains("exists"), "{none}");
    let other = place.path("other");
    let none = fail(
        &[
            "recover",
            "--journal",
            &empty,
            "--until",
            "end",
            "--to",
            &other,
        ],
        1,
    );
    assert!(none.contains("found no checkpoint"), "{none}");
}

#[test]
fn damage_is_found_and_left_out() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    let intact = succeed(&["journal", "verify", &store]);
    assert!(intact.starts_with("intact: 1 checkpoint and "), "{intact}");
    let at = position(&store);
    set(&store, "damaged");
    set(&store, "later");
    set(&store, "latest");
    let listed = succeed(&["journal", "list", &store, "--json"]);
    assert!(listed.contains("\"kind\": \"segment\""), "{listed}");
    let path = segment(&folder);
    let mut bytes = fs::read(&path).expect("a segment");
    let start = u64::from_str_radix(
        Path::new(&path)
            .file_stem()
            .and_then(|stem| stem.to_str())
            .expect("a name"),
        16,
    )
    .expect("a position");
    // The second record after the position: the first one is a mark.
    let offset = 4096 + at.parse::<u64>().expect("a number") - start + 64 + 50;
    bytes[offset as usize] ^= 1;
    fs::write(&path, bytes).expect("a segment");
    let verdict = run(&["journal", "verify", "--journal", &folder]);
    assert_eq!(
        (verdict.status, verdict.errors.as_str()),
        (1, ""),
        "{verdict:?}"
    );
    assert!(
        verdict.out.contains(&path) && verdict.out.contains("damaged: 1 problem"),
        "{verdict:?}"
    );
    let json = run(&["journal", "verify", "--json", "--journal", &folder]);
    assert!(
        json.status == 1 && json.out.contains("\"damage\": ["),
        "{json:?}"
    );
    fs::remove_file(&store).expect("it exists");
    let refused = fail(&["exec", "--store", &store, "GET", "k"], 1);
    let until = refused
        .split("--until ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .expect("a way out");
    succeed(&["recover", &store, "--until", until]);
    assert_eq!(keys(&store), "6\n");
}

#[test]
fn dump_lists_transactions() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    let from = position(&store);
    set(&store, "one");
    set(&store, "two");
    let all = succeed(&["journal", "dump", &store]);
    let since = succeed(&["journal", "dump", &store, "--since", &from]);
    assert!(
        all.ends_with(&since) && all.len() > since.len(),
        "{all}\n{since}"
    );
    assert!(
        since.lines().count() >= 2
            && since
                .lines()
                .all(|line| line.contains("transaction by slot")),
        "{since}"
    );
    let json = succeed(&[
        "journal",
        "dump",
        "--journal",
        &folder,
        "--json",
        "--all",
        "--since",
        &from,
    ]);
    for text in [
        "\"kind\":\"time\"",
        "\"kind\":\"transaction\"",
        "\"after\":",
    ] {
        assert!(json.contains(text), "{json}");
    }
    let later = succeed(&["journal", "dump", &store, "--since", "2099-01-01T00:00:00Z"]);
    assert!(later.lines().count() <= 1, "{later}");
    assert!(fail(&["journal", "dump", &store, "--since", "end"], 2).contains("--since"));
    let none = place.store("none", &[]);
    assert!(fail(&["journal", "list", &none], 1).contains("has no journal"));
}

#[test]
fn backup_can_be_recovered_and_continued() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    let copy = place.path("copy");
    let told = succeed(&["journal", "backup", &store, &copy]);
    assert!(
        told.contains(&copy) && told.contains("up to position"),
        "{told}"
    );
    assert!(fail(&["journal", "backup", &store, &copy], 1).contains("does not exist"));
    assert!(succeed(&["journal", "verify", "--journal", &copy]).starts_with("intact"));
    set(&store, "later");
    let other = place.path("other");
    succeed(&[
        "recover",
        "--journal",
        &copy,
        "--until",
        "end",
        "--to",
        &other,
    ]);
    assert_eq!(keys(&other), "6\n");
    // The copy becomes the journal of the store.
    fs::remove_file(&store).expect("it exists");
    fs::remove_dir_all(&folder).expect("it exists");
    let told = succeed(&["journal", "backup", "--journal", &copy, &folder]);
    assert!(told.contains(&folder), "{told}");
    let ran = run(&["exec", "--store", &store, "--raw", "DBSIZE"]);
    assert_eq!(ran.out, "6\n", "{ran:?}");
    set(&store, "more");
    assert_eq!(keys(&store), "7\n");
    assert!(fail(&["journal", "backup", &copy], 2).contains("--journal"));
}

#[test]
fn stat_shows_the_journal_as_json() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    let shown = succeed(&["stat", &store, "--json"]);
    for text in [
        "\"durability\": \"always\"".to_owned(),
        format!("\"folder\": \"{folder}\""),
        "\"lag\": 0".to_owned(),
        "\"lag_seconds\": 0.0".to_owned(),
        "\"error\": null".to_owned(),
    ] {
        assert!(shown.contains(&text), "{text}: {shown}");
    }
    let plain = place.store("plain", &[]);
    assert!(succeed(&["stat", &plain, "--json"]).contains("\"journal\": null"));
}

#[test]
fn commands_read_a_journal_without_changing_it() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    fs::remove_file(&store).expect("it exists");
    let names = || {
        let mut names: Vec<_> = fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| {
                let entry = entry.expect("a file");
                let bytes = fs::read(entry.path()).expect("a file");
                (entry.file_name(), bytes)
            })
            .collect();
        names.sort();
        names
    };
    let before = names();
    for action in ["list", "verify", "dump"] {
        succeed(&["journal", action, &store]);
    }
    assert!(names() == before);
    assert!(!Path::new(&store).exists(), "no command recovers the store");
}

#[test]
fn process_that_waits_for_a_recovery_can_be_interrupted() {
    use rustix::process::Signal;
    let place = Place::new();
    let (store, folder) = journaled(&place);
    fs::remove_file(&store).expect("it exists");
    // This process holds the lock of the folder, like one that is recovering the store.
    let lock = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("{folder}/undercroft.lock"))
        .expect("a lock file");
    rustix::fs::fcntl_lock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    let child = command(&["export", &store, &place.path("file")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The process has the file open while it waits.
    let waits = || {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", child.id()));
        let links = descriptors.into_iter().flatten().flatten();
        let mut targets = links.filter_map(|link| fs::read_link(link.path()).ok());
        targets.any(|target| target.ends_with("undercroft.lock"))
    };
    while !waits() {
        std::thread::yield_now();
    }
    crate::support::signal_to(&child, Signal::INT);
    let output = child.wait_with_output().expect("a child");
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("the store was not recovered"), "{errors}");
    drop(lock);
    let ran = run(&["exec", "--store", &store, "--raw", "DBSIZE"]);
    assert_eq!(ran.out, "6\n", "{ran:?}");
}

/// Returns the keys that one line of a dump names.
fn named(line: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let keys = ["added", "changed", "removed"].map(|kind| {
        let keys = json[kind].as_array().expect("a list").iter();
        let keys = keys.map(|name| {
            let key = name["key"].as_str().expect("a key");
            format!(" {kind} {}:{key}", name["db"])
        });
        keys.collect::<String>()
    });
    keys.concat()
}

#[test]
fn dump_names_the_keys_that_commands_change() {
    let place = Place::new();
    let (store, folder) = journaled(&place);
    let steps: [(&[&str], &str); 19] = [
        (&["SET", "a", "1"], " added 0:a"),
        (&["SET", "a", "2"], " changed 0:a"),
        (&["INCR", "a"], " changed 0:a"),
        (&["EXPIRE", "a", "1000"], " changed 0:a"),
        (&["RPUSH", "list", "x"], " added 0:list"),
        (&["RPUSH", "list", "y"], " changed 0:list"),
        (&["RENAME", "list", "tsil"], " added 0:tsil removed 0:list"),
        (&["HSET", "hash", "f", "1"], " added 0:hash"),
        (&["HSET", "hash", "f", "2"], " changed 0:hash"),
        (&["SETRANGE", "long", "100000", "end"], " added 0:long"),
        (&["SETRANGE", "long", "50000", "middle"], " changed 0:long"),
        (&["SADD", "set", "m"], " added 0:set"),
        (&["ZADD", "sorted", "1", "m"], " added 0:sorted"),
        (&["XADD", "stream", "1-1", "f", "v"], " added 0:stream"),
        (&["MSET", "a", "4", "b", "5"], " added 0:b changed 0:a"),
        (&["MOVE", "b", "1"], " added 1:b removed 0:b"),
        (&["COPY", "set", "copy"], " added 0:copy"),
        (
            &["DEL", "set", "sorted", "copy"],
            " removed 0:copy removed 0:set removed 0:sorted",
        ),
        (
            &[
                "EVAL",
                "redis.call('SET', KEYS[1], 1) return redis.call('DEL', KEYS[2])",
                "2",
                "a",
                "tsil",
            ],
            " changed 0:a removed 0:tsil",
        ),
    ];
    for (command, expected) in steps {
        let from = position(&store);
        succeed(&[&["exec", "--store", &store, "--"], command].concat());
        let dumped = succeed(&[
            "journal", "dump", &store, "--json", "--keys", "--since", &from,
        ]);
        let found: String = dumped.lines().map(named).collect();
        assert_eq!(found, expected, "{command:?}");
    }
    let from = position(&store);
    succeed(&["exec", "--store", &store, "FLUSHALL"]);
    let shown = succeed(&[
        "journal",
        "dump",
        "--journal",
        &folder,
        "--keys",
        "--since",
        &from,
    ]);
    for text in ["removed \"a\" \"hash\" \"k\"", " and 3 others"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[test]
fn temporary_stores_of_killed_processes_are_removed() {
    let place = Place::new();
    let (store, _) = journaled(&place);
    let name = StoreName::parse("undercroft://default").expect("a name");
    name.prepare().expect("a folder");
    // No process has this id.
    let left = ["", ".recovering"].map(|end| {
        let file = format!(".journal-{}{end}", u32::MAX);
        name.path.with_file_name(file)
    });
    for file in &left {
        fs::write(file, b"left").expect("room");
    }
    succeed(&["journal", "dump", &store, "--keys"]);
    for file in &left {
        assert!(!file.exists(), "{}", file.display());
    }
}
