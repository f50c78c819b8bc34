//! The complete state of a key, as replicas receive it.

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::structures::ranges::Ranges;
use crate::types::value_type::{Encoding, ValueType};

/// The state of an existing key.
#[derive(Debug)]
pub struct KeyState {
    /// The type of the value.
    pub value_type: ValueType,
    /// The encoding of the value.
    pub encoding: Encoding,
    /// The time when the key expires in Unix milliseconds, or `None` if it does not expire.
    pub expiry: Option<u64>,
    /// The value as a flat list of items; see [`Entry::append_items`](crate::Entry::append_items).
    pub items: Ranges,
}

impl Reader<'_, '_> {
    /// Returns the state of a key, or `None` if it does not exist or has expired. O(value).
    ///
    /// # Errors
    /// Fails if the entry is damaged.
    pub fn state(&self, database: usize, key: &[u8]) -> Result<Option<KeyState>, Error> {
        let Some(entry) = self.find(database, &self.key(key))? else {
            return Ok(None);
        };
        let mut items = Ranges::new();
        entry.append_items(self.view(), &mut items)?;
        Ok(Some(KeyState {
            value_type: entry.value_type()?,
            encoding: entry.encoding()?,
            expiry: entry.expiry(self.view())?,
            items,
        }))
    }
}
