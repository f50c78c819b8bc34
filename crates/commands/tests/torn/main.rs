//! Runs read commands on a store with arbitrary words in its memory. No command may panic, hang, or
//! allocate the amount of memory that a corrupt length claims.
//!
//! A read without a lock can see any mixture of words (R3). Each changed word in these tests is
//! either one that a writer could have written, or worse. The word remains changed during the
//! entire read, so the version counter does not reveal the change, and only the reader's own checks
//! prevent a panic. The tests are built with overflow checks.

#[path = "../support/alone.rs"]
mod alone;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use alone::Alone;
use undercroft_commands::reply::Recorder;
use undercroft_commands::{Context, execute};
use undercroft_engine::{Options, Store};
use undercroft_memory::layout::{Layout, shard};
use undercroft_testkit::fresh;

const CAPACITY: u64 = 16 << 20;
const RING: u64 = 64 << 10;

/// Creates keys of each type and encoding.
fn fill(host: &Alone, store: &Store) {
    let number = |number: usize| number.to_string();
    let long = |letter: char, length: usize| letter.to_string().repeat(length);
    let run = |words: &[String]| {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        run(host, store, &words);
    };
    let give = |command: &str, key: &str, items: Vec<String>| {
        for items in items.chunks(200) {
            let mut words = vec![command.to_owned(), key.to_owned()];
            words.extend_from_slice(items);
            run(&words);
        }
    };
    give("SET", "integer", vec![number(1234)]);
    give("SET", "short", vec![long('s', 30)]);
    give("SET", "inline", vec![long('i', 1000)]);
    give("SET", "block", vec![long('b', 20_000)]);
    give("SETRANGE", "raw", vec![number(100), long('r', 50)]);
    give("PFADD", "sparse", vec![number(1), number(2)]);
    give("PFADD", "dense", (0..4000).map(number).collect());
    give("RPUSH", "packed-list", (0..20).map(number).collect());
    give(
        "RPUSH",
        "integers",
        (0..3000).map(|n| number(n * n)).collect(),
    );
    give(
        "RPUSH",
        "fixed",
        (0..500).map(|n| format!("text{n:06}")).collect(),
    );
    let texts = (0..500).map(|n| long('t', n % 30));
    give("RPUSH", "texts", texts.chain([long('l', 3000)]).collect());
    give("SADD", "intset", (0..50).map(number).collect());
    give(
        "SADD",
        "packed-set",
        (0..20).map(|n| format!("m{n}")).collect(),
    );
    give(
        "SADD",
        "large-set",
        (0..700).map(|n| format!("m{n}")).collect(),
    );
    let pairs = |count: usize, length: usize| -> Vec<String> {
        (0..count)
            .flat_map(|n| [format!("f{n}"), long('v', n % length)])
            .collect()
    };
    give("HSET", "packed-hash", pairs(20, 40));
    give("HSET", "large-hash", pairs(300, 40));
    give(
        "HSET",
        "wide-hash",
        pairs(6, 2)
            .into_iter()
            .chain(["wide".into(), long('w', 9000)])
            .collect(),
    );
    let scored = |count: usize| -> Vec<String> {
        (0..count)
            .flat_map(|n| [number(n * 7 % 100), format!("m{n}")])
            .collect()
    };
    give("ZADD", "packed-zset", scored(20));
    give("ZADD", "large-zset", scored(600));
    let places = (0..40).flat_map(|n| [number(n), number(n), format!("p{n}")]);
    give("GEOADD", "places", places.collect());
    give("PEXPIREAT", "short", vec!["99999999999999".into()]);
    // Add enough keys that the table grows.
    for key in 0..400 {
        give("SET", &format!("key:{key}"), vec![number(key)]);
    }
}

/// Read commands, in which `K` is a placeholder for a key.
const COMMANDS: &[&str] = &[
    "GET K",
    "MGET K integer K",
    "STRLEN K",
    "GETRANGE K 2 -2",
    "GETBIT K 77",
    "BITCOUNT K",
    "BITCOUNT K 1 -2 BIT",
    "BITPOS K 1",
    "BITPOS K 0 2",
    "BITFIELD_RO K GET u8 9 GET i64 100",
    "LCS K short",
    "PFCOUNT K",
    "PFCOUNT K sparse dense",
    "LLEN K",
    "LRANGE K 0 -1",
    "LRANGE K 7 -7",
    "LINDEX K -3",
    "LPOS K text000070 RANK -1",
    "LPOS K 49 COUNT 0",
    "SCARD K",
    "SMEMBERS K",
    "SISMEMBER K m7",
    "SMISMEMBER K 1 m2",
    "SRANDMEMBER K 5",
    "SRANDMEMBER K -5",
    "SINTER K large-set",
    "SUNION K intset",
    "SDIFF large-set K",
    "SINTERCARD 2 K large-set",
    "SSCAN K 0 COUNT 100",
    "HLEN K",
    "HGET K f7",
    "HMGET K f7 f8 no",
    "HGETALL K",
    "HKEYS K",
    "HVALS K",
    "HEXISTS K f9",
    "HSTRLEN K f9",
    "HRANDFIELD K 5 WITHVALUES",
    "HRANDFIELD K -5",
    "HSCAN K 0 COUNT 100",
    "ZCARD K",
    "ZSCORE K m7",
    "ZMSCORE K m1 m2",
    "ZRANK K m9",
    "ZREVRANK K m9",
    "ZRANGE K 0 -1 WITHSCORES",
    "ZRANGE K 3 -3 REV",
    "ZRANGE K 10 50 BYSCORE LIMIT 3 20",
    "ZRANGEBYLEX K - +",
    "ZCOUNT K 10 (60",
    "ZLEXCOUNT K [a [z",
    "ZRANDMEMBER K 5 WITHSCORES",
    "ZRANDMEMBER K -5",
    "ZUNION 2 K large-zset",
    "ZINTER 2 K large-set",
    "ZDIFF 2 large-zset K",
    "ZINTERCARD 2 K large-zset",
    "ZSCAN K 0 COUNT 100",
    "GEOPOS K p3",
    "GEODIST K p1 p30",
    "GEOHASH K p5",
    "GEOSEARCH K FROMMEMBER p3 BYRADIUS 900 km ASC",
    "GEORADIUS_RO K 10 10 2000 km WITHDIST",
    "SORT_RO K ALPHA",
    "SORT_RO K BY nosort GET key:*",
    "DUMP K",
    "TYPE K",
    "EXISTS K",
    "TTL K",
    "PEXPIRETIME K",
    "OBJECT ENCODING K",
    "OBJECT IDLETIME K",
    "MEMORY USAGE K",
    "MEMORY USAGE K SAMPLES 0",
    "SCAN 0 COUNT 1000",
    "KEYS *",
    "RANDOMKEY",
    "DBSIZE",
];

