//! Messages that are longer than a record of the ring may be (M3).
//!
//! Such a message lies in a dictionary that no client sees, as a string that
//! expires, and the record in the ring names it: a *parcel*. It is made and
//! freed as any other string is, whoever dies on the way. A receiver that comes
//! too late for it is told that a message is lost, as one is whom the ring has
//! overtaken.

use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::roots::PARCELS;
use crate::transaction::access::Access;
use crate::transaction::writer::Expiry;
use crate::types::string::hot::{Condition, SetOptions};
use crate::types::string::write::STRING_MAX;

/// How long a parcel is kept, in milliseconds.
const KEPT: u64 = 30_000;
/// Names tried at most.
const TRIES: u64 = 1 << 16;

/// The name of a parcel: how many messages there were before it, and which of
/// those it is that several publishers may just be about to send.
pub(crate) type Name = [u8; 16];

impl Access<'_> {
    /// Puts a message where its receivers find it by name. Within a transaction
    /// it is there with the commit. O(length).
    ///
    /// # Errors
    /// No memory, or a message longer than a string may be.
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

    /// Puts a message there by a name that nobody has. Returns whether nobody
    /// had it.
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
    /// Fills `out` with a parcel. Returns whether it is still there.
    pub(crate) fn open_parcel(&self, name: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        self.access().get(PARCELS, name, out)
    }
}
