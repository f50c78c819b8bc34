//! Strings that are taken out of the store, or exchanged for others.

use undercroft_memory::{ShardSet, removing};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::structures::key::Key;
use crate::transaction::access::Access;
use crate::transaction::writer::{Expiry, Writer};

impl Access<'_> {
    /// Removes a key and fills `out` with the string that it held, as GETDEL does. Returns, where there was one, when it
    /// would have expired. O(length).
    ///
    /// # Errors
    /// [`Error::WrongType`] where the key holds something else; those of a write.
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

    /// Sets a key to a string that does not expire, and fills `out` with the one that it held, as GETSET does. Returns,
    /// where there was one, when it would have expired. O(length of both).
    ///
    /// # Errors
    /// [`Error::WrongType`] where the key holds something else; those of a write.
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
    /// Appends the string that a key holds to `out`; tells of a miss where there is none. Returns when it expires.
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
