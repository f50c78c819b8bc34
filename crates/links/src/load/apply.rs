//! Decodes and stores the keys of a batch, or only decodes them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use smallvec::SmallVec;
use undercroft_engine::rdb::{
    DecodedString, ExpiringHash, decode, decode_expiring_hash, decode_string_onto,
};
use undercroft_engine::strings::{Condition, STRING_MAX, SetOptions};
use undercroft_engine::{
    Expiry, Key, Limits, Ranges, ShardSet, Store, ValueType, loading_database,
};

use super::batch::Batch;
use super::results::{Counts, LoadError, LoadOptions};
use crate::rdb::{KeyEvent, ReadError, Usage, ValueKind, shown};

/// The type byte of strings.
const STRING: u8 = 0;
/// The size in bytes from which a buffer is freed rather than reused.
const BUFFER_KEPT: usize = 1 << 20;

/// The maximum number of keys and of bytes that one transaction stores. A transaction costs about as
/// much as a small key, but other processes wait while it holds its lock (W9).
const GROUP_KEYS: usize = 32;
const GROUP_BYTES: usize = 32 << 10;

pub(super) struct Applier<'a> {
    store: Option<&'a Store>,
    drop_field_expiry: bool,
    is_replica: bool,
    /// Whether the store counts the uses of keys, rather than recording the time of the last use.
    counts_uses: bool,
    /// Buffers for the items of collections, which are reused.
    buffers: Vec<Ranges>,
    /// The decoded strings of a batch.
    strings: Vec<u8>,
    /// The order in which the keys of a batch are stored.
    order: Vec<Place>,
    pub(super) counts: Counts,
}

/// The place of a key in the order of storing: its shard, its database, and its position in the batch.
/// Sorting these is faster than moving the keys.
type Place = (u16, u16, u32);

/// The decoded value of a key.
enum Value<'b> {
    String(DecodedString<'b>),
    /// A collection, whose items are in the buffer at this index.
    Collection(ValueType, usize),
}

/// A key that is ready to be stored.
struct Ready<'b> {
    event: KeyEvent<'b>,
    key: Key<'b>,
    value: Value<'b>,
    /// The size of the value in bytes.
    bytes: usize,
}

/// Keys that one transaction stores.
type Group<'r, 'b> = SmallVec<[&'r Ready<'b>; GROUP_KEYS]>;

