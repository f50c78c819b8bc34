//! Defines scenarios with clients that are blocked on keys. The blocked clients in a prepared store
//! are dead. Live clients belong to the process under test, so most of these changes take several
//! transactions, and a push can be committed before it is served.

use std::mem::ManuallyDrop;

use undercroft_engine::lists::End;
use undercroft_engine::sorted_sets::AddRule;
use undercroft_engine::streams::{EntryId, StreamLimits};
use undercroft_engine::waiting::{Take, Ticket, WaitOutcome, Waiters, Wanted};
use undercroft_engine::{PackedLimits, Store};

use crate::fixture;
use crate::scenario::changes::write;
use crate::scenario::definition::{Scenario, Steps, full, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

const LEFT: Take = Take::Items {
    end: End::Left,
    count: 1,
};
const LOWEST: Take = Take::Scored {
    highest: false,
    count: 2,
};
const MOVE: Take = Take::Move {
    from: End::Left,
    to: End::Right,
};
const ENTRIES: Take = Take::Entries { count: 10 };
const DELIVER: Take = Take::Deliver {
    count: 10,
    acknowledged: false,
};

/// The scenarios with clients that are blocked on keys.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("BLPOP begins to wait", some_keys, |s| {
        wait(s, &[key(0, 90)], LEFT);
    }),
    full(
        "BLPOP of keys in two shards begins to wait",
        some_keys,
        |s| {
            wait(s, &[key(1, 90), key(0, 90), key(0, 91)], LEFT);
        },
    ),
    full("BLPOP begins to wait behind others", waited_for, |s| {
        wait(s, &[key(0, 91), key(0, 90)], LEFT);
    }),
    handed("RPUSH serves who waits", some_keys, Steps::Always, |s| {
        wait(s, &[key(0, 90)], LEFT);
        push(s, &key(0, 90), &[b"one"]);
    }),
    handed("RPUSH serves two of three", some_keys, Steps::Full, |s| {
        let keys = [key(0, 90), key(1, 90)];
        let mut waiters = ManuallyDrop::new(Waiters::new(s));
        for keys in [&keys[..], &keys[..1], &keys[..]] {
            begin(&mut waiters, keys, LEFT);
        }
        push(s, &key(0, 90), &[b"one", b"two"]);
    }),
    handed("RPUSH serves past the dead", waited_for, Steps::Full, |s| {
        wait(s, &[key(0, 90)], LEFT);
        push(s, &key(0, 90), &[b"one"]);
    }),
    handed("ZADD serves who waits", some_keys, Steps::Full, |s| {
        wait(s, &[key(1, 90)], LOWEST);
        let key = key(1, 90);
        write(s, &[&key], |writer| {
            let members: [(&[u8], f64); 3] = [(b"a", 1.0), (b"b", 2.0), (b"c", 3.0)];
            let (rule, limits) = (AddRule::default(), PackedLimits::SORTED_SET);
            writer.sorted_add(0, &s.key(&key), &members, rule, &limits)
        });
    }),
    handed(
        "BLMOVE to a lower shard is served",
        some_keys,
        Steps::Always,
        |s| {
            wait(s, &[key(1, 90), key(0, 90)], MOVE);
            push(s, &key(1, 90), &[b"one"]);
        },
    ),
    handed(
        "BLMOVE to a higher shard is served, and who waits there",
        some_keys,
        Steps::Full,
        |s| {
            let mut waiters = ManuallyDrop::new(Waiters::new(s));
            begin(&mut waiters, &[key(0, 90), key(1, 90)], MOVE);
            begin(&mut waiters, &[key(1, 90)], LEFT);
            push(s, &key(0, 90), &[b"one"]);
        },
    ),
    handed("XADD serves all who read", some_keys, Steps::Always, |s| {
        let mut waiters = ManuallyDrop::new(Waiters::new(s));
        let (one, other) = (key(0, 90), key(1, 90));
        let behind = vec![0; 16];
        begin(&mut waiters, &[one.clone(), behind.clone()], ENTRIES);
        wait(
            s,
            &[other, one.clone(), behind.clone(), behind.clone()],
            ENTRIES,
        );
        begin(&mut waiters, &[one.clone(), behind], ENTRIES);
        add(s, &one);
    }),
    handed(
        "XADD serves who reads behind others, and the first of a group",
        some_keys,
        Steps::Full,
        |s| {
            let mut waiters = ManuallyDrop::new(Waiters::new(s));
            let key = key(0, 90);
            write(s, &[&key], |writer| {
                writer.stream_create_group(0, &s.key(&key), b"g", (None, -1), true)
            });
            begin(&mut waiters, &[key.clone(), vec![0xff; 16]], ENTRIES);
            begin(&mut waiters, &[key.clone(), vec![0; 16]], ENTRIES);
            for consumer in [b"one", b"two"] {
                let names = [b"g".to_vec(), consumer.to_vec()];
                let keys: Vec<Vec<u8>> = [key.clone()].into_iter().chain(names).collect();
                begin(&mut waiters, &keys, DELIVER);
            }
            begin(&mut waiters, &[key.clone(), vec![0; 16]], ENTRIES);
            add(s, &key);
        },
    ),
    handed("CLIENT UNBLOCK", some_keys, Steps::Full, |s| {
        let ticket = wait(s, &[key(0, 90), key(1, 90)], LEFT);
        assert!(s.unblock(ticket, true).expect("room"));
    }),
    handed("a wait ends by its time", some_keys, Steps::Full, |s| {
        let mut waiters = ManuallyDrop::new(Waiters::new(s));
        let keys = [key(0, 90), key(1, 90)];
        let ticket = begin(&mut waiters, &keys, LEFT);
        begin(&mut waiters, &keys, LEFT);
        assert_eq!(waiters.leave(ticket).expect("room"), None);
    }),
    handed(
        "what the dead were given goes back to who looks",
        some_keys,
        Steps::Always,
        |s| {
            give_to_the_dead(s);
            assert_eq!(s.list_length(0, &key(0, 90)).expect("a list"), 1);
        },
    ),
    handed(
        "what the dead were given goes back to its sorted set",
        some_keys,
        Steps::Full,
        |s| {
            let key = key(1, 91);
            with_another(s, |other| {
                wait(other, std::slice::from_ref(&key), LOWEST);
                write(s, &[&key], |writer| {
                    let members: [(&[u8], f64); 2] = [(b"a", 1.0), (b"b", 2.0)];
                    let (rule, limits) = (AddRule::default(), PackedLimits::SORTED_SET);
                    writer.sorted_add(0, &s.key(&key), &members, rule, &limits)
                });
            });
            s.free_all_of_the_dead().expect("room");
        },
    ),
    handed(
        "what the dead were given goes to who waits",
        some_keys,
        Steps::Full,
        |s| {
            let mut waiters = ManuallyDrop::new(Waiters::new(s));
            with_another(s, |other| {
                wait(other, &[key(0, 90), key(1, 90)], LEFT);
                begin(&mut waiters, &[key(0, 90)], LEFT);
                push(s, &key(0, 90), &[b"one"]);
            });
            waiters.tend();
        },
    ),
    handed(
        "what the dead left is freed",
        waited_for,
        Steps::Full,
        |s| {
            s.free_all_of_the_dead().expect("room");
        },
    ),
    handed(
        "what cannot go back goes back later",
        some_keys,
        Steps::Full,
        |s| {
            let mut waiters = ManuallyDrop::new(Waiters::new(s));
            let ticket = begin(&mut waiters, &[key(0, 90), key(1, 90)], LEFT);
            push(s, &key(0, 90), &[b"one"]);
            s.set(0, &key(0, 90), b"another type").expect("room");
            waiters.give_up(ticket);
            s.delete(0, &[&key(0, 90)]).expect("room");
        },
    ),
    handed("a move to the dead stands", moved, Steps::Full, |s| {
        s.free_all_of_the_dead().expect("room");
    }),
];

