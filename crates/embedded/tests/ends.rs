//! Tests that typed calls are equivalent to their commands: the reply, the resulting keys, the
//! keyspace events and the use counts are the same.

use undercroft_commands::reply::{Recorder, Tree};
use undercroft_embedded::OpenStore;
use undercroft_engine::lists::End;
use undercroft_engine::messages::{Event, Subscriber, Topic};
use undercroft_engine::strings::{Condition, SetOptions};
use undercroft_engine::{Error, Expiry, Options, Ranges, Store};

const K: &[u8] = b"k";
/// The stores' time, in milliseconds, while a state of the key is created.
const NOW: u64 = 1_000_000;

type Answer = Result<Tree, Error>;

/// The states of the key, each with the commands that create it.
const STATES: &[(&str, &[&str])] = &[
    ("absent", &[]),
    ("string", &["SET k text"]),
    ("integer", &["SET k 17 PX 5000"]),
    ("list", &["RPUSH k a b c"]),
    ("hash", &["HSET k f v"]),
    ("set", &["SADD k m 1"]),
    ("sorted set", &["ZADD k 1 m"]),
    ("expired", &["SET k v PX 1"]),
];

fn integer(number: impl TryInto<i64>) -> Answer {
    Ok(Tree::Integer(number.try_into().ok().expect("small")))
}

fn bulk(found: bool, text: &[u8]) -> Answer {
    Ok(if found {
        Tree::Bulk(text.to_vec())
    } else {
        Tree::Null
    })
}

fn bulks(items: &Ranges) -> Tree {
    Tree::Array(items.iter().map(|item| Tree::Bulk(item.to_vec())).collect())
}

fn ok(set: bool) -> Answer {
    Ok(if set {
        Tree::Simple("OK".into())
    } else {
        Tree::Null
    })
}

fn set_with(store: &Store, condition: Condition, expiry: Expiry) -> Answer {
    let options = SetOptions { condition, expiry };
    ok(store.set_with(0, K, b"new", options)?)
}

fn pop(store: &Store, end: End) -> Answer {
    let mut items = Ranges::new();
    let found = store.list_pop(0, K, end, 1, &mut items)?;
    bulk(found, if found { items.get(0) } else { b"" })
}

/// A command and the equivalent typed call.
type Call = (&'static str, fn(&OpenStore) -> Answer);
const CALLS: &[Call] = &[
    ("GET k", |open| {
        let mut text = Vec::new();
        let found = open.store.get(0, K, &mut text)?;
        bulk(found, &text)
    }),
    ("SET k new", |open| {
        open.store.set(0, K, b"new")?;
        ok(true)
    }),
    ("SET k new NX", |open| {
        set_with(&open.store, Condition::IfMissing, Expiry::Never)
    }),
    ("SET k new XX KEEPTTL", |open| {
        set_with(&open.store, Condition::IfPresent, Expiry::Keep)
    }),
    ("SET k new PX 100", |open| {
        let at = Expiry::At(open.store.now() + 100);
        set_with(&open.store, Condition::Always, at)
    }),
    ("INCRBY k 5", |open| integer(open.store.increment(0, K, 5)?)),
    ("DEL k other", |open| {
        integer(open.store.delete(0, &[K, b"other"])?)
    }),
    ("EXISTS k other k", |open| {
        integer(open.store.exists(0, &[K, b"other", K])?)
    }),
    ("MGET k other k", |open| {
        let texts = open.store.get_many(0, &[K, b"other", K])?;
        let texts = texts.into_iter();
        Ok(Tree::Array(
            texts
                .map(|text| text.map_or(Tree::Null, Tree::Bulk))
                .collect(),
        ))
    }),
    ("MSET k 1 l 2", |open| {
        open.store.set_many(0, &[(K, b"1"), (b"l", b"2")])?;
        ok(true)
    }),
    ("PEXPIRE k 100", |open| {
        let at = open.store.now() + 100;
        integer(open.store.expire_at(0, K, at)?)
    }),
    ("PEXPIRE k -1", |open| {
        integer(open.store.expire_at(0, K, 0)?)
    }),
    ("PEXPIRETIME k", |open| match open.store.expiry(0, K)? {
        None => integer(-2),
        Some(None) => integer(-1),
        Some(Some(at)) => integer(at),
    }),
    ("LPUSH k x y", |open| {
        integer(open.store.list_push(0, K, End::Left, &[b"x", b"y"])?)
    }),
    ("RPUSH k x", |open| {
        integer(open.store.list_push(0, K, End::Right, &[b"x"])?)
    }),
    ("LPOP k", |open| pop(&open.store, End::Left)),
    ("RPOP k", |open| pop(&open.store, End::Right)),
    ("LRANGE k 0 -1", |open| {
        let mut items = Ranges::new();
        open.store.list_range(0, K, 0, -1, &mut items)?;
        Ok(bulks(&items))
    }),
    ("LLEN k", |open| integer(open.store.list_length(0, K)?)),
    ("HGET k f", |open| {
        let mut text = Vec::new();
        let found = open.store.hash_get(0, K, b"f", &mut text)?;
        bulk(found, &text)
    }),
    ("HSET k f new", |open| {
        let limits = open.process().config.limits().hash;
        integer(open.store.hash_set(0, K, b"f", b"new", &limits)?)
    }),
    ("SADD k x", |open| {
        let integers = open.process().config.limits().integers;
        integer(open.store.set_add(0, K, b"x", integers)?)
    }),
    ("SISMEMBER k m", |open| {
        integer(open.store.set_contains(0, K, b"m")?)
    }),
];

/// The effects of a call: the events; the number of keys, the number of expired keys and the use
/// counts of two keys; and the values of both keys with an expiry.
type Left = (Vec<(String, String)>, (Tree, u64, Tree, Tree), [Tree; 3]);

/// A store with a subscriber to all of its keyspace events.
struct Watched<'s> {
    open: &'s OpenStore,
    subscriber: Subscriber<&'s Store>,
}

