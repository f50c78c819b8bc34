//! Pops the first or last members of a sorted set.

use undercroft_memory::{ShardSet, removing};

use super::Scored;
use crate::error::Error;
use crate::transaction::access::Access;

impl Access<'_> {
    /// Pops up to `count` members with the lowest or highest scores and fills `out` with them, like
    /// ZPOPMIN and ZPOPMAX. Returns whether the key existed. O(log n) for each member.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, or any error of a write.
    pub fn sorted_pop(
        &self,
        database: usize,
        key: &[u8],
        highest: bool,
        count: u64,
        out: &mut Scored,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let _removing = removing();
        let found = self.write_into(ShardSet::one(key.shard), out, |writer, out| {
            writer.sorted_pop(database, &key, highest, count, out)
        })?;
        self.note_written(&key);
        Ok(found)
    }
}