impl<'a> Applier<'a> {
    pub(super) fn new(store: Option<&'a Store>, options: &LoadOptions) -> Applier<'a> {
        Applier {
            store,
            drop_field_expiry: options.drop_field_expiry,
            is_replica: options.is_replica,
            counts_uses: store.is_some_and(|store| store.eviction().policy.is_lfu()),
            buffers: Vec::new(),
            strings: Vec::new(),
            order: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Announces the number of keys that a database will have, according to the file.
    pub(super) fn expect(&self, keys: u64) {
        if let Some(store) = self.store {
            store.expect_keys(keys);
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
        let (mut ready, mut used) = (Vec::with_capacity(batch.len()), 0);
        self.strings.clear();
        if self.strings.capacity() > BUFFER_KEPT {
            self.strings = Vec::new();
        }
        for event in batch.iter() {
            let Some((value, bytes)) = self.decode(&event, now, &mut used)? else {
                continue;
            };
            self.counts.keys += 1;
            self.counts.bytes += (event.key.len() + bytes) as u64;
            if let Some(store) = self.store {
                ready.push(Ready {
                    key: store.key(event.key),
                    event,
                    value,
                    bytes,
                });
            }
        }
        let Some(store) = self.store else {
            return Ok(());
        };
        // A transaction locks one shard and one database.
        let place = |(position, ready): (usize, &Ready<'_>)| -> Place {
            (
                ready.key.shard() as u16,
                ready.event.database as u16,
                position as u32,
            )
        };
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(ready.iter().enumerate().map(place));
        order.sort_unstable();
        let mut rest = &order[..];
        while let Some(&(shard, database, _)) = rest.first() {
            let mut bytes = 0;
            let fits = |next: &&Place| {
                bytes += ready[next.2 as usize].bytes;
                (next.0, next.1) == (shard, database) && bytes <= GROUP_BYTES
            };
            let keys = rest.iter().take(GROUP_KEYS).take_while(fits).count();
            let (group, after) = rest.split_at(keys.max(1));
            let group: Group<'_, '_> = group.iter().map(|place| &ready[place.2 as usize]).collect();
            self.store_group(store, &group)?;
            rest = after;
        }
        self.order = order;
        Ok(())
    }

    /// Decodes a value. Returns the value and its size in bytes, or `None` if the key is left out,
    /// which is counted. `used` is the number of buffers in use.
    fn decode<'b>(
        &mut self,
        event: &KeyEvent<'b>,
        now: u64,
        used: &mut usize,
    ) -> Result<Option<(Value<'b>, usize)>, LoadError> {
        let is_expired = !self.is_replica && event.expiry.is_some_and(|expiry| expiry <= now);
        if event.kind == ValueKind::Shared(STRING) {
            if self.store.is_none() {
                // A validation needs no string again.
                self.strings.clear();
            }
            let value = decode_string_onto(event.value, STRING_MAX as usize, &mut self.strings);
            let value = value.ok_or_else(|| malformed(event))?;
            if is_expired {
                self.counts.expired += 1;
                return Ok(None);
            }
            let bytes = match &value {
                DecodedString::Stored(string) => string.len(),
                DecodedString::Decoded(range) => range.len(),
            };
            return Ok(Some((Value::String(value), bytes)));
        }
        if *used == self.buffers.len() {
            self.buffers.push(Ranges::new());
        }
        let (value_type, had_elements) = self.decode_collection(event, now, *used)?;
        let items = &mut self.buffers[*used];
        if !had_elements {
            self.counts.empty += 1;
            return Ok(None);
        }
        if is_expired || items.is_empty() {
            self.counts.expired += 1;
            return Ok(None);
        }
        let bytes = items.byte_length();
        // A validation needs the buffer no longer.
        let index = *used;
        *used += usize::from(self.store.is_some());
        Ok(Some((Value::Collection(value_type, index), bytes)))
    }

    /// Decodes a collection into a buffer. Returns its type, and whether it has elements, including
    /// expired ones.
    fn decode_collection(
        &mut self,
        event: &KeyEvent<'_>,
        now: u64,
        buffer: usize,
    ) -> Result<(ValueType, bool), LoadError> {
        let items = &mut self.buffers[buffer];
        if items.capacity() > BUFFER_KEPT {
            *items = Ranges::new();
        }
        match event.kind {
            ValueKind::Shared(kind) => {
                let value_type = decode(kind, event.value, STRING_MAX as usize, items);
                let value_type = value_type.ok_or_else(|| malformed(event))?;
                Ok((value_type, !items.is_empty()))
            }
            ValueKind::ExpiringHash(encoding) => {
                let had_elements = self.decode_expiring(event, encoding, now, buffer)?;
                Ok((ValueType::Hash, had_elements))
            }
        }
    }

    /// Decodes a hash whose fields can expire. Leaves out fields that have expired. Returns whether
    /// the hash has fields.
    fn decode_expiring(
        &mut self,
        event: &KeyEvent<'_>,
        encoding: ExpiringHash,
        now: u64,
        buffer: usize,
    ) -> Result<bool, LoadError> {
        let decoded = decode_expiring_hash(encoding, event.value, STRING_MAX as usize);
        let (all, expiries) = decoded.ok_or_else(|| malformed(event))?;
        let dropped = expiries.iter().flatten().count();
        if dropped > 0 && !self.drop_field_expiry {
            return Err(LoadError::Read(ReadError::refused(
                event.at,
                format!(
                    "the hash {} has {}, which cannot be stored; --drop-field-expiry stores such \
                     fields without their expiry",
                    shown(event.key),
                    match dropped {
                        1 => "a field that expires".to_owned(),
                        _ => format!("{dropped} fields that expire"),
                    }
                ),
            )));
        }
        let items = &mut self.buffers[buffer];
        items.clear();
        for (index, expiry) in expiries.iter().enumerate() {
            match expiry {
                Some(expiry) if *expiry <= now => {}
                _ => {
                    self.counts.dropped_expiries += u64::from(expiry.is_some());
                    items.push(all.get(2 * index));
                    items.push(all.get(2 * index + 1));
                }
            }
        }
        Ok(!all.is_empty())
    }

    /// Stores keys of one shard and one database in one transaction.
    fn store_group(&self, store: &Store, group: &[&Ready<'_>]) -> Result<(), LoadError> {
        let [first, ..] = group else {
            return Ok(());
        };
        let database = match self.is_replica {
            true => loading_database(first.event.database),
            false => first.event.database,
        };
        let keys: SmallVec<[Key<'_>; GROUP_KEYS]> = group.iter().map(|ready| ready.key).collect();
        // The position of the key that is being stored, for an error.
        let current = AtomicUsize::new(0);
        let failed = |error| {
            let current = group[current.load(Ordering::Relaxed)];
            LoadError::of_key(current.event.key, error)
        };
        if let ([ready], Value::String(value)) = (group, &first.value) {
            // A long string is copied into the store before its shard is locked.
            let options = SetOptions {
                condition: Condition::Always,
                expiry: expiry_of(&ready.event),
            };
            let set = store.set_with(database, ready.event.key, self.text(value), options);
            set.map_err(failed)?;
        } else {
            let bytes = group.iter().map(|ready| ready.bytes).sum();
            store.check_memory_for(bytes).map_err(failed)?;
            let written = store.write(ShardSet::one(first.key.shard()), |writer| {
                for (position, ready) in group.iter().enumerate() {
                    current.store(position, Ordering::Relaxed);
                    store.warm_ahead(database, &keys, position);
                    match &ready.value {
                        Value::String(value) => {
                            let (value, expiry) = (self.text(value), expiry_of(&ready.event));
                            writer.set(database, &ready.key, value, expiry)?;
                        }
                        Value::Collection(value_type, index) => writer.put_items(
                            database,
                            &ready.key,
                            *value_type,
                            &self.buffers[*index],
                            ready.event.expiry,
                            &Limits::DEFAULT,
                        )?,
                    }
                }
                Ok(())
            });
            written.map_err(failed)?;
        }
        group.iter().for_each(|ready| self.note_usage(store, ready));
        Ok(())
    }

    /// Returns a decoded string.
    fn text<'s>(&'s self, string: &'s DecodedString<'_>) -> &'s [u8] {
        match string {
            DecodedString::Stored(string) => string,
            DecodedString::Decoded(range) => &self.strings[range.clone()],
        }
    }

    /// Records when a key was last used, or how often, whichever the eviction policy uses. As in
    /// RESTORE, a key without a hint counts as just used.
    fn note_usage(&self, store: &Store, ready: &Ready<'_>) {
        match (ready.event.usage, self.counts_uses) {
            (Some(Usage::Frequency(counter)), true) => store.set_frequency(&ready.key, counter),
            (_, true) => {}
            (Some(Usage::IdleSeconds(seconds)), false) => {
                store.set_idle_seconds(&ready.key, seconds);
            }
            (_, false) => store.set_idle_seconds(&ready.key, 0),
        }
    }
}

fn expiry_of(event: &KeyEvent<'_>) -> Expiry {
    event.expiry.map_or(Expiry::Never, Expiry::At)
}

fn malformed(event: &KeyEvent<'_>) -> LoadError {
    LoadError::Read(ReadError::damaged(
        event.at,
        format!("a sound value of the key {}", shown(event.key)),
    ))
}
