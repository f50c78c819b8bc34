//! The strings of several keys, read as they were at one moment (MGET).

use smallvec::SmallVec;
use undercroft_memory::Scratch;

use crate::error::Error;
use crate::structures::key::Key;
use crate::transaction::access::Access;

/// So many keys are read without an allocation of their own.
const FEW: usize = 16;

/// What several keys hold, in memory that may be used again.
#[derive(Debug, Default)]
pub struct Values {
    bytes: Vec<u8>,
    ends: SmallVec<[TextEnd; FEW]>,
}

#[derive(Clone, Copy, Debug)]
enum TextEnd {
    Missing,
    Other,
    /// Where the string ends in `bytes`; it begins where the one before it ends.
    Text(usize),
}

/// What one key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'v> {
    /// There is no such key.
    Missing,
    /// Something else than a string.
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
    /// Values that are copied to this memory.
    pub fn in_memory(bytes: Vec<u8>) -> Values {
        Values {
            bytes,
            ends: SmallVec::new(),
        }
    }

    /// That memory, to be used again.
    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// How many keys were read.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// What each key holds, in the order in which they were named.
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
    /// Reads the strings that keys hold, all at one moment. O(their lengths).
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
