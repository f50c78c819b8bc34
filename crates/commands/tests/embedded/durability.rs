//! Tests the commands and parameters that concern the store's journal.

use undercroft_commands::reply::Tree;
use undercroft_engine::Durability;

use crate::Client;

impl Client {
    /// Returns the value of a parameter.
    fn parameter(&mut self, name: &str) -> String {
        match self.run(&format!("CONFIG GET {name}")) {
            Tree::Map(pairs) => match &pairs[..] {
                [(_, Tree::Bulk(value))] => String::from_utf8_lossy(value).into_owned(),
                other => panic!("{name}: {other:?}"),
            },
            other => panic!("{name}: {other:?}"),
        }
    }

    /// Returns the value of a field of INFO.
    fn figure(&mut self, name: &str) -> String {
        let Tree::Verbatim { text, .. } = self.run("INFO persistence") else {
            panic!("no text");
        };
        let text = String::from_utf8(text).expect("text");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .to_owned()
    }

    fn ok(&mut self, line: &str) {
        assert_eq!(self.run(line), Tree::Simple("OK".into()), "{line}");
    }
}

fn pair(first: i64, second: i64) -> Tree {
    Tree::Array(vec![Tree::Integer(first), Tree::Integer(second)])
}

#[test]
fn appendonly_begins_and_ends_a_journal() {
    let mut client = Client::new(None);
    assert_eq!(client.parameter("appendonly"), "no");
    assert_eq!(client.parameter("durability"), "none");
    assert_eq!(client.figure("journal_durability"), "none");
    client.ok("CONFIG SET appendfsync always");
    assert_eq!(client.store.durability(), Durability::None);
    client.ok("CONFIG SET appendonly yes");
    assert_eq!(client.store.durability(), Durability::Always);
    assert_eq!(client.parameter("appendonly"), "yes");
    assert_eq!(client.parameter("appendfsync"), "always");
    assert_eq!(client.figure("journal_in_memory"), "1");
    client.ok("CONFIG SET durability everysec maxmemory 100mb");
    assert_eq!(client.parameter("appendfsync"), "everysec");
    assert_eq!(client.parameter("maxmemory"), (100 << 20).to_string());
    let folder = client.store.journal().expect("a journal").folder;
    assert!(folder.is_dir());
    client.ok("CONFIG SET appendonly no");
    assert_eq!(client.store.durability(), Durability::None);
    assert!(!folder.is_dir() || folder.read_dir().expect("a folder").count() == 0);
}

#[test]
fn mode_that_cannot_begin_changes_no_parameter() {
    let mut client = Client::new(None);
    let folder = client.directory.path().join("store.journal");
    std::fs::write(&folder, b"no folder").expect("a file");
    let error = client.error("CONFIG SET maxmemory 7mb appendonly yes");
    assert!(
        error.contains("'appendonly'") && error.contains("store.journal"),
        "{error}"
    );
    assert_eq!(client.parameter("appendonly"), "no");
    for (line, part) in [
        ("CONFIG SET appendfsync no", "everysec"),
        ("CONFIG SET durability always appendonly yes", "not both"),
        ("CONFIG SET durability sometimes", "must be one of"),
    ] {
        let error = client.error(line);
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn checkpoints_need_a_journal() {
    let mut client = Client::new(None);
    for line in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE", "BGREWRITEAOF"] {
        assert!(
            client.error(line).contains("CONFIG SET appendonly yes"),
            "{line}"
        );
    }
    assert_eq!(client.error("BGSAVE now"), "ERR syntax error");
    assert_eq!(client.error("BGSAVE SCHEDULE now"), "ERR syntax error");
    assert_eq!(client.run("LASTSAVE"), Tree::Integer(0));
}

#[test]
fn save_writes_a_checkpoint() {
    let mut client = Client::new(None);
    client.ok("CONFIG SET appendonly yes");
    let first = client.figure("journal_checkpoint_position");
    client.ok("SET k v");
    client.ok("SAVE");
    assert_ne!(client.figure("journal_checkpoint_position"), first);
    assert_eq!(client.figure("rdb_saves"), "1");
    assert_eq!(client.figure("rdb_last_bgsave_status"), "ok");
    for (line, text) in [
        ("BGSAVE", "Background saving started"),
        (
            "BGREWRITEAOF",
            "Background append only file rewriting started",
        ),
    ] {
        assert_eq!(client.run(line), Tree::Simple(text.into()));
        // Another one can begin when this one has ended.
        while client.figure("aof_rewrite_in_progress") == "1" {
            std::thread::yield_now();
        }
    }
    while client.figure("rdb_saves") != "3" {
        std::thread::yield_now();
    }
}

#[test]
fn checkpoint_that_fails_is_reported() {
    let mut client = Client::new(None);
    client.ok("CONFIG SET appendonly yes");
    let folder = client.store.journal().expect("a journal").folder;
    std::fs::remove_dir_all(&folder).expect("a folder");
    std::fs::write(&folder, b"no folder").expect("a file");
    let error = client.error("SAVE");
    assert!(
        error.starts_with("MISCONF") && error.contains("store.journal"),
        "{error}"
    );
    assert_eq!(client.figure("rdb_last_bgsave_status"), "err");
    assert_eq!(client.figure("aof_rewrites_consecutive_failures"), "1");
}

#[test]
fn waitaof_makes_changes_durable() {
    let mut client = Client::new(None);
    assert_eq!(
        client.error("WAITAOF 1 0 0"),
        "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled."
    );
    assert_eq!(client.run("WAITAOF 0 0 0"), pair(0, 0));
    client.ok("CONFIG SET appendonly yes");
    client.ok("SET k v");
    let lag = |client: &mut Client| client.figure("journal_lag_bytes");
    assert_eq!(client.run("WAITAOF 1 0 0"), pair(1, 0));
    assert_eq!(lag(&mut client), "0");
    assert_eq!(client.figure("journal_lag_sec"), "0.000");
    assert_eq!(client.run("WAITAOF 0 1 5"), pair(1, 0));
    client.ok("MULTI");
    client.run("WAITAOF 1 0 0");
    assert_eq!(client.run("EXEC"), Tree::Array(vec![pair(1, 0)]));
    for (line, text) in [
        (
            "WAITAOF 2 0 0",
            "ERR value is out of range, value must between 0 and 1",
        ),
        (
            "WAITAOF x 0 0",
            "ERR value is not an integer or out of range",
        ),
        (
            "WAITAOF 1 -1 0",
            "ERR value is out of range, must be positive",
        ),
        ("WAITAOF 1 0 -1", "ERR timeout is negative"),
        (
            "WAITAOF 1 0 x",
            "ERR timeout is not an integer or out of range",
        ),
    ] {
        assert_eq!(client.error(line), text, "{line}");
    }
}

#[test]
fn reload_is_refused() {
    let mut client = Client::new(None);
    for line in ["DEBUG RELOAD", "DEBUG RELOAD NOSAVE", "DEBUG LOADAOF"] {
        assert!(client.error(line).contains("journal verify"), "{line}");
    }
}