pub(super) const fn handed(
    name: &'static str,
    prepare: fn(&Store),
    steps: Steps,
    act: fn(&Store),
) -> Scenario {
    Scenario {
        name,
        prepare,
        act,
        steps,
        gradual: true,
        handed: true,
        first: None,
    }
}

fn begin(waiters: &mut Waiters<&Store>, keys: &[Vec<u8>], take: Take) -> Ticket {
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let wanted = Wanted {
        database: 0,
        keys: &keys,
        take,
    };
    match waiters.begin(&wanted).expect("room") {
        WaitOutcome::Waiting(ticket) => ticket,
        WaitOutcome::Answered(answer) => panic!("expected to wait, got {answer:?}"),
    }
}

/// Starts to wait for an item in the keys, and waits until the process dies.
fn wait(store: &Store, keys: &[Vec<u8>], take: Take) -> Ticket {
    begin(&mut ManuallyDrop::new(Waiters::new(store)), keys, take)
}

fn push(store: &Store, key: &[u8], items: &[&[u8]]) {
    store.list_push(0, key, End::Right, items).expect("room");
}

fn add(store: &Store, key: &[u8]) {
    write(store, &[key], |writer| {
        let (id, limits) = (EntryId::Within(1), StreamLimits::DEFAULT);
        writer.stream_add(0, &store.key(key), id, &[b"f", b"v"], true, None, &limits)
    });
}

/// Opens the store as another process, calls `body`, and simulates the process's death. The process
/// has a slot in the process table that the process under test cannot claim.
pub(super) fn with_another(store: &Store, body: impl FnOnce(&Store)) {
    let others = [0; 3].map(|_| {
        let other = fixture::open(store.path()).expect("a whole store");
        other.recover().expect("a whole store");
        other
    });
    body(&others[2]);
    drop(others);
}

fn waited_for(store: &Store) {
    some_keys(store);
    with_another(store, |other| {
        wait(other, &[key(0, 90), key(1, 90)], LEFT);
        wait(other, &[key(0, 90)], LEFT);
    });
}

/// Hands an item to a waiter that then dies.
fn give_to_the_dead(store: &Store) {
    with_another(store, |other| {
        wait(other, &[key(0, 90), key(1, 90)], LEFT);
        push(store, &key(0, 90), &[b"one"]);
    });
}

fn moved(store: &Store) {
    some_keys(store);
    with_another(store, |other| {
        wait(other, &[key(1, 90), key(0, 90)], MOVE);
        push(store, &key(1, 90), &[b"one"]);
    });
}
