//! Clients with caches, while several processes change keys at random. Once all is quiet, no cache
//! contains a value that differs from the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use undercroft_conformance::resp::Reply;
use undercroft_conformance::seed::seed;
use undercroft_conformance::servers::{Server, Settings};

use crate::sources::embedded;
use crate::support::{Invalidated, Tracked, info, serve};

const KEYS: usize = 12;
/// The number of commands of each writer.
const WRITES: usize = 3000;
/// The number of changes by a process that embeds the store. Each starts a process.
const EMBEDDED: usize = 60;
/// The time limit for upkeep to remove expired keys.
const LONG: Duration = Duration::from_secs(30);

fn key(random: &mut fastrand::Rng) -> String {
    format!("k{}", random.usize(..KEYS))
}

/// A client with a cache.
struct Cache {
    client: Tracked,
    values: HashMap<String, Reply>,
    opts_in: bool,
    hits: usize,
}

impl Cache {
    fn connect(server: &Server, mode: &str) -> Cache {
        let mut client = Tracked::resp3(server);
        client.calls(&format!("CLIENT TRACKING on {mode}"));
        Cache {
            client,
            values: HashMap::new(),
            opts_in: mode == "OPTIN",
            hits: 0,
        }
    }

    /// Removes the values that were invalidated before the last reply.
    fn invalidate(&mut self) {
        for invalidated in self.client.taken() {
            match invalidated {
                Invalidated::All => self.values.clear(),
                Invalidated::Keys(keys) => {
                    keys.iter().for_each(|key| drop(self.values.remove(key)))
                }
                Invalidated::Broken(_) => panic!("there is no redirection"),
            }
        }
    }

    /// Reads a key from the cache or the server, in one of several ways.
    fn get(&mut self, key: &str, random: &mut fastrand::Rng) {
        if self.values.contains_key(key) {
            self.hits += 1;
            return;
        }
        if self.opts_in {
            self.client.call("CLIENT CACHING yes");
        }
        let get = format!("GET {key}");
        let only = |reply: Reply| reply.items().and_then(|items| items.first().cloned());
        let value = match random.u32(..6) {
            0 => only(self.client.call(&format!("MGET {key} k0 k1"))),
            1 if !self.opts_in => {
                self.client.call("MULTI");
                self.client.call(&get);
                self.client.call("GET k0");
                only(self.client.call("EXEC"))
            }
            2 => {
                let script = "\"return redis.call('get',KEYS[1])\"";
                Some(self.client.call(&format!("EVAL {script} 1 {key}")))
            }
            _ => Some(self.client.call(&get)),
        };
        // As client libraries do: invalidations that arrived before the reply are older than it.
        self.invalidate();
        // A transaction is refused while no key can be evicted.
        if let Some(value) = value.filter(|value| !matches!(value, Reply::Error(_))) {
            self.values.insert(key.to_owned(), value);
        }
    }
}

fn write(random: &mut fastrand::Rng, writer: &mut Tracked, number: usize) {
    let (one, other) = (key(random), key(random));
    let line = match random.u32(..40) {
        0..12 => format!("SET {one} {number}"),
        12..16 => format!("SET {one} {number} PX {}", random.u32(1..30)),
        16..20 => format!("DEL {one}"),
        20..23 => format!("APPEND {one} x"),
        23..26 => format!("RENAME {one} {other}"),
        26..29 => format!("COPY {one} {other} REPLACE"),
        29..31 => format!("MOVE {one} 1"),
        31..34 => format!("MSET {one} {number} {other} {number}"),
        34..37 => format!("EVAL \"return redis.call('set', '{one}', {number})\" 0"),
        37 => format!("SETRANGE {one} 1 {number}"),
        38 if random.u32(..20) == 0 => "FLUSHDB".to_owned(),
        38 => "SWAPDB 0 1".to_owned(),
        _ => {
            for line in [
                "MULTI",
                &format!("SET {one} {number}"),
                &format!("DEL {other}"),
            ] {
                writer.call(line);
            }
            "EXEC".to_owned()
        }
    };
    writer.call(&line);
}

#[test]
fn no_cache_keeps_an_outdated_value() {
    check(false);
}

#[test]
fn no_cache_keeps_a_value_that_was_evicted_and_changed() {
    check(true);
}

/// Changes keys at random, and then compares all caches with the store. If `evicts`, the memory of the
/// store is limited, so that keys are evicted all the time.
fn check(evicts: bool) {
    let Some(one) = serve(Settings::default()) else {
        return;
    };
    let settings = Settings {
        store: Some(one.store()),
        ..Settings::default()
    };
    let two = serve(settings).expect("a second server");
    if evicts {
        let mut admin = Tracked::connect(&one);
        let limit = info(&mut admin, "used_memory") + 300_000;
        admin.calls(&format!(
            "CONFIG SET maxmemory-policy allkeys-random\nCONFIG SET maxmemory {limit}"
        ));
    }
    let seed = seed();
    let is_over = AtomicBool::new(false);
    let modes = ["", "OPTIN", "BCAST", "BCAST PREFIX k1 PREFIX k0", "NOLOOP"];
    let caches: Vec<Cache> = std::thread::scope(|scope| {
        let caches: Vec<_> = (0..)
            .zip(modes)
            .map(|(number, mode)| {
                let server = if number % 2 == 0 { &one } else { &two };
                let mut random = fastrand::Rng::with_seed(seed + number);
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut cache = Cache::connect(server, mode);
                    while !is_over.load(Ordering::Acquire) {
                        for _ in 0..20 {
                            let key = match mode.contains("PREFIX") {
                                true => format!("k{}", random.u32(..2)),
                                false => key(&mut random),
                            };
                            cache.get(&key, &mut random);
                        }
                        cache.client.call("PING");
                        cache.invalidate();
                    }
                    cache
                })
            })
            .collect();
        let writers: Vec<_> = (10..)
            .zip([&one, &two, &one])
            .map(|(number, server)| {
                let mut random = fastrand::Rng::with_seed(seed + number);
                scope.spawn(move || {
                    let mut writer = Tracked::connect(server);
                    for number in 0..WRITES {
                        if evicts && number % 4 == 0 {
                            let name = format!("big:{}", random.u32(..100));
                            writer.call(&format!("SETRANGE {name} 20000 x"));
                        }
                        write(&mut random, &mut writer, number);
                    }
                })
            })
            .collect();
        let mut random = fastrand::Rng::with_seed(seed + 20);
        for number in 0..EMBEDDED {
            embedded(
                &one,
                &["SET", &key(&mut random), &format!("embedded:{number}")],
            );
        }
        for writer in writers {
            writer.join().expect("a writer");
        }
        is_over.store(true, Ordering::Release);
        let ended = caches
            .into_iter()
            .map(|cache| cache.join().expect("a cache"));
        ended.collect()
    });
    let mut plain = Tracked::resp3(&one);
    for (mut cache, mode) in caches.into_iter().zip(modes) {
        assert!(cache.hits > 0, "{mode}: the cache was never used");
        let start = Instant::now();
        loop {
            cache.client.call("PING");
            cache.invalidate();
            let differs = |(key, value): (&String, &Reply)| {
                let now = plain.call(&format!("GET {key}"));
                (now != *value).then(|| format!("{key}: cached {value:?}, stored {now:?}"))
            };
            let found: Vec<String> = cache.values.iter().filter_map(differs).collect();
            if found.is_empty() {
                break;
            }
            // An expired key looks missing before upkeep removes it.
            assert!(start.elapsed() < LONG, "{mode} (seed {seed}): {found:?}");
        }
    }
}
