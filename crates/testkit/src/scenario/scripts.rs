//! Texts of scripts, which no client sees as keys, and transactions that are started again, as that of a script which
//! uses a key that it did not declare.

use undercroft_engine::{SharedTexts, Store};

use super::{Scenario, full, key, quick, some_keys, value};
use crate::state::NOW;

/// Names of two scripts: the second one is in the other shard.
const NAMES: [&[u8]; 2] = [
    b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    b"5332031c6b470dc5a0dd9b4bf2030dea6d65de91",
];

/// The scenarios of this family.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("the text of a script is kept", some_keys, |s| {
        keep(s, NAMES[0], 60)
    }),
    full("the text of a script of 5,000 is kept", some_keys, |s| {
        keep(s, NAMES[1], 5000)
    }),
    full("the text of a library is replaced", with_texts, |s| {
        let text = value(900);
        let texts = SharedTexts::Libraries;
        s.access()
            .share_text(texts, b"library", &text)
            .expect("room");
    }),
    full("the text of a library is forgotten", with_texts, |s| {
        let forgotten = s.access().forget_text(SharedTexts::Libraries, b"library");
        assert!(forgotten.expect("a lock"), "it is there");
    }),
    quick("a transaction is started again", some_keys, |s| {
        restarted(s, &[key(0, 0), key(0, 90), key(1, 0), key(1, 90)])
    }),
];

fn keep(store: &Store, name: &[u8], length: usize) {
    let text = value(length);
    let texts = SharedTexts::Scripts;
    store.access().share_text(texts, name, &text).expect("room");
}

fn with_texts(store: &Store) {
    some_keys(store);
    keep(store, NAMES[0], 100);
    let text = value(100);
    let libraries = SharedTexts::Libraries;
    let access = store.access();
    access
        .share_text(libraries, b"library", &text)
        .expect("room");
}

/// Sets keys in one transaction, of which only the shard of the first is locked at first.
fn restarted(store: &Store, keys: &[Vec<u8>]) {
    let shards = std::iter::once(store.key(&keys[0]).shard()).collect();
    store
        .transact(shards, |running| {
            let access = running.access();
            for name in keys {
                let set = access.set(0, name, &value(62));
                if running.starts_again() || set.is_err() {
                    return set;
                }
            }
            let key = access.key(&keys[0]);
            access.write(access.shards_of([&key]), |writer| {
                writer.set_expiry(0, &key, Some(NOW + 5000)).map(drop)
            })
        })
        .expect("room");
}
