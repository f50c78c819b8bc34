//! Defines scenarios for the users of servers (ACL), which are not visible as keys.

use undercroft_engine::Store;
use undercroft_engine::users::StoredUser;

use crate::scenario::changes::value;
use crate::scenario::definition::{Scenario, full, quick};
use crate::scenario::stores::some_keys;

/// The scenarios for users.
pub(super) const SCENARIOS: &[Scenario] = &[
    quick("the first user is created", some_keys, |s| {
        change(s, 0, &[], &[(b"", 60)]);
    }),
    quick("a user is changed, another deleted", with_users, |s| {
        change(s, 1, &[b"two"], &[(b"one", 60)]);
    }),
    full("all users are replaced", with_users, |s| {
        change(s, 1, &[b"one", b"two"], &[(b"three", 5000), (b"", 1)]);
    }),
];

fn change(store: &Store, version: u64, forgotten: &[&[u8]], kept: &[(&[u8], usize)]) {
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
    change(store, 0, &[], &[(b"one", 900), (b"two", 60)]);
}