impl<'s> Watched<'s> {
    fn new(open: &'s OpenStore) -> Watched<'s> {
        open.store.set_time(NOW);
        let mut watched = Watched {
            open,
            subscriber: Subscriber::new(&open.store),
        };
        watched.run("CONFIG SET notify-keyspace-events KEAmn");
        // With a log factor of 0, every use of a key increments its use count.
        watched.run("CONFIG SET maxmemory-policy allkeys-lfu lfu-log-factor 0");
        let names: &[&[u8]] = &[b"__key*"];
        watched
            .subscriber
            .subscribe(Topic::Pattern, names)
            .expect("room");
        watched
    }

    /// Runs a command in a new session.
    fn run(&self, line: &str) -> Tree {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut recorder = Recorder::new();
        let mut session = self.open.session();
        self.open
            .execute(&mut session, &words, &mut recorder)
            .expect("no lock is held");
        let replies = recorder.finish().expect("a whole reply");
        replies.into_iter().next().expect("one")
    }

    /// Creates a state of the key, and then advances the store's time by 10 ms.
    fn make(&mut self, commands: &[&str]) {
        self.open.store.set_time(NOW);
        self.run("FLUSHALL");
        for command in commands {
            let reply = self.run(command);
            assert!(!matches!(reply, Tree::Error(_)), "{command}: {reply:?}");
        }
        self.told();
        self.open.store.set_time(NOW + 10);
    }

    fn told(&mut self) -> Vec<(String, String)> {
        let mut told = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        while let Some(event) = self.subscriber.try_next().expect("no lock is held") {
            match event {
                Event::Message(message) => {
                    told.push((text(message.channel), text(message.payload)));
                }
                Event::Lost(count) => panic!("{count} messages were lost"),
            }
        }
        told
    }

    /// Returns the effects of the last call.
    fn left(&mut self) -> Left {
        let told = self.told();
        let counted = (
            self.run("DBSIZE"),
            self.open.store.expired_keys(),
            self.run("OBJECT FREQ k"),
            self.run("OBJECT FREQ l"),
        );
        let values = ["DUMP k", "DUMP l", "PEXPIRETIME k"].map(|command| self.run(command));
        self.told();
        (told, counted, values)
    }
}

#[test]
fn typed_calls_are_equivalent_to_their_commands() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let open = ["typed", "command"].map(|name| {
        let path = directory.path().join(name);
        OpenStore::new(Store::create(&path, &Options::default()).expect("a store"))
    });
    let [mut typed, mut command] = [&open[0], &open[1]].map(Watched::new);
    for (line, call) in CALLS {
        for (state, commands) in STATES {
            typed.make(commands);
            command.make(commands);
            let answer = call(typed.open);
            let reply = command.run(line);
            match (answer, &reply) {
                (Err(_), Tree::Error(_)) => {}
                (answer, reply) => assert_eq!(
                    &answer.expect("an answer"),
                    reply,
                    "{line} on a key that is {state}"
                ),
            }
            assert_eq!(
                typed.left(),
                command.left(),
                "{line} on a key that is {state}"
            );
        }
    }
}
