//! Removes random members from a set.

use undercroft_memory::{ShardSet, removing};

use crate::error::Error;
use crate::random::{Random, chance};
use crate::structures::ranges::Ranges;
use crate::transaction::access::Access;

impl Access<'_> {
    /// Removes up to `count` randomly chosen members of a set and fills `out` with them, like SPOP.
    /// Returns whether the key existed. O(removed members) for a large set, O(members) for a small
    /// set.
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, or any error of a write.
    pub fn set_pop(
        &self,
        database: usize,
        key: &[u8],
        count: u64,
        out: &mut Ranges,
    ) -> Result<bool, Error> {
        let key = self.key(key);
        let seed = chance();
        let _removing = removing();
        let found = self.write_into(ShardSet::one(key.shard), out, |writer, out| {
            writer.set_pop(database, &key, &mut Random::new(seed), count, out)
        })?;
        self.note_written(&key);
        Ok(found)
    }
}
