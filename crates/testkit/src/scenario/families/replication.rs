//! Defines scenarios for replicas: the changes of a source, and its complete data sets.

use undercroft_engine::{
    AppliedPosition, Error, Expiry, REPLICATION_ID, Source, SourceLink, Store,
};

use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::{large_in_both, some_keys};

/// The scenarios for replicas.
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

/// Applies a change of one key in each of some shards, and its position in the source's stream.
fn apply(store: &Store, first: usize, shards: usize) {
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
            access.note_applied(AppliedPosition {
                offset: 777,
                database: 2,
            })
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
