//! Tests that INFO, CONFIG GET and CLIENT LIST report live figures: each figure that changes on a
//! real Redis under load also changes on undercroft, unless this file explains why not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use undercroft_conformance::client::{Address, Client};
use undercroft_conformance::command::Command;
use undercroft_conformance::resp::Reply;
use undercroft_conformance::servers::{Kind, Server, Settings, start_undercroft};

/// Figures that remain constant on undercroft, each with the reason.
const CONSTANT: &[(&str, &str)] = &[
    (
        "allocator_rss_bytes",
        "free memory of the store is kept warm only where there is any",
    ),
    ("allocator_rss_ratio", "as allocator_rss_bytes"),
    ("mem_allocator", "there is one, in the store"),
    ("rdb_changes_since_last_save", "the journal counts bytes"),
    (
        "rss_overhead_bytes",
        "all memory of the store is the heap's",
    ),
    ("rss_overhead_ratio", "as rss_overhead_bytes"),
    (
        "used_memory_vm_functions",
        "functions run in the interpreters of scripts, which used_memory_vm_eval counts",
    ),
    (
        "expire_cycle_cpu_milliseconds",
        "upkeep removes expired keys a little at a time, whoever does it",
    ),
    (
        "expired_stale_perc",
        "keys that have expired are found by their deadline, not by chance",
    ),
    (
        "lazyfreed_objects",
        "no thread frees them: mem_lazyfree_pending shows what waits",
    ),
    (
        "reply_buffer_shrinks",
        "reply buffers of a thread are shared by its connections",
    ),
    ("reply_buffer_expands", "as reply_buffer_shrinks"),
    (
        "rbs",
        "a connection has a reply buffer only while a short reply waits in it",
    ),
    ("events", "the event loop always waits for both"),
];

/// The minimum duration of the scenario.
const LEAST: Duration = Duration::from_millis(2100);
/// The duration after which the scenario ends, whatever it has observed.
const MOST: Duration = Duration::from_secs(60);

/// The values that each field has had so far.
type Seen = BTreeMap<String, BTreeSet<String>>;

fn note(seen: &mut Seen, name: &str, value: &str) {
    seen.entry(name.to_owned())
        .or_default()
        .insert(value.to_owned());
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned()
}

/// A server with connections in different states.
struct Scene {
    client: Client,
    /// A connection that has sent only part of a long command.
    sending: Client,
    /// A connection that does not read its replies.
    deaf: Client,
    /// A connection that is blocked on a key.
    blocked: Client,
    subscriber: Client,
    queueing: Client,
}

impl Scene {
    fn new(address: &Address) -> Scene {
        let connect = || Client::connect(address).expect("it accepts");
        Scene {
            client: connect(),
            sending: connect(),
            deaf: connect(),
            blocked: connect(),
            subscriber: connect(),
            queueing: connect(),
        }
    }

    fn run(&mut self, words: &[&str]) -> Reply {
        self.client.call(words).expect("a reply")
    }

