//! Taking members out of a set by chance.

use undercroft_memory::{ShardSet, removing};

use crate::error::Error;
use crate::random::{Random, chance};
use crate::structures::ranges::Ranges;
use crate::transaction::access::Access;

impl Access<'_> {
    /// Takes up to `count` members of a set by chance and fills `out` with them, as SPOP does. Returns whether the key
    /// was there. O(members taken), and O(members) while the set is small.
    ///
    /// # Errors
    /// [`Error::WrongType`] where the key holds something else; those of a write.
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
