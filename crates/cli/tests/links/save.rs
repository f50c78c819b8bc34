//! SAVE and BGSAVE of a server whose operator chose a folder for snapshots.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::Kind;

use crate::compare::assert_equal;
use crate::data::fill;
use crate::support::{Place, call, connect, line, run, serve, start_with};

fn info(client: &mut Client, field: &str) -> String {
    let reply = line(client, "INFO persistence");
    let text = String::from_utf8_lossy(reply.bytes().expect("text")).into_owned();
    let found = text.lines().find_map(|line| line.strip_prefix(field));
    let value = found.and_then(|rest| rest.strip_prefix(':'));
    value
        .unwrap_or_else(|| panic!("no {field} in {text}"))
        .to_owned()
}

/// Waits until no snapshot is being written.
fn wait(client: &mut Client) {
    while info(client, "rdb_bgsave_in_progress") != "0" {
        std::thread::yield_now();
    }
}

fn error(client: &mut Client, words: &[&str]) -> String {
    match client.call(words).expect("the server answers") {
        Reply::Error(text) => String::from_utf8_lossy(&text).into_owned(),
        other => panic!("{words:?}: expected an error, got {other:?}"),
    }
}

#[test]
fn snapshots_are_written_to_the_folder_of_the_operator() {
    let place = Place::new();
    let folder = place.path("snapshots");
    fs::create_dir(&folder).expect("a new folder");
    let ours = serve(&["--dir", &folder]);
    let mut our = connect(&ours);
    fill(&mut our, Kind::Undercroft);
    assert_eq!(line(&mut our, "SAVE"), Reply::Simple(b"OK".to_vec()));
    let file = Path::new(&folder).join("dump.rdb");
    let status = file.metadata().expect("a snapshot");
    assert_eq!(status.permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(&file).expect("a snapshot");
    let files = vec![("dump.rdb".to_owned(), bytes)];
    let theirs = start_with(Kind::Redis, &[], files).expect("redis-server starts");
    assert_equal(&mut our, &mut connect(&theirs));
    assert_eq!(info(&mut our, "rdb_saves"), "1");
    assert_eq!(info(&mut our, "rdb_last_bgsave_status"), "ok");
    let Reply::Integer(saved) = line(&mut our, "LASTSAVE") else {
        panic!("expected a time");
    };
    assert_eq!(info(&mut our, "rdb_last_save_time"), saved.to_string());
    let modified = status.modified().expect("a time");
    let modified = modified
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    assert!(saved.abs_diff(modified.as_secs() as i64) <= 1, "{saved}");
    // BGSAVE replaces the file, and leaves no other one.
    line(&mut our, "SET later 1");
    line(&mut our, "BGSAVE");
    wait(&mut our);
    assert_eq!(info(&mut our, "rdb_saves"), "2");
    let left: Vec<_> = fs::read_dir(&folder).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(
        fs::read(&file)
            .expect("a snapshot")
            .windows(5)
            .any(|part| part == b"later")
    );
    // A client can read the place, but not change it.
    let shown = call(&mut our, &["CONFIG", "GET", "d*"]);
    let Reply::Array(shown) = shown else {
        panic!("expected parameters, got {shown:?}");
    };
    for expected in [folder.as_bytes(), b"dump.rdb"] {
        assert!(
            shown.iter().any(|text| text.bytes() == Some(expected)),
            "{shown:?}"
        );
    }
    for name in ["dir", "dbfilename"] {
        let why = error(&mut our, &["CONFIG", "SET", name, "/tmp"]);
        assert!(why.contains("can't set protected config"), "{why}");
    }
}

#[test]
fn failed_snapshot_keeps_the_old_file_and_is_reported() {
    let place = Place::new();
    let folder = place.path("snapshots");
    fs::create_dir(&folder).expect("a new folder");
    let ours = serve(&["--dir", &folder, "--dbfilename", "cache.rdb"]);
    let mut our = connect(&ours);
    line(&mut our, "SET k v");
    line(&mut our, "SAVE");
    let file = Path::new(&folder).join("cache.rdb");
    let before = fs::read(&file).expect("a snapshot");
    line(&mut our, "FEED.CREATE feed SIZE 8");
    let why = error(&mut our, &["SAVE"]);
    assert_eq!(
        why,
        "ERR an RDB file cannot contain 1 feed; copy the store with undercroft export"
    );
    assert_eq!(info(&mut our, "rdb_last_bgsave_status"), "err");
    assert_eq!(fs::read(&file).expect("a snapshot"), before);
    line(&mut our, "DEL feed");
    fs::rename(&folder, place.path("elsewhere")).expect("a free name");
    let why = error(&mut our, &["SAVE"]);
    assert!(
        why.starts_with("ERR writing ") && why.contains("No such file"),
        "{why}"
    );
    fs::rename(place.path("elsewhere"), &folder).expect("a free name");
    line(&mut our, "SAVE");
    assert_eq!(info(&mut our, "rdb_last_bgsave_status"), "ok");
    let left: Vec<_> = fs::read_dir(&folder).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn store_with_a_journal_gets_a_checkpoint_and_a_snapshot() {
    let place = Place::new();
    let (folder, journal) = (place.path("snapshots"), place.path("journal"));
    fs::create_dir(&folder).expect("a new folder");
    let arguments = ["--durability", "everysec", "--journal", &journal];
    let ours = serve(&[&arguments[..], &["--dir", &folder]].concat());
    let mut our = connect(&ours);
    line(&mut our, "SET k v");
    let before = info(&mut our, "journal_checkpoint_position");
    line(&mut our, "SAVE");
    assert_ne!(info(&mut our, "journal_checkpoint_position"), before);
    assert!(Path::new(&folder).join("dump.rdb").exists());
    // BGREWRITEAOF writes a checkpoint only.
    fs::remove_file(Path::new(&folder).join("dump.rdb")).expect("a snapshot");
    line(&mut our, "BGREWRITEAOF");
    wait(&mut our);
    assert!(!Path::new(&folder).join("dump.rdb").exists());
}

#[test]
fn nothing_is_written_unless_the_operator_chose_a_folder() {
    let ours = serve(&[]);
    let mut our = connect(&ours);
    let why = error(&mut our, &["SAVE"]);
    assert!(
        why.contains("the store has no journal") && why.contains("dump.rdb (dir)"),
        "{why}"
    );
    error(&mut our, &["CONFIG", "SET", "dir", "/tmp"]);
    let usage = run(&["serve", "--dir", "/nonexistent/folder"]);
    assert_eq!(usage.status, 2, "{usage:?}");
    assert!(
        usage
            .errors
            .contains("expected a folder for the file of SAVE"),
        "{usage:?}"
    );
    let usage = run(&["serve", "--dir", "/tmp", "--dbfilename", "../x"]);
    assert!(usage.errors.contains("can't be a path"), "{usage:?}");
}

#[test]
fn shutdown_with_save_writes_the_snapshot_of_a_configuration_file() {
    let place = Place::new();
    let folder = place.path("snapshots");
    fs::create_dir(&folder).expect("a new folder");
    let file = place.file(
        "conf",
        format!("dir {folder}\ndbfilename last.rdb\n").as_bytes(),
    );
    let binary = assert_cmd::cargo::cargo_bin("undercroft");
    let socket = place.path("socket");
    let mut ours = Command::new(binary)
        .args(["serve", &place.path("store"), "--port", "0"])
        .args(["--unixsocket", &socket, "--config", &file])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let address = Address::Unix(socket.into());
    let mut our = loop {
        match Client::connect(&address) {
            Ok(client) => break client,
            Err(_) if ours.try_wait().expect("a child").is_none() => std::thread::yield_now(),
            Err(error) => panic!("the server ended: {error}"),
        }
    };
    line(&mut our, "SET k v");
    // The server closes the connection instead of replying.
    let _ = our.call(["SHUTDOWN", "SAVE"]);
    assert!(ours.wait().expect("a child").success());
    let bytes = fs::read(Path::new(&folder).join("last.rdb")).expect("a snapshot");
    assert!(bytes.starts_with(b"REDIS0010"));
}
