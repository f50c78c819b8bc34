//! Taking the first or last members of a sorted set.

use undercroft_memory::{ShardSet, removing};

use super::Scored;
use crate::error::Error;
use crate::transaction::access::Access;

impl Access<'_> {
    /// Takes up to `count` members with the lowest scores, or the highest, and fills `out` with them, as ZPOPMIN and
    /// ZPOPMAX do. Returns whether the key was there. O(log n) a member.
    ///
    /// # Errors
    /// [`Error::WrongType`] where the key holds something else; those of a write.
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
