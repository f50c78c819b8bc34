//! Defines scenarios for script texts and the users of servers, which are not visible as keys, and for
//! transactions that restart, such as the transaction of a script that uses an undeclared key.

use undercroft_engine::Store;
use undercroft_engine::users::StoredUser;

use crate::fixture::NOW;
use crate::scenario::changes::value;
use crate::scenario::definition::{Scenario, full, quick};
use crate::scenario::names::key;
use crate::scenario::stores::some_keys;

/// The names of two scripts, which are the SHA-1 digests of their texts.
const NAMES: [&[u8]; 2] = [
    b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    b"5332031c6b470dc5a0dd9b4bf2030dea6d65de91",
];

/// The scenarios for scripts.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("the text of a script is kept", some_keys, |s| {
        keep(s, NAMES[0], 60)
    }),
    full("the text of a script of 5,000 is kept", some_keys, |s| {
        keep(s, NAMES[1], 5000)
    }),
    quick("a library is kept", some_keys, |s| {
        change(s, 0, &[], &[(b"one", &value(900)), (b"two", &value(60))])
    }),
    full(
        "a library is replaced, another forgotten",
        with_libraries,
        |s| change(s, 1, &[b"two"], &[(b"one", &value(60))]),
    ),
    quick("the first user is created", some_keys, |s| {
        change_users(s, 0, &[], &[(b"", 60)])
    }),
    quick("a user is changed, another deleted", with_users, |s| {
        change_users(s, 1, &[b"two"], &[(b"one", 60)])
    }),
    full("all users are replaced", with_users, |s| {
        change_users(s, 1, &[b"one", b"two"], &[(b"three", 5000), (b"", 1)])
    }),
    quick("a transaction is started again", some_keys, |s| {
        restarted(s, &[key(0, 0), key(0, 90), key(1, 0), key(1, 90)])
    }),
];

fn keep(store: &Store, name: &[u8], length: usize) {
    let text = value(length);
    store.access().share_script(name, &text).expect("room");
}

fn change(store: &Store, version: u64, forgotten: &[&[u8]], kept: &[(&[u8], &[u8])]) {
    let kept: Vec<_> = kept
        .iter()
        .map(|(name, text)| (*name, *text, version))
        .collect();
    let changed = store.access().change_libraries(version, forgotten, &kept);
    assert!(changed.expect("room"), "they are of that version");
}

fn with_libraries(store: &Store) {
    some_keys(store);
    change(
        store,
        0,
        &[],
        &[(b"one", &value(900)), (b"two", &value(60))],
    );
}

/// Sets keys in a transaction that initially locks only the first key's shard, so that it restarts.
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

fn change_users(store: &Store, version: u64, forgotten: &[&[u8]], kept: &[(&[u8], usize)]) {
    let user = |(name, length): &(&[u8], usize)| StoredUser {
        name: name.to_vec(),
        mark: version,
        rules: value(*length),
    };
    let kept: Vec<StoredUser> = kept.iter().map(user).collect();
    let access = store.access();
    let changed = access.change_stored_users(version, forgotten, &kept);
    assert!(changed.expect("room"), "they are of that version");
    let (users, new) = access.stored_users().expect("no lock is held");
    assert_eq!(new, version + 1);
    assert!(kept.iter().all(|user| users.contains(user)));
}

fn with_users(store: &Store) {
    some_keys(store);
    change_users(store, 0, &[], &[(b"one", 900), (b"two", 60)]);
}
