//! Tests the subcommands durability and checkpoint, and recovery from a journal by other subcommands.

use std::fs;

use crate::support::{Place, fail, run, succeed};

#[test]
fn store_is_recovered_by_the_next_command_after_its_file_is_gone() {
    let place = Place::new();
    let store = place.store("store", &[("k", "v")]);
    let told = succeed(&["durability", &store, "everysec"]);
    assert!(
        told.contains("durability everysec") && told.contains(".journal"),
        "{told}"
    );
    // The folder of this test does not survive a power cut.
    assert!(told.contains("is on tmpfs, in memory"), "{told}");
    succeed(&["exec", "--store", &store, "RPUSH", "jobs", "a", "b"]);
    let shown = succeed(&["stat", &store]);
    assert!(shown.contains("durability   everysec"), "{shown}");
    assert!(shown.contains("is on tmpfs, in memory"), "{shown}");
    fs::remove_file(&store).expect("it exists");
    let ran = run(&[
        "exec", "--store", &store, "--raw", "LRANGE", "jobs", "0", "-1",
    ]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "a\nb\n"));
    assert!(ran.errors.contains("recovered") && ran.errors.contains("from its journal"));
    let wrote = succeed(&["checkpoint", &store]);
    assert!(wrote.starts_with("wrote a checkpoint of"), "{wrote}");
    fs::remove_file(&store).expect("it exists");
    let ran = run(&["exec", "--store", &store, "--raw", "GET", "k"]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "v\n"));
}

#[test]
fn removed_store_is_not_recovered() {
    let place = Place::new();
    let store = place.store("store", &[("k", "v")]);
    succeed(&["durability", &store, "always"]);
    succeed(&["rm", &store, "--yes"]);
    fail(&["exec", "--store", &store, "GET", "k"], 1);
    succeed(&["exec", "--create", "--store", &store, "SET", "other", "v"]);
    assert_eq!(
        succeed(&["exec", "--store", &store, "--raw", "EXISTS", "k"]),
        "0\n"
    );
}

#[test]
fn journal_can_be_ended() {
    let place = Place::new();
    let store = place.store("store", &[("k", "v")]);
    succeed(&["durability", &store, "everysec"]);
    let told = succeed(&["durability", &store, "none"]);
    assert!(told.contains("has no journal"), "{told}");
    assert!(fail(&["checkpoint", &store], 1).contains("has no journal"));
    assert!(
        fail(&["durability", &store, "sometimes"], 2).contains("expected none, everysec or always")
    );
}
