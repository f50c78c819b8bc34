//! Reads the strings at several keys atomically (MGET).

use smallvec::SmallVec;
use undercroft_memory::Scratch;

use crate::error::Error;
use crate::structures::key::Key;
use crate::transaction::access::Access;

/// The number of keys whose results fit in [`Values`] without a heap allocation.
const FEW: usize = 16;

/// The values of several keys, stored in one reusable buffer.
#[derive(Debug, Default)]
pub struct Values {
    bytes: Vec<u8>,
    ends: SmallVec<[TextEnd; FEW]>,
}

#[derive(Clone, Copy, Debug)]
enum TextEnd {
    Missing,
    Other,
    /// A string that starts where the previous string ends, with the offset in `bytes` at which it
    /// ends.
    Text(usize),
}

/// The value of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'v> {
    /// The key does not exist.
    Missing,
    /// A value that is not a string.
    Other,
    /// A string.
    Text(&'v [u8]),
}

impl Scratch for Values {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Values {
    /// Creates an empty `Values` that reuses the allocation of `bytes`.
    pub fn in_memory(bytes: Vec<u8>) -> Values {
        Values {
            bytes,
            ends: SmallVec::new(),
        }
    }

    /// Returns the byte buffer, so that the caller can reuse it.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of keys that were read.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether no keys were read.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the value of each key, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = Held<'_>> {
        let mut start = 0;
        self.ends.iter().map(move |end| match *end {
            TextEnd::Missing => Held::Missing,
            TextEnd::Other => Held::Other,
            TextEnd::Text(end) => Held::Text(&self.bytes[std::mem::replace(&mut start, end)..end]),
        })
    }
}

impl Access<'_> {
    /// Reads the strings at several keys atomically. O(total length).
    pub fn read_values(
        &self,
        database: usize,
        keys: &[Key<'_>],
        values: &mut Values,
    ) -> Result<(), Error> {
        self.read_into(self.shards_of(keys), values, |reader, values| {
            for (position, key) in keys.iter().enumerate() {
                reader.warm_ahead(database, keys, position);
                let end = match reader.find(database, key)? {
                    None => TextEnd::Missing,
                    Some(entry) => match entry.text(reader.view()) {
                        Err(Error::WrongType) => TextEnd::Other,
                        text => {
                            text?.append_to(reader.view(), &mut values.bytes)?;
                            TextEnd::Text(values.bytes.len())
                        }
                    },
                };
                values.ends.push(end);
            }
            Ok(())
        })
    }
}
