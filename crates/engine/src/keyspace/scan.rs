//! SCAN, and the walks over all keys that build on it.
//!
//! The cursor consists of a shard and a bucket number that counts in reversed bit order, from the
//! highest bit to the lowest. When a table grows, the buckets that replace a bucket share its low
//! bits. A walk therefore visits every key that exists during the entire walk, even if tables are
//! resized between calls. Pieter Noordhuis devised this method for `dictScan` in Redis.

use std::collections::HashSet;

use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::handle::expired_seen;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::dictionary::Dictionary;
use crate::structures::entry::Entry;
use crate::structures::prefetch::Ahead;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{KEYS, Root};
use crate::structures::walk::{BUCKET_BITS, scan_bucket};
use crate::transaction::access::Access;

/// The maximum number of buckets that one call visits for each requested key, as in Redis.
const EMPTY_FACTOR: u64 = 10;
/// The maximum number of buckets that a walk visits in one unlocked read.
const BUCKETS: u64 = 64;

impl Store {
    /// Visits the next part of a database, about `count` keys, and returns the next cursor. A walk
    /// starts with cursor 0 and is complete when 0 is returned. Passes each key for which `pick`
    /// returns a value to `visit`, together with that value. A key that exists during the entire
    /// walk is visited at least once.
    pub fn scan<T>(
        &self,
        database: usize,
        cursor: u64,
        count: u64,
        pick: impl Fn(&Reader<'_, '_>, &Entry) -> Result<Option<T>, Error> + Sync,
        visit: impl FnMut(&[u8], T),
    ) -> Result<u64, Error> {
        self.access().scan(database, cursor, count, pick, visit)
    }

    /// Returns all keys of a database for which `pick` returns true. A key that exists during the
    /// entire walk is returned exactly once. O(number of keys).
    pub fn keys_where(
        &self,
        database: usize,
        pick: impl FnMut(&[u8]) -> Result<bool, Error>,
    ) -> Result<Ranges, Error> {
        self.access().keys_where(database, pick)
    }

    /// Returns the key that the random number `random` selects, or `None` if the database is empty.
    /// Keys in full buckets are slightly less likely to be selected.
    pub fn random_key(&self, database: usize, random: u64) -> Result<Option<Vec<u8>>, Error> {
        self.access().random_key(database, random)
    }
}

impl Access<'_> {
    /// Visits the next part of a database; see [`Store::scan`].
    pub fn scan<T>(
        &self,
        database: usize,
        cursor: u64,
        count: u64,
        pick: impl Fn(&Reader<'_, '_>, &Entry) -> Result<Option<T>, Error> + Sync,
        mut visit: impl FnMut(&[u8], T),
    ) -> Result<u64, Error> {
        let mut shard = (cursor >> BUCKET_BITS) as usize;
        let mut position = cursor & ((1 << BUCKET_BITS) - 1);
        let (mut met, mut looked_at) = (0, 0);
        let is_enough = |met: u64, looked_at: u64| {
            met >= count || looked_at >= count.saturating_mul(EMPTY_FACTOR)
        };
        let mut found = (Ranges::new(), Vec::new());
        while shard < self.shards() {
            let root = Root { shard, database };
            let read = self.read_into(ShardSet::one(shard), &mut found, |reader, found| {
                let view = reader.view();
                let (keys, all_picked) = found;
                let mut ahead = Ahead::new();
                let mut look = |at| {
                    let entry = Entry::load(view, at)?;
                    let expiry = entry.expiry(view)?;
                    if expiry.is_some_and(|expiry| reader.store.has_passed(expiry)) {
                        expired_seen::remember(view, database, &entry);
                    } else if let Some(picked) = pick(reader, &entry)? {
                        keys.push_with(|bytes| entry.append_key(view, bytes))?;
                        all_picked.push(picked);
                    }
                    Ok(())
                };
                let (mut next, mut entries, mut buckets) = (position, 0, 0);
                loop {
                    // Torn buckets can contain anything, so revalidate the view (R3).
                    view.recheck()?;
                    next = scan_bucket(view, root, next, |at| {
                        entries += 1;
                        ahead.put(view, at).map_or(Ok(()), &mut look)
                    })?;
                    buckets += 1;
                    let is_enough = is_enough(met + entries, looked_at + buckets);
                    if next == 0 || buckets == BUCKETS || is_enough {
                        break;
                    }
                }
                ahead.rest().try_for_each(look)?;
                Ok::<_, Error>((next, entries, buckets))
            });
            let (next, entries, buckets) = read?;
            met += entries;
            looked_at += buckets;
            let (keys, all_picked) = &mut found;
            for (key, picked) in keys.iter().zip(all_picked.drain(..)) {
                visit(key, picked);
            }
            position = next;
            if position == 0 {
                shard += 1;
            }
            if is_enough(met, looked_at) {
                break;
            }
        }
        if shard >= self.shards() {
            return Ok(0);
        }
        Ok((shard as u64) << BUCKET_BITS | position)
    }

    /// Returns all keys of a database for which `pick` returns true; see [`Store::keys_where`].
    pub fn keys_where(
        &self,
        database: usize,
        mut pick: impl FnMut(&[u8]) -> Result<bool, Error>,
    ) -> Result<Ranges, Error> {
        let mut keys = Ranges::new();
        let mut part = Ranges::new();
        for shard in 0..self.shards() {
            let root = Root { shard, database };
            let (first, mut position, mut size, mut is_resized) = (keys.len(), 0, None, false);
            loop {
                let (next, seen) =
                    self.read_into(ShardSet::one(shard), &mut part, |reader, part| {
                        part_of_walk(reader, root, position, part)
                    })?;
                is_resized |= size.is_some_and(|size| size != seen);
                size = Some(seen);
                for key in part.iter() {
                    if pick(key)? {
                        keys.push(key);
                    }
                }
                position = next;
                if position == 0 {
                    break;
                }
            }
            // A walk visits a key twice only if a table was resized.
            if is_resized {
                keep_first(&mut keys, first);
            }
        }
        Ok(keys)
    }

    /// Returns a random key of a database; see [`Store::random_key`].
    pub fn random_key(&self, database: usize, random: u64) -> Result<Option<Vec<u8>>, Error> {
        let total = self.count_keys(database)?;
        if total == 0 {
            return Ok(None);
        }
        // Choose a shard weighted by its number of keys, then a random bucket in that shard, and
        // walk from there to a key.
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
                let mut keys = Ranges::new();
                cursor = self.scan(
                    database,
                    cursor,
                    1,
                    |_, _| Ok(Some(())),
                    |key, ()| keys.push(key),
                )?;
                if !keys.is_empty() {
                    let index = (random.rotate_left(17) % keys.len() as u64) as usize;
                    return Ok(Some(keys.get(index).to_vec()));
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(None)
    }
}

