//! Prepares stores for scenarios of several families.

use undercroft_engine::{Expiry, Store};

use super::changes::{append, move_to, set, set_expiring, set_with};
use super::names::key;
use crate::fixture::NOW;

/// Creates three keys in each shard, with values of 64 bytes.
pub(super) fn some_keys(store: &Store) {
    for index in 0..3 {
        set(store, &key(0, index), 64);
        set(store, &key(1, index), 64);
    }
}

/// Creates the keys of `some_keys`, and another key with a value of `length` bytes.
pub(super) fn with(store: &Store, length: usize) {
    some_keys(store);
    set(store, &key(0, 90), length);
}

pub(super) fn large_in_both(store: &Store) {
    some_keys(store);
    set(store, &key(0, 90), 100_000);
    set(store, &key(1, 90), 70_000);
}

pub(super) fn appended(store: &Store) {
    with(store, 64);
    append(store, &key(0, 90), 10);
}

pub(super) fn expiring_keys(store: &Store) {
    some_keys(store);
    for index in 0..3 {
        set_expiring(store, &key(0, index), 64);
    }
}

pub(super) fn expired_keys(store: &Store) {
    some_keys(store);
    for index in 0..3 {
        set_with(store, &key(0, index), 64, Expiry::At(NOW - 1));
        set_with(store, &key(1, index), 5000, Expiry::At(NOW - 1));
    }
    set(store, &key(0, 4), 64);
}

pub(super) fn two_databases(store: &Store) {
    some_keys(store);
    set(store, &key(1, 4), 5000);
    move_to(store, &key(0, 2), 1);
    move_to(store, &key(1, 2), 1);
}

/// Creates keys in shard 0, each in a separate transaction.
pub(super) fn fill(store: &Store, keys: usize) {
    for index in 0..keys {
        set(store, &key(0, index), 64);
    }
}
