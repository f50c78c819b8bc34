//! Measures `set` in two stores that servers serve at the same time: one with a replica, and one
//! without.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use undercroft_embedded::{OpenStore, Place};
use undercroft_engine::Terms;

use crate::hot::{keys, value};

/// The number of sets after which a pause can follow.
const AT_ONCE: usize = 100;

#[derive(Args)]
pub(crate) struct Work {
    /// The store without a replica.
    alone: PathBuf,
    /// The store with a replica.
    replicated: PathBuf,
    /// The number of keys.
    #[arg(long, default_value_t = 100_000)]
    keys: usize,
    /// The number of interleaved rounds over all keys.
    #[arg(long, default_value_t = 15)]
    rounds: usize,
    /// The number of sets a second, or 0 for as many as possible.
    #[arg(long, default_value_t = 0)]
    rate: u64,
}

fn open(path: &Path) -> Arc<OpenStore> {
    let name = path.to_str().expect("a path of letters");
    let place = Place::new(name, Terms::default()).expect("a path is a name");
    place.open(|| None).expect("the store of a server")
}

impl Work {
    pub(crate) fn run(&self) {
        let keys = keys(self.keys);
        let stores = [&self.alone, &self.replicated].map(|path| open(path));
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            let value = value(round);
            for (store, times) in stores.iter().zip(&mut times) {
                times.push(self.round(store, &keys, &value));
            }
        }
        let [alone, replicated] = times;
        println!("{{\"alone_ns\": {alone:?}, \"replicated_ns\": {replicated:?}}}");
    }

    /// Sets all keys. Returns the mean time of a set in ns, without the pauses between them.
    fn round(&self, store: &OpenStore, keys: &[[u8; 16]], value: &[u8]) -> f64 {
        let store = &store.store;
        let begun = Instant::now();
        let (mut spent, mut done) = (Duration::ZERO, 0_u64);
        for group in keys.chunks(AT_ONCE) {
            let start = Instant::now();
            for key in group {
                let (database, key, value) = black_box((0, &key[..], value));
                store.set(database, key, value).expect("room");
            }
            spent += start.elapsed();
            done += group.len() as u64;
            if self.rate > 0 {
                let due = Duration::from_secs_f64(done as f64 / self.rate as f64);
                std::thread::sleep(due.saturating_sub(begun.elapsed()));
            }
        }
        spent.as_nanos() as f64 / keys.len() as f64
    }
}
