//! The expected size of a command's changes, computed from its arguments before it takes a lock.

use undercroft_memory::{Need, ShardSet};

use crate::handle::store::Store;

/// The number of undo log bytes for a key that is set, removed or renamed: its slot, bucket and
/// block, the counts, and a part of the table's growth.
const LOG_OF_KEY: u64 = 256;
/// The memory of a key in bytes in addition to its text and value: the entry header and the slot.
const MEMORY_OF_KEY: u64 = 40;

/// The expected size of a command's changes. It is reserved before the first lock, so that the body
/// of the command does not have to run again. The default is nothing, which is right for small
/// commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The number of keys or items that change individually.
    pub keys: u64,
    /// The total size of these keys or items in bytes.
    pub bytes: u64,
}

impl Store {
    /// Reserves the memory and log that a write of this size will probably need. Must be called
    /// without holding a lock.
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
