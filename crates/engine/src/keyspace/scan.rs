//! SCAN, and the walks built on it.
//!
//! The cursor is (shard, reversed-bit bucket): counting up from the highest bit
//! down visits every key that is there all the time, whatever resizes happen
//! between calls, as the buckets that a bucket splits into have the same low
//! bits. (The method is Pieter Noordhuis', of Redis' `dictScan`.)

use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::store::{Reader, Store};
use crate::structures::entry::Entry;
use crate::structures::roots::{KEYS, Root};
use crate::structures::walk::{BUCKET_BITS, scan_bucket};
use crate::transaction::access::Access;
use crate::upkeep::expired;

/// Buckets looked at in a call at most for each key asked for, as in Redis.
const EMPTY_FACTOR: u64 = 10;

impl Store {
    /// The next part of a walk over a database, starting with cursor 0; the
    /// walk is over when 0 is returned. Calls `visit` with each key and what
    /// `pick` returns for its entry, where that is something. Every key that is
    /// there from start to end is visited at least once; about `count` a call.
    pub fn scan<T>(
        &self,
        database: usize,
        cursor: u64,
        count: u64,
        pick: impl Fn(&Reader<'_, '_>, &Entry) -> Result<Option<T>, Error> + Sync,
        visit: impl FnMut(Vec<u8>, T),
    ) -> Result<u64, Error> {
        self.access().scan(database, cursor, count, pick, visit)
    }

    /// All keys of a database for which `pick` returns true. A key that is
    /// there all the time is returned once; O(keys).
    pub fn keys_where(
        &self,
        database: usize,
        pick: impl FnMut(&[u8]) -> Result<bool, Error>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.access().keys_where(database, pick)
    }

    /// Some key of a database; `random` chooses which. None where there is
    /// none. Keys in full buckets are less likely than others, a little.
    pub fn random_key(&self, database: usize, random: u64) -> Result<Option<Vec<u8>>, Error> {
        self.access().random_key(database, random)
    }
}

impl Access<'_> {
    /// The next part of a walk over a database; see [`Store::scan`].
    pub fn scan<T>(
        &self,
        database: usize,
        cursor: u64,
        count: u64,
        pick: impl Fn(&Reader<'_, '_>, &Entry) -> Result<Option<T>, Error> + Sync,
        mut visit: impl FnMut(Vec<u8>, T),
    ) -> Result<u64, Error> {
        let mut shard = (cursor >> BUCKET_BITS) as usize;
        let mut position = cursor & ((1 << BUCKET_BITS) - 1);
        let mut visited = 0;
        let mut looked_at = 0;
        while shard < self.shards() {
            let root = Root { shard, database };
            let (found, next) = self.read(ShardSet::one(shard), |reader| {
                let mut found = Vec::new();
                let next = scan_bucket(reader.view(), root, position, |at| {
                    let entry = Entry::load(reader.view(), at)?;
                    if entry
                        .expiry(reader.view())?
                        .is_some_and(|expiry| expiry <= reader.now())
                    {
                        expired::remember(reader.view(), database, &entry);
                        return Ok(());
                    }
                    if let Some(picked) = pick(reader, &entry)? {
                        let mut key = Vec::new();
                        entry.append_key(reader.view(), &mut key)?;
                        found.push((key, picked));
                    }
                    Ok(())
                })?;
                Ok::<_, Error>((found, next))
            })?;
            looked_at += 1;
            for (key, picked) in found {
                visited += 1;
                visit(key, picked);
            }
            position = next;
            if position == 0 {
                shard += 1;
            }
            if visited >= count || looked_at >= count.saturating_mul(EMPTY_FACTOR) {
                break;
            }
        }
        if shard >= self.shards() {
            return Ok(0);
        }
        Ok((shard as u64) << BUCKET_BITS | position)
    }

    /// All keys of a database that `pick` takes; see [`Store::keys_where`].
    pub fn keys_where(
        &self,
        database: usize,
        mut pick: impl FnMut(&[u8]) -> Result<bool, Error>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let mut keys = std::collections::HashSet::new();
        let mut cursor = 0;
        let mut failed = None;
        loop {
            cursor = self.scan(
                database,
                cursor,
                1000,
                |_, _| Ok(Some(())),
                |key, ()| match pick(&key) {
                    Ok(true) => {
                        keys.insert(key);
                    }
                    Ok(false) => {}
                    Err(error) => failed = Some(error),
                },
            )?;
            if let Some(error) = failed {
                return Err(error);
            }
            if cursor == 0 {
                return Ok(keys.into_iter().collect());
            }
        }
    }

    /// Some key of a database; see [`Store::random_key`].
    pub fn random_key(&self, database: usize, random: u64) -> Result<Option<Vec<u8>>, Error> {
        let total = self.count_keys(database)?;
        if total == 0 {
            return Ok(None);
        }
        // A shard by its share of the keys, then a bucket by chance and onwards.
        let mut left = random % total;
        let mut start = 0;
        for shard in 0..self.shards() {
            let keys = self.read(ShardSet::one(shard), |reader| {
                Ok::<_, Error>(Root { shard, database }.get(reader.view(), KEYS))
            })?;
            start = shard;
            if left < keys {
                break;
            }
            left -= keys;
        }
        let position = random.rotate_left(32) & ((1 << BUCKET_BITS) - 1);
        for (first, position) in [(start, position), (0, 0)] {
            let mut cursor = (first as u64) << BUCKET_BITS | position;
            loop {
                let mut keys = Vec::new();
                cursor = self.scan(
                    database,
                    cursor,
                    1,
                    |_, _| Ok(Some(())),
                    |key, ()| {
                        keys.push(key);
                    },
                )?;
                if !keys.is_empty() {
                    let index = (random.rotate_left(17) % keys.len() as u64) as usize;
                    return Ok(Some(keys.swap_remove(index)));
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(None)
    }
}
