//! Keys with their encoded values in one buffer, so that passing them to another thread costs
//! little per key.

use std::ops::Range;

use crate::rdb::{KeyEvent, Usage, ValueKind};

/// The number of bytes and of keys at which a batch is full.
const BYTES_FULL: usize = 128 << 10;
const KEYS_FULL: usize = 1024;
/// The size in bytes from which an empty buffer is freed rather than kept.
const BYTES_KEPT: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    keys: Vec<Packed>,
}

struct Packed {
    at: u64,
    database: usize,
    key: Range<usize>,
    value: Range<usize>,
    expiry: Option<u64>,
    usage: Option<Usage>,
    kind: ValueKind,
}

impl Batch {
    /// Adds a key.
    pub(super) fn push(&mut self, event: &KeyEvent<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(event.key);
        let middle = self.bytes.len();
        self.bytes.extend_from_slice(event.value);
        self.keys.push(Packed {
            at: event.at,
            database: event.database,
            key: start..middle,
            value: middle..self.bytes.len(),
            expiry: event.expiry,
            usage: event.usage,
            kind: event.kind,
        });
    }

    /// Returns whether the batch is to be applied before another key is added.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= BYTES_FULL || self.keys.len() >= KEYS_FULL
    }

    /// Returns the number of keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.bytes.clear();
        if self.bytes.capacity() > BYTES_KEPT {
            self.bytes = Vec::new();
        }
    }

    /// Iterates over the keys in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = KeyEvent<'_>> {
        self.keys.iter().map(|packed| KeyEvent {
            at: packed.at,
            database: packed.database,
            key: &self.bytes[packed.key.clone()],
            expiry: packed.expiry,
            usage: packed.usage,
            kind: packed.kind,
            value: &self.bytes[packed.value.clone()],
        })
    }
}
