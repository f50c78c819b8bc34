//! Tests that a server can open the files that it needs, and no other ones.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;
use undercroft_conformance::client::Client;
use undercroft_conformance::servers::{Kind, Server as Remote, Settings};

use crate::support::{Place, Server, command, wait_until};

/// Returns a directory outside every folder that a server may use, or `None` if the kernel cannot
/// restrict a server, so that the test is skipped.
fn outside() -> Option<TempDir> {
    let place = Place::new();
    let mut server = Server::start(&place, "");
    if server.start.contains("sandbox: none") {
        println!("skipped: {}", server.start);
        return None;
    }
    server.stop();
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("space");
    Some(directory)
}

fn certificate(folder: &Path) {
    let folder = folder.to_str().expect("ASCII");
    let made = command(&["tls", "init", folder, "--host", "localhost"]).output();
    let made = made.expect("the binary runs");
    assert!(made.status.success(), "{made:?}");
}

fn of_tls(folder: &str) -> String {
    format!(
        "tls-port {}\ntls-cert-file {folder}/server.pem\ntls-key-file {folder}/server.key\ntls-auth-clients no",
        crate::support::spare_port()
    )
}

#[test]
fn kernel_refuses_files_outside_the_sandbox() {
    let Some(outside) = outside() else { return };
    let users = "user default on nopass ~* &* +@all\nuser found on nopass +get\n";
    let target = outside.path().join("users.acl");
    fs::write(&target, users).expect("space");
    for (sandbox, is_read) in [("no", true), ("auto", false), ("yes", false)] {
        let place = Place::new();
        let path = place.file("users.acl", "user default on nopass ~* &* +@all\n");
        let server = Server::start(&place, &format!("aclfile {path}\nsandbox {sandbox}"));
        let mut client = server.connect();
        // The file that the server may read now leads to one that it may not read.
        fs::remove_file(&path).expect("a file");
        symlink(&target, &path).expect("space");
        let reply = client.call("ACL LOAD");
        match is_read {
            true => assert_eq!(reply, "+OK"),
            false => assert!(reply.contains("Permission denied"), "{sandbox}: {reply}"),
        }
        let state = if is_read { "none" } else { "landlock" };
        let info = client.call("INFO server");
        let partial = info.contains("sandbox:partial\r\n") && !is_read;
        assert!(
            partial || info.contains(&format!("sandbox:{state}\r\n")),
            "{info}"
        );
    }
}

#[test]
fn paths_outside_the_sandbox_are_refused_with_the_remedy() {
    let Some(outside) = outside() else { return };
    let (place, inside) = (Place::new(), Place::new());
    for folder in [outside.path(), Path::new(&inside.path(""))] {
        certificate(folder);
    }
    let lines = format!("enable-protected-configs yes\n{}", of_tls(&inside.path("")));
    let server = Server::start(&place, &lines);
    let mut client = server.connect();
    let other = outside.path().to_str().expect("ASCII");
    for change in [
        format!("tls-cert-file {other}/server.pem tls-key-file {other}/server.key"),
        format!("tls-ca-cert-dir {other}"),
        format!("dir {other}"),
    ] {
        let reply = client.call(&format!("CONFIG SET {change}"));
        assert!(
            reply.contains("is outside the sandbox"),
            "{change}: {reply}"
        );
        assert!(reply.contains("sandbox no"), "{change}: {reply}");
    }
    assert!(!client.call("CONFIG GET tls-cert-file").contains(other));
    assert_eq!(
        client.call(&format!("CONFIG SET dir {}", place.path(""))),
        "+OK"
    );
}

#[test]
fn everything_else_works_in_the_sandbox() {
    let Some(_) = outside() else { return };
    let (place, folder) = (Place::new(), Place::new());
    certificate(Path::new(&folder.path("")));
    let users = folder.file("users.acl", "user default on nopass ~* &* +@all\n");
    let audit = folder.path("audit");
    let lines = format!(
        "sandbox yes\naclfile {users}\naudit-log {audit}\ndir {}\n{}",
        folder.path(""),
        of_tls(&folder.path(""))
    );
    let source = Remote::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let address = source.address().to_string();
    let (_, port) = address.rsplit_once(':').expect("a port");
    let mut server = Server::start(&place, &lines);
    let mut client = server.connect();
    for (line, reply) in [
        ("SET k v", "+OK"),
        ("SAVE", "+OK"),
        ("ACL SETUSER u on nopass", "+OK"),
        ("ACL SAVE", "+OK"),
        ("ACL LOAD", "+OK"),
        ("CONFIG SET appendonly yes", "+OK"),
        ("EVAL \"return redis.call('get','k')\" 0", "v"),
        ("INFO everything", ""),
    ] {
        let got = client.call(line);
        assert!(got.starts_with(reply), "{line}: {got}");
    }
    assert!(client.call("BGREWRITEAOF").starts_with('+'));
    // The checkpoint must end first.
    wait_until("the journal ends", || {
        client.call("CONFIG SET appendonly no") == "+OK"
    });
    assert!(Path::new(&folder.path("dump.rdb")).exists());
    // Files that are replaced by renaming can be read.
    let fresh = Place::new();
    certificate(Path::new(&fresh.path("")));
    for name in ["server.pem", "server.key"] {
        fs::copy(fresh.path(name), folder.path("new")).expect("space");
        fs::rename(folder.path("new"), folder.path(name)).expect("space");
    }
    fs::rename(&audit, folder.path("audit.1")).expect("a file");
    server.signal(Signal::HUP);
    server.log_line("opened again");
    server.log_line("was read again");
    // A source is reached by its name.
    assert_eq!(client.call(&format!("REPLICAOF localhost {port}")), "+OK");
    let mut theirs = Client::connect(source.address()).expect("it accepts");
    theirs
        .call(
            ["SET", "from", "source"]
                .map(|word| word.as_bytes().to_vec())
                .to_vec(),
        )
        .expect("a reply");
    wait_until("the change arrives", || client.call("GET from") == "source");
    assert_eq!(client.call("REPLICAOF no one"), "+OK");
    // A removed store is created again.
    fs::remove_file(place.path("served")).expect("a file");
    wait_until("a new store", || server.connect().call("SET k v") == "+OK");
    let (status, log) = server.stop();
    assert_eq!(status, Some(0), "{log}");
    assert!(!Path::new(&place.path("socket")).exists());
}
