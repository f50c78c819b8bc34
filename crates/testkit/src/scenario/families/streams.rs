//! Defines scenarios that change streams.

use undercroft_engine::streams::{
    Claim, EntryId, StreamEntries, StreamId, StreamLimits, Trim, TrimTo,
};
use undercroft_engine::{Limits, Ranges, Store, ValueType};

use crate::examples::{Items, example};
use crate::scenario::changes::{copy, delete, rename, write};
use crate::scenario::definition::{Scenario, full, log_steps, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// The number of entries in a full leaf.
const LEAF: u64 = StreamLimits::DEFAULT.entries;

/// The scenarios for streams.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("XADD, the first entry", some_keys, |s| add(s, 1, 0)),
    quick("XADD", |s| with(s, 20), |s| add(s, 1, 0)),
    full(
        "XADD, a small leaf grows",
        |s| with(s, 12),
        |s| add(s, 8, 0),
    ),
    quick("XADD, a leaf more", |s| with(s, LEAF), |s| add(s, 1, 0)),
    full("XADD of a long entry", |s| with(s, 5), |s| add(s, 1, 9000)),
    full(
        "XADD behind a long entry, in its leaf",
        |s| {
            some_keys(s);
            add(s, 1, 2900);
        },
        |s| add(s, 2, 400),
    ),
    full(
        "XADD and MAXLEN",
        |s| with(s, 40),
        |s| {
            trim(s, TrimTo::Length(39), None);
        },
    ),
    full(
        "XADD, the stream moves to an arena",
        |s| long(s, 31),
        |s| add(s, 2, 2000),
    ),
    full(
        "XTRIM over leaves",
        |s| with(s, LEAF * 4),
        |s| {
            trim(s, TrimTo::Length(LEAF), None);
        },
    ),
    full(
        "XTRIM of an arena",
        |s| long(s, 100),
        |s| {
            trim(s, TrimTo::Length(20), None);
        },
    ),
    full(
        "XTRIM of whole leaves",
        |s| with(s, LEAF * 3),
        |s| {
            trim(s, TrimTo::Length(LEAF / 2), Some(u64::MAX));
        },
    ),
    quick(
        "XTRIM of all",
        |s| with(s, 30),
        |s| {
            trim(s, TrimTo::From(StreamId::MAX), None);
        },
    ),
    quick("XDEL inside", |s| with(s, 30), |s| remove(s, &[7])),
    full(
        "XDEL of the first and the last",
        |s| with(s, 30),
        |s| remove(s, &[0, 29]),
    ),
    quick("XDEL of the only one", |s| with(s, 1), |s| remove(s, &[0])),
    full(
        "XDEL, a leaf less",
        |s| with(s, LEAF + 1),
        |s| remove(s, &[LEAF]),
    ),
    full(
        "XDEL, a leaf becomes small",
        |s| with(s, 80),
        |s| remove(s, &(5..78).collect::<Vec<_>>()),
    ),
    quick("XDEL before a tombstone", tombstone, |s| remove(s, &[28])),
    full("XADD over a tombstone", tombstone, |s| add(s, 1, 0)),
    full("XADD over a tombstone, a larger leaf", tombstone, |s| {
        add(s, 1, 400)
    }),
    full(
        "XDEL of the last and XADD over its tombstone at once",
        |s| with(s, 30),
        |s| {
            write(s, &[&stream()], |writer| {
                writer.stream_delete(0, &s.key(&stream()), &[id(28), id(29)])?;
                let texts: [&[u8]; 4] = [b"name", b"other", b"number", b"-9"];
                let limits = StreamLimits::DEFAULT;
                let at = EntryId::Exactly(id(30));
                writer.stream_add(0, &s.key(&stream()), at, &texts, false, None, &limits)
            });
        },
    ),
    full(
        "XTRIM to a tombstone",
        |s| {
            with(s, LEAF + 30);
            remove(s, &[LEAF + 29]);
        },
        |s| {
            trim(s, TrimTo::From(id(LEAF + 29)), None);
        },
    ),
    quick(
        "XTRIM of a leaf without entries",
        |s| emptied(s, 30),
        |s| {
            trim(s, TrimTo::From(StreamId::MAX), None);
        },
    ),
    full(
        "XADD into a leaf without entries",
        |s| emptied(s, 30),
        |s| add(s, 1, 0),
    ),
    full(
        "XADD, a leaf without entries goes",
        |s| emptied(s, LEAF),
        |s| add(s, 1, 0),
    ),
    quick(
        "XSETID to before a leaf without entries",
        |s| emptied(s, 30),
        |s| {
            write(s, &[&stream()], |writer| {
                writer.stream_set_id(0, &s.key(&stream()), StreamId::MIN, None, None)
            });
        },
    ),
    log_steps(
        "a stream copied that has a leaf without entries",
        |s| emptied(s, 30),
        |s| copy(s, (0, &stream()), (0, &key(1, 91))),
    ),
    log_steps(
        "a stream removed that has a leaf without entries",
        |s| emptied(s, 30),
        |s| delete(s, &[stream()]),
    ),
    quick(
        "XSETID",
        |s| with(s, 3),
        |s| {
            write(s, &[&stream()], |writer| {
                writer.stream_set_id(0, &s.key(&stream()), id(900), Some(90), Some(id(50)))
            });
        },
    ),
    quick("XGROUP CREATE", |s| with(s, 3), |s| group(s, b"group")),
    quick("XGROUP CREATE, a second one", grouped, |s| group(s, b"a")),
    full("XGROUP DESTROY", busy, |s| {
        write(s, &[&stream()], |writer| {
            writer.stream_destroy_group(0, &s.key(&stream()), b"group")
        });
    }),
    full("XGROUP DESTROY in an arena", busy_in_arena, |s| {
        write(s, &[&stream()], |writer| {
            writer.stream_destroy_group(0, &s.key(&stream()), b"group")
        });
    }),
    quick("XGROUP SETID", grouped, |s| {
        write(s, &[&stream()], |writer| {
            writer.stream_set_group(0, &s.key(&stream()), b"group", (Some(id(5)), 5))
        });
    }),
    quick("XGROUP CREATECONSUMER", grouped, |s| {
        write(s, &[&stream()], |writer| {
            writer.stream_create_consumer(0, &s.key(&stream()), (b"group", b"new"))
        });
    }),
    full("XGROUP DELCONSUMER", busy, |s| {
        write(s, &[&stream()], |writer| {
            writer.stream_delete_consumer(0, &s.key(&stream()), (b"group", b"one"))
        });
    }),
    quick("XREADGROUP", grouped, |s| deliver(s, b"one", 3)),
    full("XREADGROUP over leaves", grouped, |s| {
        deliver(s, b"one", 200)
    }),
    full("XREADGROUP of what is pending", busy, |s| {
        write(s, &[&stream()], |writer| {
            let (names, how) = ((&b"group"[..], &b"one"[..]), (StreamId::MIN, 3));
            let mut out = StreamEntries::new();
            writer.stream_deliver_again(0, &s.key(&stream()), names, how, &mut out)
        });
    }),
    quick("XACK", busy, |s| acknowledge(s, &[1])),
    full("XACK, leaves less", busy, |s| {
        acknowledge(s, &(0..70).collect::<Vec<_>>())
    }),
    full("XCLAIM", busy, |s| claim(s, &[1, 5, 60])),
    log_steps("a stream with groups copied", busy, |s| {
        copy(s, (0, &stream()), (0, &key(1, 91)))
    }),
    log_steps("a stream with groups renamed", busy, |s| {
        rename(s, &stream(), &key(1, 91))
    }),
    log_steps("a stream with groups removed", busy, |s| {
        delete(s, &[stream()])
    }),
    log_steps(
        "a stream with groups in an arena removed",
        busy_in_arena,
        |s| delete(s, &[stream()]),
    ),
    log_steps("a stream restored", some_keys, |s| {
        let items: Ranges = example(ValueType::Stream, 400, Items::Texts(20));
        write(s, &[&stream()], |writer| {
            let name = stream();
            let key = s.key(&name);
            writer.put_items(0, &key, ValueType::Stream, &items, None, &Limits::DEFAULT)
        });
    }),
];

