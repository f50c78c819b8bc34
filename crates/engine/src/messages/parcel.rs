//! Messages that are too long for a record of the message ring (M3).
//!
//! Such a message is stored as a *parcel*: a string with an expiry in a dictionary that clients
//! cannot see. The record in the ring contains the parcel's name. A parcel is created and freed
//! like any other string, even if its publisher or receiver dies. A receiver that reads the record
//! after the parcel has expired learns that a message was lost, like a receiver that the ring has
//! lapped.

use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::roots::PARCELS;
use crate::transaction::access::Access;
use crate::transaction::writer::Expiry;
use crate::types::string::hot::{Condition, SetOptions};
use crate::types::string::write::STRING_MAX;

/// The lifetime of a parcel in milliseconds.
const KEPT: u64 = 30_000;
/// The maximum number of names to try for one parcel.
const TRIES: u64 = 1 << 16;

/// The name of a parcel: the number of messages published before it, and a counter that
/// distinguishes parcels of concurrent publishers.
pub(crate) type Name = [u8; 16];

impl Access<'_> {
    /// Stores a message as a parcel and returns the parcel's name, by which receivers find it.
    /// Within a transaction, the parcel becomes visible when the transaction commits. O(length).
    ///
    /// # Errors
    /// Fails if the store is out of memory, or if the message exceeds the maximum length of a
    /// string.
    pub(crate) fn leave_parcel(&self, message: &[u8]) -> Result<Name, Error> {
        if message.len() as u64 > STRING_MAX {
            return Err(Error::TooLong);
        }
        let before = self.store.segment.ring_records();
        for number in 0..TRIES {
            let mut name = Name::default();
            name[..8].copy_from_slice(&before.to_le_bytes());
            name[8..].copy_from_slice(&number.to_le_bytes());
            if self.leave_as(&name, message)? {
                return Ok(name);
            }
        }
        Err(Error::Overflow)
    }

    /// Stores a message under a name, if the name is not in use. Returns whether the message was
    /// stored.
    fn leave_as(&self, name: &Name, message: &[u8]) -> Result<bool, Error> {
        let expiry = Expiry::At(self.now().saturating_add(KEPT));
        let condition = Condition::IfMissing;
        if self.running.is_none() {
            let options = SetOptions { condition, expiry };
            return self.store.set_with(PARCELS, name, message, options);
        }
        self.check_memory_for(message.len())?;
        let key = self.key(name);
        self.write(ShardSet::one(key.shard), |writer| {
            let found = writer.find_slot(PARCELS, &key)?;
            let go = condition.met(found.is_some());
            if go {
                writer.set_found(PARCELS, &key, found, message, expiry)?;
            }
            Ok::<_, Error>(go)
        })
    }
}

impl Store {
    /// Reads a parcel into `out`. Returns whether the parcel still exists.
    pub(crate) fn open_parcel(&self, name: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        self.access().get(PARCELS, name, out)
    }
}
