//! What a command brings with it, as its arguments tell before it takes a lock.

use undercroft_memory::{Need, ShardSet};

use crate::handle::store::Store;

/// Undo log of a key that is set, removed or renamed: its slot and bucket, its
/// block, the counts, and a part of the table's growth.
const LOG_OF_KEY: u64 = 256;
/// Memory of a key beside its bytes: its entry's header and its slot.
const MEMORY_OF_KEY: u64 = 40;

/// What a command brings: reserved before the first lock, so that its body need
/// not run again. Nothing is the default, and right for what is small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Keys, or items, that change one by one.
    pub keys: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Store {
    /// Reserves what a write that brings so much will probably need. Called
    /// without any lock held.
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
