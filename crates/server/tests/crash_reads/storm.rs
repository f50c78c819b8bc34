//! Runs a storm test: writers constantly change the type and the size of a few keys, and some
//! writers are killed. Meanwhile, readers check the results of typed calls and of commands over
//! sockets.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use undercroft_engine::{Error, Options, Ranges, Store};
use undercroft_resp::Value;
use undercroft_testkit::fresh;
use undercroft_testkit::storm::shapes::{self, ITEMS, KEYS, check_members, check_values, word_of};

use crate::is_full;
use crate::served::{Connection, Served};

/// The environment variable that turns a run of this test into a writer. Its value is the path of
/// the store. `SEED` is the writer's random seed.
const STORE: &str = "UNDERCROFT_STORM_STORE";
const SEED: &str = "UNDERCROFT_STORM_SEED";
const WRITERS: usize = 2;
/// The number of rounds that each reader runs in a partial and in a full run. `A_KILL` is the
/// number of rounds, summed over all readers, between two kills of a writer.
const ROUNDS: [u64; 2] = [2000, 50_000];
const A_KILL: u64 = 400;

/// Runs a writer in a child process of the storm test. Does nothing if the environment variable is
/// not set.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let seed = std::env::var(SEED).expect("a seed");
    let done = shapes::write(Path::new(&path), seed.parse().expect("a number"));
    eprintln!("a writer of the storm: {done:?}");
}

struct Writer(Child);

impl Writer {
    fn start(store: &Path, seed: u64) -> Writer {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "storm::writer", "--nocapture"]);
        command.env(STORE, store).env(SEED, seed.to_string());
        Writer(command.stdout(Stdio::null()).spawn().expect("a child"))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let ended = self.0.try_wait();
        let _ = self.0.kill();
        let _ = self.0.wait();
        if !std::thread::panicking() {
            assert!(
                matches!(ended, Ok(None)),
                "a writer ended by itself: {ended:?}"
            );
        }
    }
}

/// Runs one round of typed calls on a key.
fn typed(store: &Store, key: &[u8], random: &mut fastrand::Rng) -> Result<(), String> {
    let say = |what: &str, problem: String| Err(format!("{what}: {problem}"));
    let is_type = |error: &Error| matches!(error, Error::WrongType);
    let mut out = Vec::new();
    match store.get(0, key, &mut out) {
        Ok(false) if out.is_empty() => {}
        Ok(true) => drop(word_of(&out).or_else(|problem| say("get", problem).map(|()| &[][..]))?),
        Err(error) if is_type(&error) && out.is_empty() => {}
        other => return say("get", format!("{other:?} and {} bytes", out.len())),
    }
    let keys = KEYS.map(str::as_bytes);
    for value in store
        .get_many(0, &keys)
        .map_err(|error| error.to_string())?
        .iter()
        .flatten()
    {
        word_of(value).map_err(|problem| format!("get_many: {problem}"))?;
    }
    out.clear();
    match store.hash_get(
        0,
        key,
        shapes::field(random.usize(..ITEMS)).as_bytes(),
        &mut out,
    ) {
        Ok(false) if out.is_empty() => {}
        Ok(true) => drop(word_of(&out).map_err(|problem| format!("hash_get: {problem}"))?),
        Err(error) if is_type(&error) && out.is_empty() => {}
        other => return say("hash_get", format!("{other:?} and {} bytes", out.len())),
    }
    let mut items = Ranges::new();
    match store.list_range(0, key, 0, -1, &mut items) {
        Err(error) if !is_type(&error) => say("list_range", error.to_string()),
        _ => {
            let items: Vec<&[u8]> = items.iter().collect();
            check_values(&items, ITEMS).map_err(|problem| format!("list_range: {problem}"))
        }
    }
}

