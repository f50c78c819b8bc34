//! Tests that a replica refuses commands that change keys, with Redis' error, and runs all others.

use undercroft_commands::reply::Tree;
use undercroft_commands::table::{Flag, find};
use undercroft_engine::{AppliedPosition, REPLICATION_ID, Source, Store};

use crate::Client;
use crate::uses::USING;

const REFUSED: &str = "READONLY You can't write against a read only replica.";

fn is_refused(reply: &Tree) -> bool {
    matches!(reply, Tree::Error(text) if *text == REFUSED)
}

#[test]
fn commands_that_change_keys_are_refused() {
    let mut refused = 0;
    for (prepare, lines) in USING {
        for line in lines.split('|') {
            let mut client = Client::new(None);
            client.run(prepare);
            let before = client.run("DUMP k");
            client.store.set_replica(true).expect("a setting");
            let name = line.split(' ').next().unwrap_or_default();
            let command = find(name.as_bytes());
            let writes = command.expect("a command").flags.has(Flag::Write);
            let reply = client.run(line);
            assert_eq!(is_refused(&reply), writes, "{line}: {reply:?}");
            refused += u32::from(writes);
            assert_eq!(client.run("DUMP k"), before, "{line}");
            assert_eq!(client.run("DBSIZE"), Tree::Integer(1), "{line}");
        }
    }
    assert!(refused > 70, "{refused} commands");
}

#[test]
fn transactions_and_flushes_are_refused() {
    let mut client = Client::new(None);
    client.run("SET k v");
    client.store.set_replica(true).expect("a setting");
    for line in [
        "FLUSHALL",
        "FLUSHDB",
        "SWAPDB 0 1",
        "MOVE k 1",
        "FUNCTION FLUSH",
    ] {
        assert!(is_refused(&client.run(line)), "{line}");
    }
    client.run("MULTI");
    assert!(is_refused(&client.run("SET k w")));
    assert!(matches!(client.run("EXEC"), Tree::Error(text) if text.starts_with("EXECABORT")));
    client.run("MULTI");
    assert_eq!(client.run("GET k"), Tree::Simple("QUEUED".into()));
    let values = Tree::Array(vec![Tree::Bulk(b"v".to_vec())]);
    assert_eq!(client.run("EXEC"), values);
    // A transaction that was queued before.
    client.store.set_replica(false).expect("a setting");
    client.run("MULTI");
    client.run("SET k w");
    client.store.set_replica(true).expect("a setting");
    let aborted = client.run("EXEC");
    assert!(
        matches!(&aborted, Tree::Error(text) if text.contains("read only replica")),
        "{aborted:?}"
    );
    assert_eq!(client.run("GET k"), Tree::Bulk(b"v".to_vec()));
}

#[test]
fn handle_that_applies_the_source_runs_all_commands() {
    let mut client = Client::new(None);
    client.store.set_replica(true).expect("a setting");
    client.store = Store::open(client.store.path(), true).expect("the store");
    client.store.apply_source();
    for line in ["SET k v", "RPUSH list a b", "FLUSHALL"] {
        assert!(!matches!(client.run(line), Tree::Error(_)), "{line}");
    }
}

#[test]
fn replica_wait_replies_whether_a_position_is_applied() {
    let mut client = Client::new(None);
    let error = |client: &mut Client, line: &str| match client.run(line) {
        Tree::Error(text) => text.to_string(),
        reply => panic!("{line}: {reply:?}"),
    };
    assert_eq!(
        error(&mut client, "REPLICA.WAIT 0 10"),
        "ERR the store is no replica, so no source's changes arrive; follow a source first"
    );
    client.store.set_replica(true).expect("a setting");
    let source = Source {
        id: [b'a'; REPLICATION_ID],
        position: AppliedPosition {
            offset: 100,
            database: 0,
        },
    };
    client.store.set_source(&source).expect("room");
    for (line, reply) in [
        ("REPLICA.WAIT 100 0", 1),
        ("REPLICA.WAIT 100 600000", 1),
        ("REPLICA.WAIT 101 0", 0),
        ("REPLICA.WAIT 101 5", 0),
    ] {
        assert_eq!(client.run(line), Tree::Integer(reply), "{line}");
    }
    // Within a transaction, the command does not wait.
    client.run("MULTI");
    client.run("REPLICA.WAIT 101 600000");
    assert_eq!(client.run("EXEC"), Tree::Array(vec![Tree::Integer(0)]));
    for (line, text) in [
        (
            "REPLICA.WAIT -1 0",
            "ERR value is not an integer or out of range",
        ),
        (
            "REPLICA.WAIT x 0",
            "ERR value is not an integer or out of range",
        ),
        ("REPLICA.WAIT 1 -1", "ERR timeout is negative"),
        (
            "REPLICA.WAIT 1 x",
            "ERR timeout is not an integer or out of range",
        ),
    ] {
        assert_eq!(error(&mut client, line), text, "{line}");
    }
}
