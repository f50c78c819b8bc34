//! Defines scenarios for stores that have replicas: logging changes, and the stream of changes.

use undercroft_engine::{Changes, PackedLimits, REPLICATION_ID, Store, Stream};

use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::{large_in_both, some_keys};

/// The scenarios for stores that have replicas.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("a stream begins", some_keys, |s| begin(s, 40)),
    quick("a stream ends", sent, |s| s.end_stream().expect("room")),
    quick("a change is logged", logged, |s| {
        s.set(0, &key(0, 1), b"another value").expect("room");
    }),
    quick("a change of a part is logged", logged_large, |s| {
        let field = b"field of a large hash";
        let limits = &PackedLimits::HASH;
        assert!(s.hash_set(0, b"hash", field, b"new", limits).expect("room"));
    }),
    full("changes in two shards are logged", logged, |s| {
        let (one, other) = (key(0, 1), key(1, 1));
        let pairs: [(&[u8], &[u8]); 2] = [(&one, b"1"), (&other, b"2")];
        s.set_many(0, &pairs).expect("room");
    }),
    full("a long name is logged", logged, |s| {
        s.set(0, &[b'n'; 20_000], b"value").expect("room");
    }),
    Scenario {
        gradual: true,
        ..full("a removed database is logged", logged, |s| {
            s.flush(&[0], true).expect("room");
        })
    },
    quick("changes are sent", changed, |s| send(s, b"the commands")),
    quick("changes are sent after others", sent_and_changed, |s| {
        send(s, b"the commands, which do not begin at a word");
    }),
    Scenario {
        gradual: true,
        ..log_steps("changes are sent in pieces", sent_and_changed, |s| {
            send(s, &[b'c'; 600 << 10]);
        })
    },
    quick("a part of the backlog is dropped", sent_at_length, |s| {
        s.trim_backlog(35_000).expect("room");
    }),
    quick("the complete backlog is dropped", sent_at_length, |s| {
        s.trim_backlog(u64::MAX).expect("room");
    }),
];

fn begin(store: &Store, end: u64) {
    let stream = Stream {
        id: [b'4'; REPLICATION_ID],
        earlier: None,
        file: 0,
        start: end,
        end,
    };
    store.begin_stream(&stream).expect("room");
}

fn logged(store: &Store) {
    some_keys(store);
    begin(store, 40);
}

fn logged_large(store: &Store) {
    large_in_both(store);
    for number in 0..300_u32 {
        let name = format!("field{number}");
        let limits = &PackedLimits::HASH;
        store
            .hash_set(0, b"hash", name.as_bytes(), b"value", limits)
            .expect("room");
    }
    begin(store, 40);
}

fn changed(store: &Store) {
    logged(store);
    for shard in 0..2 {
        for number in 0..3 {
            let name = key(shard, number);
            store.set(0, &name, b"changed").expect("room");
        }
    }
}

/// Appends commands for all logged changes to the stream.
fn send(store: &Store, commands: &[u8]) {
    let starts = store.log_starts().expect("sound");
    let Changes { ends, .. } = store.changes_after(&starts).expect("sound");
    store.append_to_stream(commands, &ends).expect("room");
}

fn sent(store: &Store) {
    changed(store);
    send(store, b"five");
}

fn sent_and_changed(store: &Store) {
    sent(store);
    store.set(0, &key(1, 2), b"changed again").expect("room");
}

fn sent_at_length(store: &Store) {
    changed(store);
    send(store, &[b'l'; 50_000]);
}
