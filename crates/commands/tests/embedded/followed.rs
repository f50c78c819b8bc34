//! Tests that every change to every key is reported, so that a program that follows the changes can
//! maintain an exact copy of the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use undercroft_conformance::generate::{FAMILIES, Generator};
use undercroft_engine::changes::{Change, Effect};
use undercroft_engine::eviction::{EvictionChange, EvictionPolicy};
use undercroft_engine::keyspace::Item;
use undercroft_engine::lists::End;
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::waiting::{Take, WaitOutcome, Waiters, Wanted};
use undercroft_engine::{
    DATABASES, Expiry, LogEnds, PackedLimits, Ranges, Store, Stream, ValueType,
};
use undercroft_testkit::{examples, fresh};

use super::{Client, mailboxes};

/// The initial time of the store, whose clock is stopped, in Unix milliseconds.
const BEGIN: u64 = 1_900_000_000_000;

/// The content of a key and its deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    value_type: ValueType,
    elements: Vec<Vec<Vec<u8>>>,
    expiry: Option<u64>,
}

/// A copy of a store that is maintained from the reported changes.
struct Copy {
    keys: BTreeMap<(usize, Vec<u8>), Held>,
    /// The positions in the change logs up to which the changes are applied.
    ends: LogEnds,
    /// The number of reports for each kind of change.
    effects: HashMap<&'static str, u64>,
    now: u64,
}

impl Copy {
    fn of(client: &Client) -> Copy {
        let stream = Stream {
            id: [b'a'; 40],
            earlier: None,
            file: 0,
            is_old: false,
            start: 0,
            end: 0,
        };
        client.store.begin_stream(&stream).expect("room");
        let ends = client.store.log_starts().expect("sound");
        client.store.set_time(BEGIN);
        Copy {
            keys: BTreeMap::new(),
            ends,
            effects: HashMap::new(),
            now: BEGIN,
        }
    }

    /// Applies the changes that were reported while a command ran.
    fn follow(&mut self, client: &Client, what: &str) {
        let found = client.store.changes_after(&self.ends).expect("sound");
        self.ends = found.ends.clone();
        let (mut last, mut whole) = (BTreeMap::new(), BTreeSet::new());
        for change in found.iter() {
            match change {
                Change::Key(database, key, effect) => {
                    let place = (database, key.to_vec());
                    if effect == Effect::Expired {
                        let deadline = self.keys.get(&place).and_then(|held| held.expiry);
                        // The deadline may be unknown, because the same command may have set it. If
                        // an entire shard was reported, it was read after all later changes, as
                        // with SWAPDB in a transaction.
                        let passed = deadline.is_none_or(|deadline| deadline <= self.now);
                        let shard = client.store.key(&place.1).shard();
                        let is_later =
                            last.contains_key(&place) || whole.contains(&(database, shard));
                        assert!(passed || is_later, "{what}: {place:?}");
                    }
                    last.insert(place, effect);
                }
                Change::Part(database, key, _) => {
                    last.insert((database, key.to_vec()), Effect::Changed);
                }
                Change::Emptied { database, shard } => {
                    *self.effects.entry("all").or_default() += 1;
                    whole.insert((database, shard));
                    let goes = |place: &(usize, Vec<u8>)| {
                        place.0 == database && client.store.key(&place.1).shard() == shard
                    };
                    last.retain(|place, _| !goes(place));
                    self.keys.retain(|place, _| !goes(place));
                }
                Change::Swapped { databases, shard } => {
                    *self.effects.entry("all").or_default() += 1;
                    let [one, other] = databases;
                    whole.extend([(one, shard), (other, shard)]);
                    let renamed = |(database, key): (usize, Vec<u8>)| {
                        let database = match client.store.key(&key).shard() == shard {
                            true if database == one => other,
                            true if database == other => one,
                            _ => database,
                        };
                        (database, key)
                    };
                    let names = std::mem::take(&mut last).into_iter();
                    last = names
                        .map(|(place, effect)| (renamed(place), effect))
                        .collect();
                    let keys = std::mem::take(&mut self.keys).into_iter();
                    self.keys = keys.map(|(place, held)| (renamed(place), held)).collect();
                }
                Change::Libraries => {}
            }
        }
        for (place, effect) in last {
            let name = match effect {
                Effect::Changed => "changed",
                Effect::Removed => "removed",
                Effect::Expired => "expired",
                Effect::Evicted => "evicted",
            };
            *self.effects.entry(name).or_default() += 1;
            let held = look(client, &place);
            let is_there = effect == Effect::Changed;
            assert_eq!(held.is_some(), is_there, "{what}: {place:?} {effect:?}");
            match held {
                Some(held) => self.keys.insert(place, held),
                None => self.keys.remove(&place),
            };
        }
    }

