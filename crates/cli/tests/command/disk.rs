//! Tests stores on a disk: syncing, refusal after a power cut, and a store whose file is truncated.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use rustix::process::Signal;

use crate::support::{Place, Server, fail, succeed};

/// The offset of the header field that identifies the boot during which the store was last changed
/// (docs/file-format.md).
const UNSYNCED: u64 = 96;

/// Returns the boot identifier in a store's header, or 0 if the store has been synced.
fn boot(store: &str) -> u64 {
    let mut word = [0; 8];
    let file = File::open(store).expect("a store");
    file.read_exact_at(&mut word, UNSYNCED).expect("a header");
    u64::from_le_bytes(word)
}

/// Modifies a store so that it appears to have been changed during another boot.
pub(crate) fn reboot(store: &str) {
    let other = boot(store) ^ 2;
    let file = File::options().write(true).open(store).expect("a store");
    file.write_all_at(&other.to_le_bytes(), UNSYNCED)
        .expect("a header");
}

/// Returns a directory on a disk. It is removed when the test ends.
fn on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

#[test]
fn unsynced_store_is_refused_and_can_be_saved() {
    let disk = on_disk();
    let path = |name: &str| disk.path().join(name).to_str().expect("ASCII").to_owned();
    let (store, file, copy) = (path("store"), path("file"), path("copy"));
    succeed(&["exec", "--store", &store, "--create", "SET", "key", "value"]);
    reboot(&store);
    let before = fs::metadata(&store).and_then(|status| status.modified());
    let before = before.expect("a time");
    for arguments in [
        &["stat", &store][..],
        &["check", &store],
        &["recover", &store],
        &["sync", &store],
        &["export", &store, &file],
        &["exec", "--store", &store, "GET", "key"],
        &["serve", &store, "--port", "0"],
    ] {
        let said = fail(arguments, 1);
        assert!(said.contains("not synced"), "{arguments:?}: {said}");
        assert!(said.contains("--unclean"), "{arguments:?}: {said}");
    }
    assert!(succeed(&["check", "--unclean", &store]).starts_with("sound: "));
    let out = succeed(&["export", "--unclean", &store, &file]);
    assert!(out.starts_with("exported 1 key "), "{out}");
    let after = fs::metadata(&store).and_then(|status| status.modified());
    assert_eq!(after.expect("a time"), before, "the file was changed");
    succeed(&["import", &file, "--store", &copy, "--capacity", "256mb"]);
    assert_eq!(
        succeed(&["exec", "--store", &copy, "GET", "key"]),
        "value\n"
    );
    assert_eq!(succeed(&["rm", &store]), format!("removed {store}\n"));
}

#[test]
fn sync_import_and_shutdown_leave_a_synced_store() {
    let place = Place::new();
    let store = place.store("served", &[("key", "value")]);
    assert_ne!(boot(&store), 0);
    assert_eq!(succeed(&["sync", &store]), format!("synced {store}\n"));
    assert_eq!(boot(&store), 0);
    // Read-only commands leave the store synced.
    succeed(&["check", &store]);
    succeed(&["stat", &store]);
    let file = place.path("file");
    succeed(&["export", &store, &file]);
    assert_eq!(boot(&store), 0);
    succeed(&["exec", "--store", &store, "SET", "key", "other"]);
    assert_ne!(boot(&store), 0);
    let mut server = Server::start(&place, &[]);
    assert_eq!(server.connect().call("SET key third"), "+OK");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().0, Some(0));
    assert_eq!(boot(&store), 0);
    let copy = place.path("copy");
    succeed(&["import", &file, "--store", &copy, "--capacity", "256mb"]);
    assert_eq!(boot(&copy), 0);
}

#[test]
fn server_reports_which_file_was_truncated() {
    let place = Place::new();
    let mut server = Server::start(&place, &[]);
    assert_eq!(server.connect().call("SET key value"), "+OK");
    let store = place.path("served");
    let file = File::options().write(true).open(&store).expect("a store");
    file.set_len(0).expect("a shorter file");
    // The server checks its store even if no command runs.
    let (status, log) = server.wait();
    assert_eq!(status, Some(1), "{log}");
    let told = format!("the store {store} is lost: its file was truncated");
    assert!(log.contains(&told), "{log}");
}
