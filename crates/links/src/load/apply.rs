//! Decodes and stores the keys of a batch, or only decodes them.

use std::time::{SystemTime, UNIX_EPOCH};

use undercroft_engine::rdb::{ExpiringHash, decode, decode_expiring_hash, decode_string};
use undercroft_engine::strings::{Condition, STRING_MAX, SetOptions};
use undercroft_engine::{Expiry, Limits, Ranges, Store, ValueType};

use super::batch::Batch;
use super::results::{Counts, LoadError, LoadOptions};
use crate::rdb::{KeyEvent, ReadError, Usage, ValueKind, shown};

/// The type byte of strings.
const STRING: u8 = 0;

pub(super) struct Applier<'a> {
    store: Option<&'a Store>,
    drop_field_expiry: bool,
    /// Whether the store counts the uses of keys, rather than recording the time of the last use.
    counts_uses: bool,
    /// Buffers that are reused: the items of a value, and those that have not expired.
    items: Ranges,
    pub(super) counts: Counts,
}

/// The decoded value of a key.
enum Value {
    Stored(ValueType),
    /// All fields of the hash have expired.
    Expired,
    /// The collection has no elements.
    Empty,
}

impl<'a> Applier<'a> {
    pub(super) fn new(store: Option<&'a Store>, options: &LoadOptions) -> Applier<'a> {
        Applier {
            store,
            drop_field_expiry: options.drop_field_expiry,
            counts_uses: store.is_some_and(|store| store.eviction().policy.is_lfu()),
            items: Ranges::new(),
            counts: Counts::default(),
        }
    }

    /// Decodes all keys of a batch, and stores them if there is a store.
    pub(super) fn apply(&mut self, batch: &Batch) -> Result<(), LoadError> {
        let now = match self.store {
            Some(store) => store.now(),
            None => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                now.map_or(0, |now| now.as_millis() as u64)
            }
        };
        batch.iter().try_for_each(|event| self.key(&event, now))
    }

    fn key(&mut self, event: &KeyEvent<'_>, now: u64) -> Result<(), LoadError> {
        let is_expired = event.expiry.is_some_and(|expiry| expiry <= now);
        if event.kind == ValueKind::Shared(STRING) {
            let value = decode_string(event.value, STRING_MAX as usize);
            let value = value.ok_or_else(|| malformed(event))?;
            if is_expired {
                self.counts.expired += 1;
                return Ok(());
            }
            if let Some(store) = self.store {
                let options = SetOptions {
                    condition: Condition::Always,
                    expiry: event.expiry.map_or(Expiry::Never, Expiry::At),
                };
                store
                    .set_with(event.database, event.key, &value, options)
                    .map_err(|error| LoadError::of_key(event.key, error))?;
                self.note_usage(store, event);
            }
            self.count(event.key.len() + value.len());
            return Ok(());
        }
        match (self.decode(event, now)?, is_expired) {
            (Value::Empty, _) => self.counts.empty += 1,
            (Value::Expired, _) | (_, true) => self.counts.expired += 1,
            (Value::Stored(value_type), false) => {
                if let Some(store) = self.store {
                    self.put(store, event, value_type)?;
                    self.note_usage(store, event);
                }
                self.count(event.key.len() + self.items.byte_length());
            }
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) {
        self.counts.keys += 1;
        self.counts.bytes += bytes as u64;
    }

    /// Decodes a collection into `items`.
    fn decode(&mut self, event: &KeyEvent<'_>, now: u64) -> Result<Value, LoadError> {
        let limit = STRING_MAX as usize;
        match event.kind {
            ValueKind::Shared(kind) => {
                let value_type = decode(kind, event.value, limit, &mut self.items);
                let value_type = value_type.ok_or_else(|| malformed(event))?;
                Ok(match self.items.is_empty() {
                    true => Value::Empty,
                    false => Value::Stored(value_type),
                })
            }
            ValueKind::ExpiringHash(encoding) => self.decode_expiring(event, encoding, now),
        }
    }

    /// Decodes a hash whose fields can expire. Leaves out fields that have expired.
    fn decode_expiring(
        &mut self,
        event: &KeyEvent<'_>,
        encoding: ExpiringHash,
        now: u64,
    ) -> Result<Value, LoadError> {
        let decoded = decode_expiring_hash(encoding, event.value, STRING_MAX as usize);
        let (items, expiries) = decoded.ok_or_else(|| malformed(event))?;
        let dropped = expiries.iter().flatten().count();
        if dropped > 0 && !self.drop_field_expiry {
            return Err(LoadError::Read(ReadError::refused(
                event.at,
                format!(
                    "the hash {} has {dropped} fields that expire, which cannot be stored; \
                     --drop-field-expiry stores such fields without their expiry",
                    shown(event.key)
                ),
            )));
        }
        self.items.clear();
        for (index, expiry) in expiries.iter().enumerate() {
            match expiry {
                Some(expiry) if *expiry <= now => {}
                _ => {
                    self.counts.dropped_expiries += u64::from(expiry.is_some());
                    self.items.push(items.get(2 * index));
                    self.items.push(items.get(2 * index + 1));
                }
            }
        }
        Ok(match (items.is_empty(), self.items.is_empty()) {
            (true, _) => Value::Empty,
            (false, true) => Value::Expired,
            (false, false) => Value::Stored(ValueType::Hash),
        })
    }

    /// Stores the decoded items as a value.
    fn put(
        &self,
        store: &Store,
        event: &KeyEvent<'_>,
        value_type: ValueType,
    ) -> Result<(), LoadError> {
        let put = || {
            store.check_memory_for(self.items.byte_length())?;
            let key = store.key(event.key);
            let (database, expiry) = (event.database, event.expiry);
            store.write(store.shards_of([&key]), |writer| {
                let limits = &Limits::DEFAULT;
                writer.put_items(database, &key, value_type, &self.items, expiry, limits)
            })
        };
        put().map_err(|error| LoadError::of_key(event.key, error))
    }

    /// Records when a key was last used, or how often, whichever the eviction policy uses.
    fn note_usage(&self, store: &Store, event: &KeyEvent<'_>) {
        match (event.usage, self.counts_uses) {
            (Some(Usage::IdleSeconds(seconds)), false) => {
                store.set_idle_seconds(&store.key(event.key), seconds);
            }
            (Some(Usage::Frequency(counter)), true) => {
                store.set_frequency(&store.key(event.key), counter);
            }
            _ => {}
        }
    }
}

fn malformed(event: &KeyEvent<'_>) -> LoadError {
    LoadError::Read(ReadError::damaged(
        event.at,
        format!("a sound value of the key {}", shown(event.key)),
    ))
}