fn stream() -> Vec<u8> {
    key(0, 90)
}

fn id(number: u64) -> StreamId {
    StreamId {
        ms: 1000 + number / 2,
        seq: number % 2,
    }
}

/// Appends entries whose values are `length` bytes longer than usual.
fn add(store: &Store, entries: u64, length: usize) {
    let value = vec![b'v'; length];
    write(store, &[&stream()], |writer| {
        let name = stream();
        let key = store.key(&name);
        let there = writer
            .stream(0, &key)?
            .map_or(0, |stream| stream.entries_added());
        for number in there..there + entries {
            let text = format!("value {number}");
            let mut texts: Vec<&[u8]> = vec![b"name", text.as_bytes(), b"number", b"17"];
            if length > 0 {
                texts.extend([b"long", &value[..]]);
            }
            let id = EntryId::Exactly(id(number));
            let limits = StreamLimits::DEFAULT;
            writer.stream_add(0, &key, id, &texts, true, None, &limits)?;
        }
        Ok::<_, undercroft_engine::Error>(())
    });
}

fn with(store: &Store, entries: u64) {
    some_keys(store);
    add(store, entries, 0);
}

/// Creates a stream of long entries, two of which fill a leaf.
fn long(store: &Store, entries: u64) {
    some_keys(store);
    add(store, entries, 2000);
}

