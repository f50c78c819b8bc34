//! Tests that MEMORY USAGE reports the memory used by keys of any type and size, which is the
//! amount by which creating the key increases the memory in use.

use undercroft_commands::reply::Tree;
use undercroft_engine::{Options, Store};

use super::Client;

/// The number of copies of a small key, so that the average includes the growth of the key table.
const COPIES: u64 = 1_100;
/// The tolerance, in percent of the memory in use.
const OFF: u64 = 10;
/// The number of bytes by which a single large key can enlarge the key table.
const TABLE: u64 = 128;

impl Client {
    fn of_one_shard() -> Client {
        let client = Client::new(None);
        let options = Options {
            shards: Some(1),
            ..Options::default()
        };
        let path = client.directory.path().join("one");
        let store = Store::create(&path, &options).expect("a new store");
        Client { store, ..client }
    }

    fn words(&mut self, words: &[String]) -> Tree {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let reply = self.try_run(&words).expect("no process holds a lock");
        reply.expect("a reply")
    }

    fn usage(&mut self, key: &str) -> u64 {
        match self.run(&format!("MEMORY USAGE {key}")) {
            Tree::Integer(bytes) => bytes.unsigned_abs(),
            other => panic!("{key}: {other:?}"),
        }
    }

    /// Returns the amount of memory in use after all pending memory has been freed.
    fn used(&self) -> u64 {
        while self
            .store
            .reclaim(|| false)
            .expect("no process holds a lock")
        {}
        self.store.used_memory()
    }

    /// Runs a command with the given number of items, 100 items per call.
    fn fill(&mut self, start: &str, items: u64, item: impl Fn(u64) -> Vec<String>) {
        let start: Vec<String> = start.split(' ').map(str::to_owned).collect();
        let numbers: Vec<u64> = (0..items).collect();
        for some in numbers.chunks(100) {
            let items = some.iter().flat_map(|number| item(*number));
            let words: Vec<String> = start.iter().cloned().chain(items).collect();
            let reply = self.words(&words);
            assert!(!matches!(reply, Tree::Error(_)), "{start:?}: {reply:?}");
        }
    }
}

fn assert_near(what: &str, told: u64, used: u64, more: u64) {
    let off = told.abs_diff(used);
    println!("{what}: {told} told, {used} used");
    assert!(
        off <= used * OFF / 100 + more,
        "{what}: {told} told, {used} used"
    );
}

#[test]
fn memory_usage_of_small_keys_is_accurate() {
    let kinds = [
        "SET # 12345",
        "SET # ten-bytes.",
        "SET # ten-bytes. EX 1000",
        "SETRANGE # 99 x",
        "RPUSH # one two three",
        "RPUSH # 1 2 3 4 5 6",
        "HSET # one 1 two 2 three three",
        "SADD # one two three",
        "SADD # 1 2 3 100000",
        "ZADD # 1 one 2 two 3.5 three",
        "PFADD # one two three",
    ];
    for kind in kinds {
        let mut client = Client::of_one_shard();
        let before = client.used();
        let mut told = 0;
        for number in 0..COPIES {
            let key = format!("key:{number:04}");
            let reply = client.run(&kind.replace('#', &key));
            assert!(!matches!(reply, Tree::Error(_)), "{kind}: {reply:?}");
            told += client.usage(&key);
        }
        assert_near(kind, told, client.used() - before, 0);
    }
}

#[test]
fn memory_usage_of_large_keys_is_accurate_and_grows() {
    type Item = fn(u64) -> Vec<String>;
    let wide = |number| vec![format!("{number:0100}")];
    let kinds: [(&str, Item); 9] = [
        ("APPEND k", |_| vec!["x".repeat(100)]),
        ("RPUSH k", |number| vec![format!("item:{number}")]),
        ("RPUSH k", |number| vec![(number * number).to_string()]),
        ("RPUSH k", |number| vec!["x".repeat(number as usize % 700)]),
        ("HSET k", |number| vec![number.to_string(), "v".repeat(60)]),
        ("SADD k", wide),
        ("SADD k", |number| vec![(number * 3).to_string()]),
        ("ZADD k", |number| {
            vec![number.to_string(), format!("member:{number}")]
        }),
        ("ZADD k", |number| {
            vec![
                (number % 7).to_string(),
                "m".repeat(200) + &number.to_string(),
            ]
        }),
    ];
    for (place, (start, item)) in kinds.into_iter().enumerate() {
        let mut last = 0;
        for count in [1, 30, 200, 520, 700, 1_000, 2_000, 5_000, 20_000] {
            let mut client = Client::of_one_shard();
            let before = client.used();
            if start.starts_with("APPEND") {
                for number in 0..count {
                    client.fill(start, 1, |_| item(number));
                }
            } else {
                client.fill(start, count, item);
            }
            let told = client.usage("k");
            let what = format!("{start}, kind {place}, {count}");
            assert_near(&what, told, client.used() - before, TABLE);
            // The reported memory can remain the same, because the value may already have room to
            // grow.
            assert!(told >= last, "{what}: {told}, and {last} of fewer");
            last = told;
        }
        assert!(last > 20_000, "{start}, kind {place}: {last}");
    }
}

#[test]
fn memory_usage_of_bitmaps_and_hyperloglogs_is_accurate() {
    for command in [
        "SETBIT k 8000000 1",
        "SETRANGE k 5000 x",
        "SETRANGE k 70000 x",
    ] {
        let mut client = Client::of_one_shard();
        let before = client.used();
        client.run(command);
        assert_near(command, client.usage("k"), client.used() - before, TABLE);
    }
    let mut client = Client::of_one_shard();
    let before = client.used();
    client.fill("PFADD k", 5_000, |number| vec![number.to_string()]);
    assert_near("PFADD", client.usage("k"), client.used() - before, TABLE);
}

/// The large buffers that a reply needed are freed after the command.
#[test]
fn connection_keeps_no_large_buffers() {
    let mut client = Client::of_one_shard();
    client.run("FEED.CREATE f SIZE 12 ATTRS 4:3:1");
    client.fill("FEED.ADD f -1", 20_000, |number| {
        vec![format!("{number:012}")]
    });
    client.fill("RPUSH l", 20_000, |number| vec![format!("{number:012}")]);
    let kept = |client: &mut Client| {
        let info = match client.run("CLIENT INFO") {
            Tree::Bulk(text) | Tree::Verbatim { text, .. } => {
                String::from_utf8(text).expect("a text")
            }
            other => panic!("{other:?}"),
        };
        let (_, memory) = info.split_once("tot-mem=").expect("what it takes");
        let (memory, _) = memory.split_once(' ').expect("more after it");
        memory.parse::<usize>().expect("a number")
    };
    let before = kept(&mut client);
    for command in [
        "LRANGE l 0 -1",
        "FEED.RANGE f 0 20000",
        "FEED.RANGE f 0 20000 WITHATTRS",
        "FEED.POP f LEFT 20000",
    ] {
        client.run(command);
        let more = kept(&mut client).saturating_sub(before);
        assert!(more <= 3 * 64 * 1024, "{command}: {more} bytes are kept");
    }
}
