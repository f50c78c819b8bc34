//! The list operations that embedded clients call most often.

use undercroft_memory::{ShardSet, removing};

use super::End;
use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::ranges::Ranges;

impl Store {
    /// Pushes items at one end of a list in the given order, creating the list if it does not
    /// exist. Returns the new length. O(items).
    #[inline]
    pub fn list_push(
        &self,
        database: usize,
        key: &[u8],
        end: End,
        values: &[&[u8]],
    ) -> Result<u64, Error> {
        let key = self.key(key);
        self.check_memory_for(values.iter().map(|value| value.len()).sum())?;
        let length = self.write(ShardSet::one(key.shard), |writer| {
            writer.list_push(database, &key, end, values, false)
        })?;
        self.touch_written(&key);
        Ok(length)
    }

    /// Pops up to `count` items from one end of a list and fills `out` with them. Returns whether
    /// the key existed. O(items).
    #[inline]
    pub fn list_pop(
        &self,
        database: usize,
        key: &[u8],
        end: End,
        count: u64,
        out: &mut Ranges,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let _removing = removing();
        let found = self.write_into(ShardSet::one(key.shard), out, |writer, out| {
            writer.list_pop(database, &key, end, count, out)
        })?;
        self.touch_written(&key);
        Ok(found)
    }

    /// Fills `out` with the items at positions `start..=stop` of a list. A negative position counts
    /// from the tail. If the range is empty, `out` is left empty. Returns whether the key existed.
    /// O(log n + items).
    #[inline]
    pub fn list_range(
        &self,
        database: usize,
        key: &[u8],
        start: i64,
        stop: i64,
        out: &mut Ranges,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let found = self.read_into(ShardSet::one(key.shard), out, |reader, out| {
            reader.list_range(database, &key, (start, stop), out)
        })?;
        self.looked_up(database, &key, found);
        Ok(found)
    }

    /// Returns the number of items in a list, or 0 if the key does not exist. O(1).
    pub fn list_length(&self, database: usize, key: &[u8]) -> Result<u64, Error> {
        let key = self.key(key);
        let length = self.read(ShardSet::one(key.shard), |reader| {
            reader.list_length(database, &key)
        })?;
        self.looked_up(database, &key, length > 0);
        Ok(length)
    }
}
