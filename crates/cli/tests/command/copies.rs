//! Tests the subcommands export and import.

use std::fs;
use std::path::Path;

use crate::support::{Place, fail, succeed};

fn exported(place: &Place) -> (String, String) {
    let store = place.store("store", &[("a", "1"), ("b", "two"), ("", "empty key")]);
    succeed(&[
        "exec", "--store", &store, "-n", "7", "SET", "c", "3", "EX", "1000",
    ]);
    let file = place.path("file");
    let out = succeed(&["export", "--store", &store, &file]);
    assert!(
        out.starts_with("exported 4 keys (17 B of keys and values) to "),
        "{out}"
    );
    (store, file)
}

#[test]
fn imported_copy_equals_the_exported_store() {
    let place = Place::new();
    let (_, file) = exported(&place);
    let copy = place.path("copy");
    let out = succeed(&[
        "import",
        &file,
        "--store",
        &copy,
        "--capacity",
        "256mb",
        "--maxmemory",
        "2gb",
    ]);
    assert_eq!(
        out,
        format!("imported 4 keys (17 B of keys and values) into {copy}\n")
    );
    let exec = |words: &[&str]| succeed(&[&["exec", "--store", &copy], words].concat());
    assert_eq!(exec(&["MGET", "a", "b", ""]), "1\ntwo\nempty key\n");
    assert_eq!(exec(&["-n", "7", "GET", "c"]), "3\n");
    let left: i64 = exec(&["-n", "7", "TTL", "c"])
        .trim()
        .parse()
        .expect("a number");
    assert!((1..=1000).contains(&left), "{left}");
    assert_eq!(
        exec(&["CONFIG", "GET", "maxmemory"]),
        "maxmemory\n2147483648\n"
    );
    assert!(succeed(&["check", "--store", &copy]).starts_with("sound: "));
}

#[test]
fn nonempty_store_is_replaced_only_on_request() {
    let place = Place::new();
    let (_, file) = exported(&place);
    let other = place.store("other", &[("mine", "v")]);
    let line = fail(&["import", &file, "--store", &other], 1);
    assert_eq!(
        line,
        format!("undercroft: {other} already has 1 key; --replace removes them first")
    );
    assert_eq!(succeed(&["exec", "--store", &other, "GET", "mine"]), "v\n");
    succeed(&["import", &file, "--store", &other, "--replace"]);
    assert_eq!(
        succeed(&["exec", "--store", &other, "MGET", "mine", "b"]),
        "\ntwo\n"
    );
}

#[test]
fn damaged_file_changes_nothing() {
    let place = Place::new();
    let (_, file) = exported(&place);
    let other = place.store("other", &[("mine", "v")]);
    let mut bytes = fs::read(&file).expect("a file");
    let last = bytes.len() - 30;
    bytes[last] ^= 1;
    fs::write(&file, &bytes).expect("room");
    let line = fail(&["import", &file, "--store", &other, "--replace"], 1);
    assert!(
        line.contains("damaged at byte ") && line.ends_with("; nothing was changed"),
        "{line}"
    );
    assert_eq!(succeed(&["exec", "--store", &other, "GET", "mine"]), "v\n");
    // A damaged file must not create a store either.
    let none = place.path("none");
    fail(&["import", &file, "--store", &none], 1);
    assert!(!Path::new(&none).exists());
}

#[test]
fn lack_of_room_is_reported_before_any_change() {
    let place = Place::new();
    let value = "x".repeat(100_000);
    let store = place.store("store", &[("k", &value)]);
    let file = place.path("file");
    succeed(&["export", "--store", &store, &file]);
    let small = place.store("small", &[("mine", "v")]);
    let line = fail(
        &[
            "import",
            &file,
            "--store",
            &small,
            "--replace",
            "--maxmemory",
            "50kb",
        ],
        1,
    );
    assert_eq!(
        line,
        "undercroft: the file holds 97.7 KiB, but the store accepts at most 50.0 KiB; raise the limit with --maxmemory"
    );
    assert_eq!(succeed(&["exec", "--store", &small, "GET", "mine"]), "v\n");
}

#[test]
fn file_errors_are_reported() {
    let place = Place::new();
    let (store, _) = exported(&place);
    let nowhere = place.path("no/such/file");
    let line = fail(&["export", "--store", &store, &nowhere], 1);
    assert!(
        line.starts_with(&format!("undercroft: writing {nowhere}: No such file")),
        "{line}"
    );
    let line = fail(&["import", &nowhere, "--store", &store], 1);
    assert!(
        line.starts_with(&format!("undercroft: opening {nowhere}: No such file")),
        "{line}"
    );
    let line = fail(&["import", "/dev/null", "--store", &store], 1);
    assert!(line.contains("found the end of the file"), "{line}");
    let empty = place.path("empty");
    fs::write(&empty, b"").expect("room");
    let line = fail(&["import", &empty, "--store", &store], 1);
    assert!(
        line.contains("damaged at byte 0: expected the magic bytes UNDEREXP of an export")
            && line.ends_with("found the end of the file; nothing was changed"),
        "{line}"
    );
}
