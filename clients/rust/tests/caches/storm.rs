//! Runs a storm test. Writers constantly change the types and sizes of a few keys, and some writers
//! are killed, while readers check the crate's calls.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft::{Cache, Error, Result, Store, StoreCache};
use undercroft_testkit::fresh;
use undercroft_testkit::storm::shapes::{self, ITEMS, KEYS, check_members, check_values, word_of};

/// The environment variables that turn a run of this test into a writer: the path of the store, and
/// a seed.
const STORE: &str = "UNDERCROFT_STORM_STORE";
const SEED: &str = "UNDERCROFT_STORM_SEED";
const WRITERS: usize = 2;
const READERS: usize = 3;
/// The number of rounds that each reader makes, and the number of rounds by all readers together
/// between two kills of a writer.
const ROUNDS: u64 = 1500;
const A_KILL: u64 = 300;

/// Runs a writer process for the storm. This function is not a test.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let seed = std::env::var(SEED).expect("a seed");
    let done = shapes::write(Path::new(&path), seed.parse().expect("a number"));
    eprintln!("a writer of the storm: {done:?}");
}

fn start(store: &Path, seed: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "storm::writer", "--nocapture"]);
    command.env(STORE, store).env(SEED, seed.to_string());
    command.stdout(Stdio::null()).spawn().expect("a child")
}

/// Kills a writer, which never exits on its own.
fn end(mut writer: Child) {
    let ended = writer.try_wait().expect("a child");
    assert!(ended.is_none(), "a writer ended by itself: {ended:?}");
    writer.kill().expect("it runs");
    writer.wait().expect("it ends");
}

/// Returns the result of a read, or the default value if the key holds a value of another type.
fn found<T: Default>(outcome: Result<T>) -> std::result::Result<T, String> {
    match outcome {
        Err(error) if error.is_wrong_type() => Ok(T::default()),
        other => other.map_err(|error: Error| error.to_string()),
    }
}

fn borrowed(items: &[Vec<u8>]) -> Vec<&[u8]> {
    items.iter().map(Vec::as_slice).collect()
}

/// Makes one round of reads on a key and checks their results.
async fn round(store: &Store, cache: &StoreCache, key: &str) -> std::result::Result<(), String> {
    for value in [
        found(store.get(key))?,
        found(cache.get(key.as_bytes()).await)?,
    ] {
        value.map_or(Ok(()), |value| word_of(&value).map(drop))?;
    }
    let keys = KEYS.map(str::as_bytes);
    for value in found(cache.mget(&keys).await)?.iter().flatten() {
        word_of(value)?;
    }
    let pairs = found(store.hgetall(key))?;
    let (mut fields, values): (Vec<Vec<u8>>, Vec<Vec<u8>>) = pairs.into_iter().unzip();
    check_values(&borrowed(&values), ITEMS)?;
    fields.sort_unstable();
    fields.dedup();
    if !fields.is_empty() && fields.len() != ITEMS {
        return Err(format!("{} fields, expected {ITEMS} or none", fields.len()));
    }
    check_values(&borrowed(&found(store.lrange(key, 0, -1))?), ITEMS)?;
    check_members(&borrowed(&found(store.smembers(key))?), ITEMS)?;
    let count = found(
        store
            .command(["FEED.COUNT", key, "WHERE", "3"])
            .and_then(|reply| reply.to()),
    );
    match count? {
        None => Ok(()),
        Some(count) => shapes::check_count(count),
    }
}

#[test]
fn no_read_mixes_the_bytes_of_two_values() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let place = fresh::directory();
    let path = place.path().join("store");
    let store = Store::open_path(&path).expect("a store");
    let cache = StoreCache::from(store.clone());
    let mut writers: Vec<Child> = (0..WRITERS).map(|_| start(&path, random.u64(..))).collect();
    let (done, mut kills) = (AtomicU64::new(0), 0);
    let problems: Vec<String> = std::thread::scope(|scope| {
        let (done, store, cache) = (&done, &store, &cache);
        let read = move |mut random: fastrand::Rng| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(async {
                for _ in 0..ROUNDS {
                    let key = KEYS[random.usize(..KEYS.len())];
                    let checked = round(store, cache, key).await;
                    done.fetch_add(1, Ordering::Relaxed);
                    checked.map_err(|problem| format!("{key}: {problem}"))?;
                }
                Ok(())
            })
        };
        let readers: Vec<_> = (0..READERS)
            .map(|_| random.fork())
            .map(|random| scope.spawn(move || read(random)))
            .collect();
        let mut next = A_KILL;
        while !readers.iter().all(|reader| reader.is_finished()) {
            if done.load(Ordering::Relaxed) < next {
                std::thread::yield_now();
                continue;
            }
            next += A_KILL;
            kills += 1;
            let victim = random.usize(..WRITERS);
            let another = start(&path, random.u64(..));
            end(std::mem::replace(&mut writers[victim], another));
        }
        let outcomes = readers
            .into_iter()
            .map(|reader| reader.join().expect("no panic"));
        outcomes.filter_map(std::result::Result::err).collect()
    });
    writers.into_iter().for_each(end);
    assert!(problems.is_empty(), "seed {seed}: {problems:?}");
    let rounds = done.into_inner();
    println!(
        "storm: {rounds} rounds of reads through the Rust crate, {kills} writers killed; seed {seed}"
    );
    assert!(kills > 3, "{kills} kills");
}
