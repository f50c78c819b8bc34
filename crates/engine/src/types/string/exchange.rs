//! Operations that remove a string from the store or replace it, and return the old string.

use undercroft_memory::{ShardSet, removing};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::key::Key;
use crate::transaction::access::Access;
use crate::transaction::writer::{Expiry, Writer};

impl Access<'_> {
    /// Removes a key and fills `out` with its string, like GETDEL. Returns the key's expiry, or
    /// `None` if the key did not exist. O(length).
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, or any error of a write.
    #[inline]
    pub fn take_string(
        &self,
        database: usize,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Option<u64>>, Error> {
        let key = self.key(key);
        let _removing = removing();
        let found = self.write_into(ShardSet::one(key.shard), out, |writer, out| {
            let found = writer.copy_string(database, &key, out)?;
            if found.is_some() {
                writer.remove(database, &key)?;
            }
            Ok::<_, Error>(found)
        })?;
        self.note_written(&key);
        Ok(found)
    }

    /// Stores a string without an expiry at a key and fills `out` with the old string, like GETSET.
    /// Returns the old expiry, or `None` if the key did not exist. O(length of both strings).
    ///
    /// # Errors
    /// [`Error::WrongType`] if the key holds a value of another type, or any error of a write.
    #[inline]
    pub fn exchange_string(
        &self,
        database: usize,
        key: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Option<u64>>, Error> {
        let key = self.key(key);
        self.check_memory_for(value.len())?;
        let found = self.write_into(ShardSet::one(key.shard), out, |writer, out| {
            let found = writer.copy_string(database, &key, out)?;
            writer.set(database, &key, value, Expiry::Never)?;
            Ok::<_, Error>(found)
        })?;
        self.note_written(&key);
        Ok(found)
    }
}

impl Writer<'_, '_> {
    /// Appends the string at a key to `out` and returns the key's expiry. Emits a miss event if the
    /// key does not exist.
    fn copy_string(
        &mut self,
        database: usize,
        key: &Key<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Option<u64>>, Error> {
        let Some(entry) = self.find(database, key)? else {
            self.tell(KeyEvent::KeyMiss, database, key);
            return Ok(None);
        };
        entry.text(self.view())?.append_to(self.view(), out)?;
        Ok(Some(entry.expiry(self.view())?))
    }
}
