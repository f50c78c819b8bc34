//! Rarely used state of a transaction, and why a transaction runs short.

use crate::segment::settings::Setting;
use crate::transactions::moved_runs::MovedRuns;
use crate::undo::saved_words::Saved;

/// Memory that must be reserved before a transaction can be retried (H2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shortage {
    /// A run of this many pages.
    Pages(u64),
    /// A shard, and the number of bytes that its undo log must have.
    Log(usize, u64),
}

/// The memory that the next run of a transaction will need in addition to what it ran short of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Missing {
    /// The shard that needs the memory.
    pub(crate) shard: usize,
    /// Number of bytes in blocks that are allocated in batches.
    pub(crate) bytes: u64,
}

/// Something to prepare ahead of need, after a commit and outside all locks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preparation {
    /// The hint table of a shard, and the number of keys in the shard.
    Hints(usize, u64),
    /// A free run of this many pages.
    Run(u64),
}

/// Rarely used state, boxed so that a typical transaction carries one pointer.
#[derive(Default)]
pub(crate) struct RareState {
    /// Runs that this transaction granted to shards.
    pub(crate) granted: Vec<u64>,
    /// Number of pages in the granted runs.
    pub(crate) granted_pages: u64,
    /// The further memory that the next run is known to need, if the transaction ran short.
    pub(crate) missing: Missing,
    /// True if the allocation that ran short can wait. See `prepared.rs`.
    pub(crate) can_wait: bool,
    /// Preparations to make after the commit, outside the locks.
    pub(crate) preparations: Vec<Preparation>,
    /// Modification counters to increment at commit: shard and counter number.
    pub(crate) changes: Vec<(u8, u16)>,
    /// Settings to count up after the commit.
    pub(crate) counted: Vec<Setting>,
    /// Runs and arenas that this transaction moved to another shard.
    pub(crate) moved: MovedRuns,
    /// Which words the transaction's logs hold, if the logs are long.
    pub(crate) saved: Option<Saved>,
}
