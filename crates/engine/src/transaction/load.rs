//! The expected size of a command's changes, computed from the command's arguments before it
//! acquires a lock.

use undercroft_memory::{Need, ShardSet};

use crate::handle::store::Store;

/// The number of undo log bytes for a key that is set, removed or renamed: its slot, bucket and
/// block, the counts, and a share of the table's growth.
const LOG_OF_KEY: u64 = 256;
/// The memory overhead of a key in bytes: the entry header and the slot.
const MEMORY_OF_KEY: u64 = 40;

/// The expected size of a command's changes. It is reserved before the first lock is acquired, so
/// that the command need not run again for lack of memory. The default is 0, which is right for
/// small commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The number of keys or items that change individually.
    pub keys: u64,
    /// The total size of the keys or items counted in `keys`, in bytes.
    pub bytes: u64,
}

impl Store {
    /// Reserves the memory and the undo log that a write of this size will probably need. The
    /// caller must not hold a lock.
    #[cold]
    pub fn expect(&self, shards: ShardSet, load: &Load) {
        let memory = load.keys.saturating_mul(MEMORY_OF_KEY);
        self.segment.expect(
            shards,
            &Need {
                log: load.keys.saturating_mul(LOG_OF_KEY),
                memory: memory.saturating_add(load.bytes),
            },
        );
    }
}