/// The number of commands at the end of the list that read the entire database. They run less
/// often.
const OF_ALL: usize = 4;

fn run(host: &Alone, store: &Store, words: &[&[u8]]) {
    let mut session = host.session();
    let mut context = Context::new(&mut session, host.host(), store);
    let mut reply = Recorder::new();
    let outcome = execute(&mut context, words, &mut reply);
    let replies = reply.finish().expect("a whole reply");
    assert_eq!(replies.len(), usize::from(outcome.is_ok()), "{words:?}");
}

/// Returns a torn word: a variation of the old word, a mixture with another word, or an arbitrary
/// value.
fn torn(random: &mut fastrand::Rng, old: u64, other: u64) -> u64 {
    match random.u32(..8) {
        0 => old ^ 1 << random.u32(..64),
        1 => random.u64(..),
        2 => 0,
        3 => u64::MAX,
        4 => old.wrapping_add(random.u64(..3)).wrapping_sub(1),
        5 => old << 32 | other >> 32,
        6 => u64::MAX - random.u64(..64),
        _ => other,
    }
}

#[test]
fn read_commands_do_not_panic_on_arbitrary_words() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let host = Alone::new();
    let directory = fresh::directory();
    let path = directory.path().join("store");
    let options = Options {
        capacity: Some(CAPACITY),
        shards: Some(1),
        ring: Some(RING),
    };
    let writer = Store::create(&path, &options).expect("a new store");
    fill(&host, &writer);
    let mut keys = Vec::new();
    (writer.scan(
        0,
        0,
        u64::MAX,
        |_, _| Ok(Some(())),
        |key, ()| keys.push(key.to_vec()),
    ))
    .expect("a walk");
    keys.retain(|key| !key.starts_with(b"key:1"));
    drop(writer);

    // The nonzero words in the heap and the roots.
    let file = File::options()
        .read(true)
        .write(true)
        .open(&path)
        .expect("the store");
    let layout = Layout::new(1, CAPACITY, RING);
    let roots = layout.shard(0) + shard::ROOTS;
    let mut bytes = vec![0; file.metadata().expect("its length").len() as usize];
    file.read_exact_at(&mut bytes, 0)
        .expect("the store's bytes");
    let heap = (layout.heap..bytes.len() as u64).step_by(8);
    let words: Vec<(u64, u64)> = heap
        .chain((roots..roots + 64).step_by(8))
        .map(|at| {
            (
                at,
                u64::from_le_bytes(bytes[at as usize..][..8].try_into().expect("a word")),
            )
        })
        .filter(|(_, word)| *word != 0)
        .collect();
    assert!(words.len() > 10_000, "{} words in use", words.len());

    let store = Store::open(&path, false).expect("a store to read");
    store.set_patience(Duration::from_millis(1));
    let rounds =
        std::env::var("UNDERCROFT_TORN").map_or(3_000, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let mut changed = Vec::new();
        for _ in 0..=random.usize(..3) {
            let (at, old) = words[random.usize(..words.len())];
            let (_, other) = words[random.usize(..words.len())];
            changed.push((at, old));
            file.write_all_at(&torn(&mut random, old, other).to_le_bytes(), at)
                .expect("a word");
        }
        for _ in 0..20 {
            let key = &keys[random.usize(..keys.len())];
            let last = if random.usize(..8) == 0 { 0 } else { OF_ALL };
            let command = COMMANDS[random.usize(..COMMANDS.len() - last)];
            let line: Vec<&[u8]> = command
                .split(' ')
                .map(|word| {
                    if word == "K" {
                        key.as_slice()
                    } else {
                        word.as_bytes()
                    }
                })
                .collect();
            let _on_panic = Told(format!(
                "seed {seed}, round {round}: {command} of {}",
                key.escape_ascii()
            ));
            run(&host, &store, &line);
        }
        for (at, old) in changed.into_iter().rev() {
            file.write_all_at(&old.to_le_bytes(), at).expect("a word");
        }
    }
}

/// Prints the current step if the test panics.
struct Told(String);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}
