//! A data set that replaces another one under running readers, which see all of the old data or all of
//! the new data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use undercroft_engine::Error;

use crate::support::{Follower, Place, call, field, redis, url_of};

/// The number of keys in a data set that the readers look for.
const KEYS: usize = 300;
const ROUNDS: u64 = 8;

/// Ends the readers, also when the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the name of a key in a data set.
fn name(generation: u64, number: usize) -> String {
    // The names of two generations are used in turn, so that each data set adds and removes keys.
    format!("{}:{number}", generation % 2)
}

#[test]
fn readers_see_the_old_or_the_new_data_set_as_a_whole() {
    let source = redis(&["--repl-backlog-size", "16kb"]);
    let write = |generation: u64| {
        call(&source, &["FLUSHALL"]);
        let value = generation.to_string();
        let names: Vec<String> = (0..KEYS).map(|number| name(generation, number)).collect();
        let mut words = vec!["MSET", "shared", &value];
        words.extend(names.iter().flat_map(|name| [name.as_str(), &value]));
        call(&source, &words);
        // More than the backlog, so that the data set is loaded again.
        call(&source, &["SET", "long", &"x".repeat(2 << 20)]);
    };
    write(0);
    let place = Place::new();
    let start = || Follower::start(&url_of(&source), place.store.path(), &[]);
    let mut follower = start();
    place.catch_up(&source);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            let names: Vec<[String; 2]> = (0..KEYS).map(|n| [name(0, n), name(1, n)]).collect();
            let store = &place.store;
            let keys: Vec<_> = (names.iter())
                .map(|both| both.each_ref().map(|name| store.key(name.as_bytes())))
                .collect();
            let (mut reads, mut last) = (0_u64, 0);
            while !is_done.load(Ordering::Relaxed) {
                // One read of all shards sees one moment.
                let found = store.read(store.all_shards(), |reader| {
                    (keys.iter())
                        .map(|[even, odd]| {
                            let even = reader.find(0, even)?.is_some();
                            Ok((even, reader.find(0, odd)?.is_some()))
                        })
                        .collect::<Result<Vec<(bool, bool)>, Error>>()
                });
                let found = found.expect("a whole store");
                assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
                assert_ne!(found[0].0, found[0].1, "both data sets, or none");
                // A later read never sees an earlier data set.
                let text = place.get(0, "shared").expect("every data set has the key");
                let seen: u64 = text.parse().expect("a number");
                assert!(seen >= last, "{seen} after {last}");
                last = seen;
                reads += 1;
            }
            reads
        };
        let end = End(&is_done);
        let readers = [scope.spawn(read), scope.spawn(read)];
        for generation in 1..=ROUNDS {
            follower.kill();
            write(generation);
            follower = start();
            place.catch_up(&source);
            let value = generation.to_string();
            assert_eq!(place.get(0, "shared"), Some(value), "{}", place.describe());
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
        }
        drop(end);
        for reader in readers {
            assert!(reader.join().expect("a reader") > 0);
        }
    });
    // A data set for each round, and the first one.
    let full = field(&source, "stats", "sync_full");
    assert_eq!(full, (ROUNDS + 1).to_string());
}
