//! Rarely used state of a transaction, and the reasons why a transaction runs out of memory.

use crate::segment::settings::Setting;
use crate::transactions::moved_runs::MovedRuns;
use crate::undo::saved_words::Saved;

/// Memory that must be reserved before a transaction can be retried (H2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shortage {
    /// A run with this many pages.
    Pages(u64),
    /// A shard, and the required length of its undo log in bytes.
    Log(usize, u64),
    /// The length of the transaction's redo record in bytes.
    Journal(u64),
}

/// The memory that a transaction's next attempt needs in addition to the memory that its last
/// attempt could not obtain.
#[derive(Clone, Copy, Default)]
pub(crate) struct Missing {
    /// The shard that needs the memory.
    pub(crate) shard: usize,
    /// The total size of blocks that are allocated in batches, in bytes.
    pub(crate) bytes: u64,
}

/// Memory to prepare in advance, after a commit and without any lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preparation {
    /// The hint table of a shard, and the number of keys in the shard.
    Hints(usize, u64),
    /// A free run with this many pages.
    Run(u64),
}

/// A changed key that a removal in parts has recorded.
#[derive(Clone, Debug)]
pub(crate) struct RecordedKey {
    pub(crate) shard: usize,
    /// The root word of the shard's ring of changed keys.
    pub(crate) word: usize,
    /// The key, and the client that changed it. `None` stands for all keys.
    pub(crate) key: Option<(Vec<u8>, u64)>,
}

/// Rarely used state, boxed so that a typical transaction carries one pointer.
#[derive(Default)]
pub(crate) struct RareState {
    /// Runs that this transaction granted to shards.
    pub(crate) granted: Vec<u64>,
    /// The number of pages in the granted runs.
    pub(crate) granted_pages: u64,
    /// The further memory that the next attempt is known to need, if the transaction ran out of
    /// memory.
    pub(crate) missing: Missing,
    /// Whether the failed allocation can wait. See `prepared.rs`.
    pub(crate) can_wait: bool,
    /// Preparations to make after the commit, without locks.
    pub(crate) preparations: Vec<Preparation>,
    /// Modification counters to increment at the commit, each as a shard and a counter number.
    pub(crate) changes: Vec<(u8, u16)>,
    /// Settings to increment after the commit.
    pub(crate) counted: Vec<Setting>,
    /// In a removal in parts, the changed key that was recorded last.
    pub(crate) last_changed_key: Option<RecordedKey>,
    /// Runs and arenas that this transaction moved to another shard.
    pub(crate) moved: MovedRuns,
    /// The words that the transaction's logs contain, if the logs are long.
    pub(crate) saved: Option<Saved>,
}