/// Collects the strings in a reply. A WRONGTYPE error contains no strings.
fn strings<'r>(reply: &'r Value, into: &mut Vec<&'r [u8]>) -> Result<(), String> {
    match reply {
        Value::Bulk(bytes) => into.push(bytes),
        Value::Null(_) | Value::Double(_) | Value::Integer(_) => {}
        Value::Error(text) if text.starts_with(b"WRONGTYPE") => {}
        Value::Array(items) | Value::Set(items) => {
            items.iter().try_for_each(|item| strings(item, into))?;
        }
        Value::Map(pairs) => {
            for (key, value) in pairs {
                strings(key, into)?;
                strings(value, into)?;
            }
        }
        other => return Err(format!("{other:?}").chars().take(200).collect()),
    }
    Ok(())
}

/// Returns every second string, starting at the index `first`.
fn every_second<'r>(strings: &[&'r [u8]], first: usize) -> Vec<&'r [u8]> {
    strings.iter().skip(first).step_by(2).copied().collect()
}

fn check_fields(fields: &[&[u8]], count: usize) -> Result<(), String> {
    let mut seen = fields.to_vec();
    seen.sort_unstable();
    seen.dedup();
    let is_field = |text: &&[u8]| (0..ITEMS).any(|index| shapes::field(index).as_bytes() == *text);
    match fields.is_empty() || seen.len() == count && seen.iter().all(is_field) {
        true => Ok(()),
        false => Err(format!("{} fields, expected {count} or none", seen.len())),
    }
}

/// Checks that `attributes` are the attributes of a feed's first items, in order.
fn check_attributes(attributes: &[&[u8]]) -> Result<(), String> {
    let expected = (0..attributes.len()).map(|index| (index % 16).to_string());
    match attributes
        .iter()
        .zip(expected)
        .find(|(had, expected)| **had != expected.as_bytes())
    {
        None => Ok(()),
        Some((had, expected)) => Err(format!("attribute {had:?}, expected {expected}")),
    }
}

/// Sends one round of commands on a key in a single pipeline.
fn commands(connection: &mut Connection, key: &[u8], version: u8) -> Result<(), String> {
    let mget: Vec<&[u8]> = std::iter::once(&b"MGET"[..])
        .chain(KEYS.iter().map(|key| key.as_bytes()))
        .collect();
    let commands: &[&[&[u8]]] = &[
        &[b"GET", key],
        &mget,
        &[b"HGETALL", key],
        &[b"HKEYS", key],
        &[b"HVALS", key],
        &[b"HMGET", key, b"field:0", b"field:31", b"field:63"],
        &[b"HRANDFIELD", key, b"5", b"WITHVALUES"],
        &[b"SMEMBERS", key],
        &[b"SRANDMEMBER", key, b"5"],
        &[b"LRANGE", key, b"0", b"-1"],
        &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        &[b"ZRANGEBYSCORE", key, b"10", b"19"],
        &[b"ZRANDMEMBER", key, b"5"],
        &[b"GETRANGE", key, b"8", b"4007"],
        &[b"FEED.RANGE", key, b"0", b"64"],
        &[b"FEED.RANGE", key, b"0", b"64", b"WITHATTRS"],
        &[b"FEED.RANGE", key, b"0", b"4", b"WHERE", b"3"],
        &[b"FEED.COUNT", key, b"WHERE", b"3"],
    ];
    let replies = connection.pipeline(commands)?;
    for (command, reply) in commands.iter().zip(&replies) {
        let mut all = Vec::new();
        let name = String::from_utf8_lossy(command[0]);
        let checked = strings(reply, &mut all).and_then(|()| match command[0] {
            b"HGETALL" => check_fields(&every_second(&all, 0), ITEMS)
                .and_then(|()| check_values(&every_second(&all, 1), ITEMS)),
            b"HRANDFIELD" => check_fields(&every_second(&all, 0), 5)
                .and_then(|()| check_values(&every_second(&all, 1), 5)),
            b"HKEYS" => check_fields(&all, ITEMS),
            b"HVALS" | b"LRANGE" => check_values(&all, ITEMS),
            b"HMGET" => check_values(&all, 3),
            b"SMEMBERS" => check_members(&all, ITEMS),
            // RESP2 has no type for floating-point numbers, so scores are strings, too.
            b"ZRANGE" if version == 2 => check_members(&every_second(&all, 0), ITEMS),
            b"ZRANGE" => check_members(&all, ITEMS),
            b"ZRANGEBYSCORE" => check_members(&all, 10),
            b"SRANDMEMBER" | b"ZRANDMEMBER" => check_members(&all, 5),
            b"FEED.RANGE" if command.len() == 4 => check_members(&all, ITEMS),
            b"FEED.RANGE" if command[4] == b"WHERE" => check_members(&all, 4),
            b"FEED.RANGE" => check_members(&every_second(&all, 0), ITEMS)
                .and_then(|()| check_attributes(&every_second(&all, 1))),
            b"FEED.COUNT" => match reply {
                Value::Integer(count) => shapes::check_count(*count),
                _ => Ok(()),
            },
            _ => {
                let mut texts = all.iter().filter(|text| !text.is_empty());
                texts.try_for_each(|text| word_of(text).map(drop))
            }
        });
        checked.map_err(|problem| format!("{name} by RESP{version}: {problem}"))?;
    }
    Ok(())
}