    /// Checks that the copy is identical to the store.
    fn compare(&self, client: &Client, what: &str) {
        let lives = |held: &Held| held.expiry.is_none_or(|expiry| expiry > self.now);
        let copy = self.keys.iter().filter(|(_, held)| lives(held));
        let copy: BTreeMap<_, _> = copy
            .map(|(place, held)| (place.clone(), held.clone()))
            .collect();
        let there = all(client);
        for (place, held) in &there {
            assert_eq!(
                copy.get(place),
                Some(held),
                "{what}: no notification for {place:?}"
            );
        }
        for place in copy.keys() {
            assert!(
                there.contains_key(place),
                "{what}: no notification that {place:?} is gone"
            );
        }
    }
}

fn held(value_type: ValueType, items: &Ranges, expiry: Option<u64>) -> Held {
    Held {
        value_type,
        elements: examples::sorted(value_type, items),
        expiry,
    }
}

/// Returns the content of a key, even if the key has expired.
fn look(client: &Client, (database, key): &(usize, Vec<u8>)) -> Option<Held> {
    let key = client.store.key(key);
    // Turn the clock back to find expired keys too, because a change to an expired key can be
    // reported before the key is removed.
    client.store.set_time(1);
    let found = client.store.read(client.store.shards_of([&key]), |reader| {
        let Some(entry) = reader.find(*database, &key)? else {
            return Ok(None);
        };
        let mut items = Ranges::new();
        entry.append_items(reader.view(), &mut items)?;
        let expiry = entry.expiry(reader.view())?;
        Ok::<_, undercroft_engine::Error>(Some(held(entry.value_type()?, &items, expiry)))
    });
    found.expect("a sound value")
}

fn all(client: &Client) -> BTreeMap<(usize, Vec<u8>), Held> {
    let mut all = BTreeMap::new();
    let shown = client.store.snapshot(|item: Item<'_>| {
        let place = (item.database, item.key.to_vec());
        all.insert(place, held(item.value_type, item.items, item.expiry));
        Ok::<_, undercroft_engine::Error>(())
    });
    shown.expect("no process holds a lock");
    all
}

#[test]
fn following_every_change_yields_an_exact_copy() {
    let seed = fresh::seed();
    let mut random = fastrand::Rng::with_seed(seed);
    // Omit commands that wait for another connection, and commands that do not concern keys.
    let families: Vec<_> = FAMILIES
        .iter()
        .filter(|family| !["messages", "blocking"].contains(&family.name))
        .copied()
        .collect();
    let mut generator = Generator::new(seed, &families);
    let mut client = Client::new(None);
    let mut copy = Copy::of(&client);
    for number in 0..20_000 {
        let command = generator.command();
        let words: Vec<&[u8]> = command.0.iter().map(Vec::as_slice).collect();
        let what = format!("command {number}, {command}");
        client.store.set_time(copy.now);
        let _ = client.try_run(&words);
        copy.follow(&client, &what);
        client.store.set_time(copy.now);
        match random.u32(..400) {
            0 => {
                let most = 1 << random.u32(10..40);
                copy.now += random.u64(..most);
            }
            1 => {
                client.store.upkeep_all().expect("no process holds a lock");
                copy.follow(&client, "upkeep");
            }
            2 => {
                let policy = [EvictionPolicy::AllKeysRandom, EvictionPolicy::NoEviction];
                let change = EvictionChange::Policy(policy[random.usize(..2)]);
                client.store.change_eviction(change).expect("a setting");
                let limit = [client.store.used_memory() * 3 / 4, 1 << 30][random.usize(..2)];
                client.store.set_max_memory(limit).expect("a setting");
            }
            3..6 => copy.compare(&client, &what),
            _ => {}
        }
    }
    client.store.upkeep_all().expect("no process holds a lock");
    copy.follow(&client, "upkeep");
    client.store.set_time(copy.now);
    copy.compare(&client, "the end");
    // All expired keys have been removed from both the store and the copy.
    let count = |database| {
        client
            .store
            .count_keys(database)
            .expect("no process holds a lock")
    };
    let there: u64 = (0..DATABASES).map(count).sum();
    assert_eq!(copy.keys.len() as u64, there);
    println!("followed: {:?}; seed {seed}", copy.effects);
    for effect in ["changed", "removed", "expired", "evicted", "all"] {
        assert!(copy.effects.contains_key(effect), "no {effect}");
    }
}