/// The sizes of a dictionary's current and new table. A change means that a walk may see a key
/// twice.
type Size = Option<(u64, Option<u64>)>;

/// Appends the keys in the next buckets of a walk. Returns the next position, which is 0 at the end
/// of the walk, and the sizes of the tables.
fn part_of_walk(
    reader: &Reader<'_, '_>,
    root: Root,
    mut position: u64,
    part: &mut Ranges,
) -> Result<(u64, Size), Error> {
    let view = reader.view();
    let tables = root.tables(view)?;
    let size = tables.map(|tables| (tables.main.bits, tables.other.map(|(other, _)| other.bits)));
    let mut ahead = Ahead::new();
    let mut visit = |at| {
        let entry = Entry::load(view, at)?;
        let expiry = entry.expiry(view)?;
        if expiry.is_some_and(|expiry| reader.store.has_passed(expiry)) {
            expired_seen::remember(view, root.database, &entry);
            return Ok(());
        }
        part.push_with(|bytes| entry.append_key(view, bytes))
    };
    for _ in 0..BUCKETS {
        // Torn buckets can contain anything, so revalidate the view (R3).
        view.recheck()?;
        position = scan_bucket(view, root, position, |at| {
            ahead.put(view, at).map_or(Ok(()), &mut visit)
        })?;
        if position == 0 {
            break;
        }
    }
    ahead.rest().try_for_each(visit)?;
    Ok((position, size))
}

/// Removes duplicate keys at or after index `first`.
fn keep_first(keys: &mut Ranges, first: usize) {
    let mut kept = Ranges::new();
    let mut seen = HashSet::new();
    for (index, key) in keys.iter().enumerate() {
        if index < first || seen.insert(key) {
            kept.push(key);
        }
    }
    *keys = kept;
}

#[cfg(test)]
mod tests {
    use undercroft_memory::Options;

    use super::*;

    #[test]
    fn walk_over_growing_tables_returns_each_key_once() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        let name = |number: u32| number.to_string().into_bytes();
        for number in 0..5000 {
            store.set(0, &name(number), b"v").expect("set");
        }
        let (mut asked, mut added) = (0, 5000);
        let keys = store.keys_where(0, |_| {
            // Insert keys between two reads, so that the walk continues in larger tables.
            if asked % 1000 == 0 && added < 65_000 {
                for number in added..added + 20_000 {
                    store.set(0, &name(number), b"v").expect("set");
                }
                added += 20_000;
            }
            asked += 1;
            Ok(true)
        });
        let keys = keys.expect("walked");
        let distinct: HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert!((0..5000).all(|number| distinct.contains(&name(number)[..])));
    }
}