#[test]
fn no_read_mixes_the_bytes_of_two_values() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = fresh::directory();
    let path: PathBuf = directory.path().join("store");
    let options = Options {
        capacity: Some(256 << 20),
        shards: Some(2),
        ring: None,
    };
    let store = Store::create(&path, &options).expect("a new store");
    let served = Served::start(Store::open(&path, true).expect("the store"));
    let reader = Store::open(&path, false).expect("the store");
    // A read-only handle cannot recover the state of a dead writer itself: it waits until another
    // writer does.
    reader.set_patience(Duration::from_secs(60));
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|_| Writer::start(&path, random.u64(..)))
        .collect();
    let rounds = ROUNDS[usize::from(is_full())];
    let (done, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut kills = 0;
    let problems: Vec<String> = std::thread::scope(|scope| {
        let socket = served.socket();
        let (done, stopped, store, reader) = (&done, &stopped, &store, &reader);
        let spawn = |random: fastrand::Rng, way: u8| {
            let socket = socket.clone();
            scope.spawn(move || {
                let mut random = random;
                let mut connection = (way > 1).then(|| Connection::new(&socket, way));
                for _ in 0..rounds {
                    let key = KEYS[random.usize(..KEYS.len())].as_bytes();
                    let round = match &mut connection {
                        Some(connection) => commands(connection, key, way),
                        None => typed([store, reader][usize::from(way)], key, &mut random),
                    };
                    done.fetch_add(1, Ordering::Relaxed);
                    if round.is_err() || stopped.load(Ordering::Relaxed) {
                        return round;
                    }
                }
                Ok(())
            })
        };
        // The first reader uses a handle that can acquire locks, and the second one a read-only
        // handle. The other two readers send commands in RESP2 and RESP3.
        let readers: Vec<_> = (0..4).map(|way| spawn(random.fork(), way)).collect();
        let mut next = A_KILL;
        while !readers.iter().all(|reader| reader.is_finished()) {
            if done.load(Ordering::Relaxed) >= next {
                next += A_KILL;
                kills += 1;
                let victim = random.usize(..WRITERS);
                writers[victim] = Writer::start(&path, random.u64(..));
            }
            std::thread::yield_now();
        }
        stopped.store(true, Ordering::Relaxed);
        let joined = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader"));
        joined.filter_map(Result::err).collect()
    });
    drop(writers);
    assert!(problems.is_empty(), "(seed {seed}) {problems:?}");
    let report = store.check().expect("a check");
    assert!(
        report.problems.is_empty(),
        "(seed {seed}) {:?}",
        report.problems
    );
    println!(
        "storm: {} rounds of reads by typed calls and over sockets, {kills} kill -9 of writers; nothing torn; seed {seed}",
        done.into_inner()
    );
}
