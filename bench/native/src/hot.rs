//! Measures `get` and `set`, compared with the standard library's HashMap in the same run.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use clap::{Args, ValueEnum};
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_embedded::StoreOf;
use undercroft_engine::messages::Tracker;

use crate::fresh_store;

/// The sizes of a key and of a value in bytes.
const KEY: usize = 16;
const VALUE: usize = 64;

#[derive(Args)]
pub(crate) struct Work {
    /// The number of keys.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// The number of interleaved rounds over all keys.
    #[arg(long, default_value_t = 21)]
    rounds: usize,
}

#[derive(Args)]
pub(crate) struct Loop {
    /// The operation: get, set, or execute, which runs GET as a command.
    operation: String,
    /// The number of keys.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// The number of passes over all keys.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// The keys that the clients of a server track.
    #[arg(long, value_enum, default_value_t = Tracked::None)]
    tracked: Tracked,
}

/// The keys that the clients of a server track.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tracked {
    /// No client tracks keys.
    None,
    /// As many other keys.
    Other,
    /// Each key.
    Each,
    /// All keys of the store.
    All,
}

/// Returns keys in an order that no prefetcher can predict and that is the same in every run.
pub(crate) fn keys(count: usize) -> Vec<[u8; KEY]> {
    let mut keys: Vec<_> = (0..count)
        .map(|index| {
            let text = format!("key:{index:012}");
            text.into_bytes().try_into().expect("16 bytes")
        })
        .collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for index in (1..keys.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        keys.swap(index, (state % (index as u64 + 1)) as usize);
    }
    keys
}

pub(crate) fn value(round: usize) -> [u8; VALUE] {
    [b'a' + (round % 26) as u8; VALUE]
}

fn filled(keys: &[[u8; KEY]]) -> (tempfile::TempDir, StoreOf) {
    let (directory, store) = fresh_store(4 << 30);
    for key in keys {
        store.set(0, key, &value(0)).expect("room");
    }
    (directory, store)
}

/// Prints the nanoseconds per operation in each round, for Undercroft and for the HashMap.
fn report(ours: &[f64], theirs: &[f64], loop_cost: f64) {
    println!("{{\"ours_ns\": {ours:?}, \"theirs_ns\": {theirs:?}, \"loop_ns\": {loop_cost:?}}}");
}

fn timed(keys: &[[u8; KEY]], mut operation: impl FnMut(&[u8; KEY])) -> f64 {
    let start = Instant::now();
    for key in keys {
        operation(black_box(key));
    }
    start.elapsed().as_nanos() as f64 / keys.len() as f64
}

impl Work {
    pub(crate) fn get(&self) {
        let keys = keys(self.keys);
        let (_directory, store) = filled(&keys);
        let map: HashMap<Vec<u8>, Vec<u8>> = keys
            .iter()
            .map(|key| (key.to_vec(), value(0).to_vec()))
            .collect();
        let mut out = Vec::with_capacity(VALUE);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            ours.push(timed(&keys, |key| {
                out.clear();
                assert!(store.get(0, key, &mut out).expect("readable"));
                black_box(&out);
            }));
            assert_eq!(out, value(0));
            theirs.push(timed(&keys, |key| {
                out.clear();
                out.extend_from_slice(map.get(&key[..]).expect("there"));
                black_box(&out);
            }));
        }
        let loop_cost = timed(&keys, |key| {
            black_box(key);
        });
        report(&ours, &theirs, loop_cost);
    }

    pub(crate) fn set(&self) {
        let keys = keys(self.keys);
        let (_directory, store) = filled(&keys);
        let mut map: HashMap<Vec<u8>, Vec<u8>> = keys
            .iter()
            .map(|key| (key.to_vec(), value(0).to_vec()))
            .collect();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let value = value(round);
            ours.push(timed(&keys, |key| {
                store.set(0, key, black_box(&value)).expect("room");
            }));
            theirs.push(timed(&keys, |key| {
                black_box(map.insert(key.to_vec(), black_box(&value).to_vec()));
            }));
        }
        let mut out = Vec::new();
        assert!(store.get(0, &keys[0], &mut out).expect("readable"));
        assert_eq!(out, value(self.rounds - 1));
        let loop_cost = timed(&keys, |key| {
            black_box(key);
        });
        report(&ours, &theirs, loop_cost);
    }
}

impl Loop {
    pub(crate) fn run(&self) {
        let keys = keys(self.keys);
        let (_directory, store) = filled(&keys);
        let mut out = Vec::with_capacity(VALUE);
        let mut session = store.0.session();
        let mut tracker = Tracker::new(&store.0.store);
        if self.tracked != Tracked::None {
            let mut tracked = tracker.begin().expect("room");
            if self.tracked == Tracked::All {
                tracker.track_all().expect("no process holds a lock");
            }
            for key in &keys {
                let read = match self.tracked {
                    Tracked::None | Tracked::All => break,
                    Tracked::Other => &key[..KEY - 1],
                    Tracked::Each => &key[..],
                };
                tracked.add(read, true);
            }
        }
        for round in 0..self.rounds {
            let value = value(round);
            for key in &keys {
                // Without `black_box`, the compiler would specialize the calls for these constant
                // lengths, an advantage that few programs have.
                let (database, key, value) = black_box((0, &key[..], &value[..]));
                match self.operation.as_str() {
                    "get" => {
                        out.clear();
                        assert!(store.get(database, key, &mut out).expect("readable"));
                    }
                    "set" => store.set(database, key, value).expect("room"),
                    "execute" => {
                        let mut reply = Recorder::new();
                        let done = store.0.execute(&mut session, &[b"GET", key], &mut reply);
                        done.expect("no process holds a lock");
                        assert!(matches!(reply.finish().as_deref(), Ok([Tree::Bulk(_)])));
                    }
                    other => panic!("expected get, set or execute, got {other}"),
                }
            }
        }
        println!("{{\"operations\": {}}}", self.rounds * keys.len());
    }
}
