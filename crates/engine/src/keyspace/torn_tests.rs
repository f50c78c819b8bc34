//! Tests that reading a structure with torn words may return any result or error, but never
//! overflows (R3).

use undercroft_memory::{Options, Pool, ShardSet, View};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::elements::Elements;
use crate::structures::entry::{Entry, Header};
use crate::transaction::effect::ChangedPart;
use crate::types::list::{End, Leaf};
use crate::types::string::text::Text;

/// Values that a torn word can have.
const ANYTHING: [u64; 7] = [0, 1, 8, 1 << 63, u64::MAX - 7, u64::MAX - 1, u64::MAX];

/// Calls `body` with a view of an empty store.
fn view(body: impl Fn(&View<'_>) + Sync) {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let path = directory.path().join("store");
    let store = Store::create(&path, &Options::default()).expect("a new store");
    let read = store.segment.read(ShardSet::one(0), |view| {
        body(view);
        Ok::<_, Error>(())
    });
    read.expect("no lock is held");
}

#[test]
fn torn_entry_does_not_overflow() {
    view(|view| {
        for (at, key_length) in pairs() {
            for header in [0, 1 << 9, 3 << 8, u64::MAX] {
                let header = Header(header);
                let entry = Entry {
                    at,
                    header,
                    key_length,
                };
                let _ = (entry.value_at(), entry.size());
                assert!(entry.append_key(view, &mut Vec::new()).is_err());
            }
        }
    });
}

#[test]
fn torn_string_does_not_overflow() {
    view(|view| {
        for (at, length) in pairs() {
            let text = Text::Bytes(at & !7, length);
            let bits = length.saturating_mul(8);
            for offset in [0, 77, 1 << 20] {
                let _ = text.bits(view, offset, 64);
                let _ = text.count_bits(view, offset.min(bits), bits);
            }
        }
    });
}

#[test]
fn torn_dictionary_root_does_not_overflow() {
    view(|view| {
        for at in ANYTHING {
            let elements = Elements {
                at: at & !7,
                pool: Pool::from(0),
            };
            assert!(elements.length(view).is_err());
            assert!(elements.memory_usage(view, 0).is_err());
        }
    });
}

#[test]
fn prefetch_of_torn_leaf_does_not_overflow() {
    view(|view| {
        for (at, from) in pairs() {
            for count in ANYTHING {
                Leaf::prefetch(view, at, from, count, count);
            }
        }
    });
}

#[test]
fn torn_record_of_a_change_does_not_overflow_or_allocate() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
    let path = directory.path().join("store");
    let store = Store::create(&path, &Options::default()).expect("a new store");
    store.set(0, b"string", &[b's'; 1000]).expect("room");
    let items: [&[u8]; 3] = [b"one", b"two", b"three"];
    store
        .list_push(0, b"list", End::Right, &items)
        .expect("room");
    for (one, other) in pairs() {
        let parts = [
            ChangedPart::Bytes {
                position: one,
                length: other,
            },
            ChangedPart::Entry {
                ms: one,
                seq: other,
            },
        ];
        let ends = [(true, true), (true, false), (false, true), (false, false)];
        let ends = ends.map(|(left, added)| ChangedPart::Items {
            left,
            added,
            count: one,
            length: other,
        });
        for key in [&b"string"[..], b"list"] {
            let looked = store.read(store.all_shards(), |reader| {
                for part in parts.into_iter().chain(ends) {
                    let delta = reader.delta(0, key, &[part])?;
                    let bytes = delta.iter().flat_map(|delta| &delta.bytes);
                    assert!(bytes.map(|(_, bytes)| bytes.len()).sum::<usize>() <= 1000);
                }
                reader.delta(0, key, &ends)?;
                Ok::<_, Error>(())
            });
            looked.expect("no lock is held");
        }
    }
}

fn pairs() -> impl Iterator<Item = (u64, u64)> {
    let both = |one| ANYTHING.map(|other| (one, other));
    ANYTHING.into_iter().flat_map(both)
}