#[test]
fn changes_by_every_command_are_followed() {
    // Each setup creates `k` with a small or large value of one type.
    let large = |command: &str, first: &str, element: fn(u32) -> String| {
        // Use numbers that sort after the elements in the tested lines.
        let elements: Vec<String> = (1..700).map(element).collect();
        format!("{command} k {first} {}", elements.join(" "))
    };
    let setups = [
        "SET k 12".to_owned(),
        "SET k text EX 100".to_owned(),
        "RPUSH k one two".to_owned(),
        large("RPUSH", "one", |number| format!("item{number}")),
        "HSET k f 1 g 2".to_owned(),
        large("HSET", "f 1", |number| format!("f{number} {number}")),
        "SADD k 1 2".to_owned(),
        large("SADD", "m", |number| format!("m{number}")),
        "ZADD k 1 one 2 two".to_owned(),
        large("ZADD", "0 one", |number| format!("{number} m{number}")),
        "GEOADD k 1 1 one".to_owned(),
        "PFADD k a b".to_owned(),
    ];
    // A feed must be created before a second line can fill it.
    let feeds = [
        "FEED.ADD k -1 one two",
        "FEED.HIDE k two",
        &large("FEED.ADD", "-1 one", |number| format!("{number:03}")),
    ];
    let feeds = feeds.map(|line| ["FEED.CREATE k SIZE 3 ATTRS 4:3:1", line]);
    let sorted = "FEED.CREATE k SIZE 3 ATTRS 4:3:1 ORDER SORTED UNIQUE";
    let indexed = "FEED.CREATE k SIZE 3 ATTRS 4:3:1 INDEX";
    let feeds = feeds.into_iter().chain([
        [sorted, "FEED.ADD k * two one"],
        [indexed, "FEED.ADD k -1 two one two"],
        ["XADD k 1-1 f v", "XADD k 2-1 f v g w"],
        ["XADD k 1-1 f v", "XGROUP CREATE k g 0"],
    ]);
    let setups = setups.iter().map(|line| ["PING", line]).chain(feeds);
    let mut client = Client::new(None);
    let mut copy = Copy::of(&client);
    for [first, setup] in setups {
        for line in mailboxes::LINES.split('|') {
            for line in ["FLUSHALL", first, setup, line] {
                client.store.set_time(copy.now);
                let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                let _ = client.try_run(&words);
                copy.follow(&client, line);
                client.store.set_time(copy.now);
            }
            copy.compare(&client, line);
        }
    }
}

#[test]
fn changes_by_typed_calls_are_followed() {
    type Call = fn(&Store);
    let calls: [(&str, Call); 12] = [
        ("set", |s| s.set(0, b"a", b"text").expect("room")),
        ("set_with", |s| {
            let options = SetOptions {
                condition: Condition::Always,
                expiry: Expiry::At(BEGIN + 1),
            };
            assert!(s.set_with(1, b"a", b"text", options).expect("room"));
        }),
        ("set_many", |s| {
            let pairs: [(&[u8], &[u8]); 2] = [(b"b", b"1"), (b"c", b"2")];
            s.set_many(0, &pairs).expect("room");
        }),
        ("increment", |s| {
            assert_eq!(s.increment(0, b"b", 4).expect("room"), 5)
        }),
        ("expire_at", |s| {
            assert!(s.expire_at(0, b"b", BEGIN + 9).expect("room"))
        }),
        ("expire_at, passed", |s| {
            assert!(s.expire_at(0, b"c", 1).expect("room"))
        }),
        ("push", |s| {
            s.list_push(0, b"l", End::Right, &[b"x", b"y"])
                .expect("room");
        }),
        ("pop", |s| {
            let mut out = Ranges::new();
            assert!(s.list_pop(0, b"l", End::Left, 1, &mut out).expect("a list"));
        }),
        ("pop, the last", |s| {
            let mut out = Ranges::new();
            assert!(s.list_pop(0, b"l", End::Left, 1, &mut out).expect("a list"));
        }),
        ("hash_set", |s| {
            let limits = PackedLimits::HASH;
            assert!(s.hash_set(0, b"h", b"f", b"v", &limits).expect("room"));
        }),
        ("set_add", |s| {
            assert!(s.set_add(0, b"s", b"m", 512).expect("room"))
        }),
        ("delete", |s| {
            assert_eq!(s.delete(0, &[b"a", b"no"]).expect("a key"), 1)
        }),
    ];
    let client = Client::new(None);
    let mut copy = Copy::of(&client);
    for (name, call) in calls {
        call(&client.store);
        copy.follow(&client, name);
        client.store.set_time(copy.now);
        copy.compare(&client, name);
    }
    assert_eq!(copy.keys.len(), 4, "{:?}", copy.keys);
}

#[test]
fn items_given_to_waiting_clients_are_followed() {
    let mut client = Client::new(None);
    let mut copy = Copy::of(&client);
    let other = Store::open(&client.path(), true).expect("the same store");
    let mut waiters = Waiters::new(&other);
    let takes = [
        Take::Items {
            end: End::Left,
            count: 1,
        },
        Take::Move {
            from: End::Left,
            to: End::Right,
        },
    ];
    for take in takes {
        let wanted = Wanted {
            database: 0,
            keys: if matches!(take, Take::Move { .. }) {
                &[b"k", b"d"]
            } else {
                &[b"k"]
            },
            take,
        };
        let begun = waiters.begin(&wanted).expect("room");
        assert!(matches!(begun, WaitOutcome::Waiting(_)));
        for line in ["RPUSH k one two three", "LPOP k", "DEL k"] {
            client.run(line);
            copy.follow(&client, line);
            client.store.set_time(copy.now);
            copy.compare(&client, line);
        }
    }
    let place = (0, b"d".to_vec());
    assert!(copy.keys.contains_key(&place), "{:?}", copy.keys);
}