    /// Records the server's current figures in `seen`.
    fn look(&mut self, seen: &mut Seen) {
        for line in text(&self.run(&["INFO", "everything"])).lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            match name.starts_with("db") && value.contains("keys=") {
                // Record each field of a database separately.
                true => value.split(',').for_each(|pair| {
                    let (field, value) = pair.split_once('=').expect("a pair");
                    note(seen, &format!("keyspace {field}"), value);
                }),
                false => note(seen, name, value),
            }
        }
        let reply = self.run(&["CONFIG", "GET", "*"]);
        let words = reply.items().expect("an array");
        for pair in words.chunks(2) {
            note(seen, &format!("config {}", text(&pair[0])), &text(&pair[1]));
        }
        for line in text(&self.run(&["CLIENT", "LIST"])).lines() {
            for pair in line.split(' ') {
                let (field, value) = pair.split_once('=').expect("a pair");
                note(seen, field, value);
            }
        }
    }

    /// Puts the server into many states, and records its figures in each state.
    fn play(&mut self) -> Seen {
        let mut seen = Seen::new();
        let start = Instant::now();
        self.look(&mut seen);
        let value = "v".repeat(100);
        for number in 0..20_000 {
            let key = format!("key:{number}");
            match number % 4 {
                0 => self.run(&["SET", &key, &value, "PX", "100000"]),
                1 => self.run(&["HSET", &key, "field", &value]),
                2 => self.run(&["GET", &key]),
                _ => self.run(&["LPUSH", &key, &value, &value]),
            };
        }
        self.run(&["SET", "long", &"v".repeat(1 << 20)]);
        for number in 0..20 {
            self.run(&["EVAL", &format!("return {number}"), "0"]);
        }
        self.run(&["SCRIPT", "LOAD", "return 'loaded'"]);
        let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
        self.run(&["FUNCTION", "LOAD", library]);
        self.run(&["FCALL", "f", "0"]);
        self.run(&["NOSUCH"]);
        self.run(&["LPUSH", "long", "wrong"]);
        self.run(&["SET", "gone", "v", "PX", "1"]);
        while self.run(&["EXISTS", "gone"]) == Reply::Integer(1) {}
        self.run(&["CLIENT", "SETNAME", "looker"]);
        self.look(&mut seen);

        // Send an incomplete command.
        let begun = format!(
            "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$2000000\r\n{}",
            "v".repeat(1_000_000)
        );
        self.sending.send_raw(begun.as_bytes()).expect("it reads");
        let long = Command::of(["GET", "long"]);
        for _ in 0..32 {
            self.deaf.send(&long).expect("it reads");
        }
        self.blocked
            .send(&Command::of(["BLPOP", "none", "0"]))
            .expect("it reads");
        self.subscriber
            .call(["SUBSCRIBE", "channel"])
            .expect("a reply");
        self.queueing.call(["MULTI"]).expect("a reply");
        self.queueing
            .call(["SET", "queued", &value])
            .expect("a reply");
        let list = |scene: &mut Scene| text(&scene.run(&["CLIENT", "LIST"]));
        // Wait until CLIENT LIST shows that the server has processed all input.
        let has_all = |list: &str| {
            list.contains("flags=b")
                && list.lines().any(|line| field(line, "omem") > 100_000)
                && list.lines().any(|line| field(line, "qbuf") > 500_000)
        };
        while !has_all(&list(self)) {}
        self.run(&["CONFIG", "SET", "maxmemory-samples", "7"]);
        self.look(&mut seen);

        self.run(&["PUBLISH", "channel", "message"]);
        self.run(&["FLUSHALL"]);
        self.run(&["SCRIPT", "FLUSH"]);
        self.run(&["CONFIG", "SET", "maxmemory-samples", "5"]);
        self.look(&mut seen);
        // Some figures count whole seconds, so the scenario is long enough for each of them to
        // change. The kernel counts processor time in ticks of 10 ms, so continue until every kind
        // of processor time has at least one.
        let ticks = [
            "used_cpu_sys",
            "used_cpu_user",
            "used_cpu_sys_main_thread",
            "used_cpu_user_main_thread",
        ];
        let is_over = |seen: &Seen| {
            let all_ticked = ticks.iter().all(|&name| seen[name].len() > 1);
            start.elapsed() > LEAST && all_ticked || start.elapsed() > MOST
        };
        while !is_over(&seen) {
            self.look(&mut seen);
        }
        seen
    }
}

/// Returns the value of a field in a line of CLIENT LIST.
fn field(line: &str, name: &str) -> u64 {
    let mut pairs = line.split(' ').filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(other, _)| *other == name);
    found.and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

#[test]
fn every_figure_that_changes_on_redis_changes_on_undercroft() {
    let Some(ours) = start_undercroft(Settings::default()).expect("it starts") else {
        return;
    };
    let theirs = Server::start(Kind::Redis, Settings::default()).expect("redis-server starts");
    let theirs = Scene::new(theirs.address()).play();
    let ours = Scene::new(ours.address()).play();
    let changed = theirs.iter().filter(|(_, values)| values.len() > 1);
    let (mut constant, mut compared) = (Vec::new(), 0);
    for (name, values) in changed {
        let Some(own) = ours.get(name) else { continue };
        compared += 1;
        let excused = CONSTANT.iter().any(|(other, _)| other == name);
        if own.len() == 1 && !excused {
            constant.push(format!("{name}: {own:?}, of Redis {values:?}"));
        }
    }
    assert!(compared > 60, "only {compared} figures changed");
    assert!(constant.is_empty(), "{constant:#?}");
}
