//! Defines scenarios for replication: the changes and data sets of a replica's source, and the changes
//! of a store that has replicas.

use undercroft_engine::{
    Access, AppliedPosition, Changes, ClusterSource, Error, Expiry, Lane, PackedLimits,
    REPLICATION_ID, Source, SourceLink, Store, Stream,
};

use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::{large_in_both, some_keys};

/// The scenarios for replicas, and for stores that have replicas.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("a source is recorded", some_keys, |s| {
        s.set_source(&source(b'1', 500, 3)).expect("room");
    }),
    quick("another source is recorded", followed, |s| {
        s.set_source(&source(b'2', 100, 3)).expect("room");
    }),
    quick("the filter of a source is recorded", followed, |s| {
        s.set_source_filter(b"\x03prefix:").expect("room");
    }),
    quick("the connection to a source is recorded", linked, |s| {
        s.set_source_link(&link("an error")).expect("room");
    }),
    quick("a change of a source is applied", followed, |s| {
        apply(s, 0, 1);
    }),
    full("changes to two shards are applied", followed, |s| {
        apply(s, 0, 2);
    }),
    full("a data set replaces none", load, finish),
    full("a data set replaces some keys", loaded, finish),
    log_steps(
        "a data set replaces large values",
        loaded_over_large,
        finish,
    ),
    quick("a cluster is recorded", followed, |s| {
        s.set_cluster_source(&cluster(), |_| true).expect("room");
    }),
    quick("a slot of a cluster moves", followed_cluster, |s| {
        let mut source = cluster();
        source.moving.push((12, 1));
        s.set_cluster_source(&source, |_| false).expect("room");
    }),
    quick("a change of a lane is applied", followed_cluster, |s| {
        apply_with(s, 0, 1, |access, position| {
            access.note_applied_in(1, position)
        });
    }),
    full(
        "data sets of a cluster replace some keys",
        loaded_cluster,
        |s| {
            s.finish_loading_cluster(&cluster(), |lane| lane == 0)
                .expect("room");
        },
    ),
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
    quick("changes are sent", changed_keys, |s| {
        send(s, b"the commands")
    }),
    quick("changes are sent after others", sent_and_changed, |s| {
        send(s, b"the commands, which do not begin at a word");
    }),
    Scenario {
        gradual: true,
        ..log_steps("changes are sent in pieces", sent_and_changed, |s| {
            send(s, &[b'c'; 600 << 10]);
        })
    },
    Scenario {
        gradual: true,
        ..log_steps(
            "changes are sent one part after the other",
            sent_and_changed,
            |s| {
                send_in_pieces(s, &[b'p'; 40_000]);
            },
        )
    },
    quick("a part of the backlog is dropped", sent_at_length, |s| {
        s.trim_backlog(35_000).expect("room");
    }),
    quick("the complete backlog is dropped", sent_at_length, |s| {
        s.trim_backlog(u64::MAX).expect("room");
    }),
];

fn source(id: u8, offset: u64, database: usize) -> Source {
    Source {
        id: [id; REPLICATION_ID],
        position: AppliedPosition { offset, database },
    }
}

fn link(error: &str) -> SourceLink {
    SourceLink {
        host: "source.example".into(),
        error: error.into(),
        ..SourceLink::default()
    }
}

fn linked(store: &Store) {
    followed(store);
    store.set_source_link(&link("")).expect("room");
}

fn followed(store: &Store) {
    some_keys(store);
    store.set_source(&source(b'1', 500, 0)).expect("room");
}

fn cluster() -> ClusterSource {
    let lane = |number| Lane {
        number,
        id: [b'a' + number; REPLICATION_ID],
        node: "node".into(),
        host: "node.example".into(),
        port: 7000,
        position: source(b'1', 300, 0).position,
    };
    let mut cluster = ClusterSource {
        lanes: vec![lane(0), lane(1)],
        ..ClusterSource::default()
    };
    (0..100).for_each(|slot| cluster.owners.set(slot, Some((slot / 50) as u8)));
    cluster
}

fn followed_cluster(store: &Store) {
    some_keys(store);
    store
        .set_cluster_source(&cluster(), |_| true)
        .expect("room");
}

fn loaded_cluster(store: &Store) {
    followed_cluster(store);
    load(store);
}

fn apply(store: &Store, first: usize, shards: usize) {
    apply_with(store, first, shards, |access, position| {
        access.note_applied(position)
    });
}

/// Applies a change of one key in each of some shards, and records its position in the source's stream.
fn apply_with(
    store: &Store,
    first: usize,
    shards: usize,
    note: impl Fn(Access<'_>, AppliedPosition) -> Result<(), Error> + Sync,
) {
    let keys: Vec<Vec<u8>> = (first..first + shards).map(|shard| key(shard, 1)).collect();
    let named: Vec<_> = keys.iter().map(|key| store.key(key)).collect();
    store
        .transact(store.shards_of(&named), |running| {
            let access = running.access();
            for key in &named {
                access.write(store.shards_of([key]), |writer| {
                    writer.set(0, key, b"the source's value", Expiry::Never)?;
                    Ok::<_, Error>(())
                })?;
            }
            let position = AppliedPosition {
                offset: 777,
                database: 2,
            };
            note(access, position)
        })
        .expect("room");
}

fn load(store: &Store) {
    store.begin_loading().expect("room");
    for shard in 0..2 {
        for number in 0..3 {
            let database = undercroft_engine::loading_database(number % 2);
            let name = key(shard, number);
            store.set(database, &name, b"loaded").expect("room");
        }
    }
}

fn loaded(store: &Store) {
    followed(store);
    load(store);
}

fn loaded_over_large(store: &Store) {
    large_in_both(store);
    load(store);
}

fn finish(store: &Store) {
    store.finish_loading(&source(b'3', 40, 1)).expect("room");
}

fn begin(store: &Store, end: u64) {
    let stream = Stream {
        id: [b'4'; REPLICATION_ID],
        earlier: None,
        file: 0,
        is_old: false,
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

fn changed_keys(store: &Store) {
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

/// Appends commands in two pieces, of which none is part of the stream before both are.
fn send_in_pieces(store: &Store, commands: &[u8]) {
    let starts = store.log_starts().expect("sound");
    let Changes { ends, .. } = store.changes_after(&starts).expect("sound");
    store.discard_unsent().expect("room");
    let (first, last) = commands.split_at(commands.len() / 2);
    store.append_unsent(first).expect("room");
    store.complete_stream(last, &ends).expect("room");
}

fn sent(store: &Store) {
    changed_keys(store);
    send(store, b"five");
}

fn sent_and_changed(store: &Store) {
    sent(store);
    store.set(0, &key(1, 2), b"changed again").expect("room");
}

fn sent_at_length(store: &Store) {
    changed_keys(store);
    send(store, &[b'l'; 50_000]);
}
