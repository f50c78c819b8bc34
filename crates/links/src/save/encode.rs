//! Encodes the keys of one shard, except those that an RDB file cannot contain: feeds, channels and
//! objects.

use std::fmt;

use undercroft_engine::keyspace::Item;
use undercroft_engine::rdb::{RdbVersion, encode};
use undercroft_engine::{Store, ValueType};

use crate::rdb::{EncodedKey, Usage, append_key};

/// The number of bytes at which a part is full.
const PART_FULL: usize = 256 << 10;

// The names of channels' keys and of objects, and the first bytes of objects, as in
// crates/engine/src/channel/mod.rs and crates/embedded/src/objects.rs.
const CHANNEL: &[u8] = b"undercroft:channel:{";
const OBJECT: &[u8] = b"object:";
const OBJECT_START: &[u8] = &[0xc1, b'U', b'O'];

/// The numbers of keys that an RDB file cannot contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// The number of feeds.
    pub feeds: u64,
    /// The number of keys of channels, of which a channel has up to four.
    pub channels: u64,
    /// The number of objects.
    pub objects: u64,
}

impl Own {
    /// Returns whether there are no such keys.
    pub fn is_empty(&self) -> bool {
        *self == Own::default()
    }

    pub(super) fn add(&mut self, other: &Own) {
        self.feeds += other.feeds;
        self.channels += other.channels;
        self.objects += other.objects;
    }
}

impl fmt::Display for Own {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.feeds, "feed", "feeds"),
            (self.channels, "key of a channel", "keys of channels"),
            (self.objects, "object", "objects"),
        ];
        let mut before = "";
        for (count, one, many) in kinds {
            if count > 0 {
                let name = if count == 1 { one } else { many };
                write!(formatter, "{before}{count} {name}")?;
                before = ", ";
            }
        }
        Ok(())
    }
}

/// Encoded keys.
#[derive(Default)]
pub(super) struct Part {
    pub(super) bytes: Vec<u8>,
    pub(super) keys: u64,
    /// The keys that were left out.
    pub(super) own: Own,
}

pub(super) struct Encoder<'a> {
    store: &'a Store,
    version: RdbVersion,
    /// Whether the eviction policy uses the time of the last use, or the number of uses.
    uses_idle_times: bool,
    uses_counters: bool,
    /// A buffer that is reused.
    value: Vec<u8>,
    part: Part,
}

impl<'a> Encoder<'a> {
    pub(super) fn new(store: &'a Store, version: RdbVersion) -> Encoder<'a> {
        let policy = store.eviction().policy;
        Encoder {
            store,
            version,
            uses_idle_times: policy.is_lru(),
            uses_counters: policy.is_lfu(),
            value: Vec::new(),
            part: Part::default(),
        }
    }

    /// Encodes a key, or counts it if an RDB file cannot contain it.
    pub(super) fn add(&mut self, item: &Item<'_>) {
        let own = &mut self.part.own;
        if item.value_type == ValueType::Feed {
            own.feeds += 1;
            return;
        }
        if item.key.starts_with(CHANNEL) {
            own.channels += 1;
            return;
        }
        let is_object = item.key.starts_with(OBJECT)
            && item.value_type == ValueType::String
            && item
                .items
                .iter()
                .next()
                .unwrap_or_default()
                .starts_with(OBJECT_START);
        if is_object {
            own.objects += 1;
            return;
        }
        self.value.clear();
        let kind = (item.value_type, item.encoding);
        encode(kind, item.items, self.version, &mut self.value);
        let usage = || {
            let key = self.store.key(item.key);
            match (self.uses_idle_times, self.uses_counters) {
                (true, _) => Some(Usage::IdleSeconds(self.store.idle_seconds(&key))),
                (_, true) => Some(Usage::Frequency(self.store.frequency(&key))),
                _ => None,
            }
        };
        let encoded = EncodedKey {
            key: item.key,
            expiry: item.expiry,
            usage: usage(),
            value: &self.value,
        };
        append_key(&encoded, &mut self.part.bytes);
        self.part.keys += 1;
    }

    /// Returns the encoded keys if they fill a part.
    pub(super) fn full_part(&mut self) -> Option<Part> {
        let is_full = self.part.bytes.len() >= PART_FULL;
        is_full.then(|| std::mem::take(&mut self.part))
    }

    /// Returns the encoded keys that have not been returned yet.
    pub(super) fn last_part(mut self) -> Part {
        std::mem::take(&mut self.part)
    }
}