fn trim(store: &Store, to: TrimTo, about: Option<u64>) {
    write(store, &[&stream()], |writer| {
        writer.stream_trim(0, &store.key(&stream()), &Trim { to, about })
    });
}

fn remove(store: &Store, entries: &[u64]) {
    let ids: Vec<StreamId> = entries.iter().map(|number| id(*number)).collect();
    write(store, &[&stream()], |writer| {
        writer.stream_delete(0, &store.key(&stream()), &ids)
    });
}

/// Creates a stream of thirty entries, the last of which is deleted.
fn tombstone(store: &Store) {
    with(store, 30);
    remove(store, &[29]);
}

/// Creates a stream of `entries` entries and removes all of them, so that only the tombstone of the
/// last entry remains.
fn emptied(store: &Store, entries: u64) {
    with(store, entries);
    remove(store, &[entries - 1]);
    trim(store, TrimTo::From(id(entries - 1)), None);
}

fn group(store: &Store, name: &[u8]) {
    write(store, &[&stream()], |writer| {
        let from = (Some(StreamId::MIN), 0);
        writer.stream_create_group(0, &store.key(&stream()), name, from, true)
    });
}

/// Creates a stream with a group that has no pending entries.
fn grouped(store: &Store) {
    with(store, LEAF * 2);
    group(store, b"group");
}

fn deliver(store: &Store, consumer: &[u8], count: u64) {
    write(store, &[&stream()], |writer| {
        let (names, how) = ((&b"group"[..], consumer), (count, false));
        let mut out = StreamEntries::new();
        writer.stream_deliver(0, &store.key(&stream()), names, how, &mut out)
    });
}

/// Creates a stream with a group that has two consumers and many pending entries.
fn busy(store: &Store) {
    grouped(store);
    deliver(store, b"one", 70);
    deliver(store, b"other consumer", 100);
}

/// Creates a stream in an arena (the pages of one large object). Its group has two consumers and
/// many pending entries.
fn busy_in_arena(store: &Store) {
    busy(store);
    add(store, 40, 2000);
}

fn acknowledge(store: &Store, entries: &[u64]) {
    let ids: Vec<StreamId> = entries.iter().map(|number| id(*number)).collect();
    write(store, &[&stream()], |writer| {
        writer.stream_acknowledge(0, &store.key(&stream()), b"group", &ids)
    });
}

fn claim(store: &Store, entries: &[u64]) {
    let ids: Vec<StreamId> = entries.iter().map(|number| id(*number)).collect();
    let claim = Claim {
        group: b"group",
        consumer: b"other consumer",
        idle: 0,
        time: 1,
        deliveries: Some(9),
        force: true,
        only_ids: true,
        last: StreamId::MIN,
    };
    write(store, &[&stream()], |writer| {
        writer.stream_claim(0, &store.key(&stream()), &claim, &ids)
    });
}
