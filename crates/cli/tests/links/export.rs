//! Writes RDB files that real servers read.

use std::fs;
use std::process::Command;

use undercroft_conformance::servers::{Kind, Server};

use crate::compare::{assert_equal, assert_equal_entries};
use crate::data::fill;
use crate::support::{Place, call, connect, fail, line, run, serve, start_with, succeed};

/// Starts `undercroft serve` with data of every type. Returns the server and the name of its store.
fn filled(arguments: &[&str]) -> (Server, String) {
    let ours = serve(arguments);
    fill(&mut connect(&ours), Kind::Undercroft);
    let store = ours.store().to_str().expect("ASCII").to_owned();
    (ours, store)
}

/// Checks an RDB file with Redis' own tool.
fn check(file: &str) {
    match Command::new("redis-check-rdb").arg(file).output() {
        Err(error) => println!("skipped: redis-check-rdb ({error})"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}");
            assert!(text.contains("RDB looks OK"), "{text}");
        }
    }
}

#[test]
fn real_servers_read_every_version_that_they_know() {
    let (ours, store) = filled(&[]);
    let place = Place::new();
    for (version, kinds) in [
        ("9", &[Kind::Redis, Kind::Redis8, Kind::Valkey][..]),
        ("10", &[Kind::Redis, Kind::Redis8, Kind::Valkey]),
        ("11", &[Kind::Redis8, Kind::Valkey]),
    ] {
        let file = place.path(version);
        let out = succeed(&[
            "export",
            &store,
            &file,
            "--format",
            "rdb",
            "--rdb-version",
            version,
        ]);
        assert!(out.contains(" keys and 1 function library to "), "{out}");
        if version != "11" {
            check(&file);
        }
        let bytes = fs::read(&file).expect("a file");
        for kind in kinds {
            let files = vec![("dump.rdb".to_owned(), bytes.clone())];
            let Some(theirs) = start_with(*kind, &[], files) else {
                continue;
            };
            let (mut our, mut their) = (connect(&ours), connect(&theirs));
            // Version 9 does not contain the counts of a stream.
            let keys = match version {
                "9" => assert_equal_entries(&mut our, &mut their),
                _ => assert_equal(&mut our, &mut their),
            };
            assert!(keys > 30, "{keys}");
        }
    }
}

#[test]
fn hints_about_the_use_of_keys_are_exported() {
    for (policy, object) in [("allkeys-lru", "IDLETIME"), ("allkeys-lfu", "FREQ")] {
        let ours = serve(&["--maxmemory-policy", policy]);
        let mut our = connect(&ours);
        line(&mut our, "SET k v");
        let hint = if object == "FREQ" {
            "FREQ 99"
        } else {
            "IDLETIME 4000"
        };
        let place = Place::new();
        // RESTORE is the command that sets a hint.
        let payload = line(&mut our, "DUMP k");
        let payload = payload.bytes().expect("a payload").to_vec();
        line(&mut our, "DEL k");
        let mut words = vec![b"RESTORE".to_vec(), b"k".to_vec(), b"0".to_vec(), payload];
        words.extend(hint.split(' ').map(|word| word.as_bytes().to_vec()));
        call(&mut our, &words);
        let file = place.path("file");
        let store = ours.store();
        let store = store.to_str().expect("ASCII");
        succeed(&["export", store, &file, "--format", "rdb"]);
        let memory = ["--maxmemory", "1gb", "--maxmemory-policy", policy];
        let files = vec![("dump.rdb".to_owned(), fs::read(&file).expect("a file"))];
        let Some(theirs) = start_with(Kind::Redis, &memory, files) else {
            continue;
        };
        let found = line(&mut connect(&theirs), &format!("OBJECT {object} k"));
        let undercroft_conformance::resp::Reply::Integer(found) = found else {
            panic!("expected a number, got {found:?}");
        };
        match object {
            "FREQ" => assert!((90..=99).contains(&found), "{found}"),
            _ => assert!((4000..4100).contains(&found), "{found}"),
        }
    }
}

#[test]
fn keys_that_an_rdb_file_cannot_contain_are_named_and_counted() {
    let ours = serve(&[]);
    let mut our = connect(&ours);
    line(&mut our, "SET plain v");
    line(&mut our, "FEED.CREATE feed SIZE 8");
    line(&mut our, "SET undercroft:channel:{jobs}:closed 1");
    let store = ours.store();
    let store = store.to_str().expect("ASCII");
    let place = Place::new();
    let file = place.path("file");
    let arguments = ["export", store, &file, "--format", "rdb"];
    let why = fail(&arguments);
    assert!(
        why.contains("an RDB file cannot contain 1 feed, 1 key of a channel; --skip-own"),
        "{why}"
    );
    assert!(!fs::exists(&file).expect("a folder"), "nothing is left");
    let out = succeed(&[&arguments[..], &["--skip-own"]].concat());
    assert!(
        out.starts_with("exported 1 key to ")
            && out.ends_with("; left out 1 feed, 1 key of a channel\n"),
        "{out}"
    );
    check(&file);
    let usage = run(&["export", store, &file, "--skip-own"]);
    assert_eq!(usage.status, 2, "{usage:?}");
}
