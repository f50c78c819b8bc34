//! State of a transaction that few transactions have, and why one runs short.

use crate::transactions::moved_runs::MovedRuns;
use crate::undo::saved_words::Saved;

/// Memory that must be reserved before a transaction can be tried again (H2).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shortage {
    /// So many pages in one run.
    Pages(u64),
    /// So many bytes in a shard's undo log.
    Log(usize, u64),
}

/// What a run that was short is known to have wanted next.
#[derive(Clone, Copy, Default)]
pub(crate) struct Missing {
    /// The shard that it was for.
    pub(crate) shard: usize,
    /// Bytes of blocks that are taken many at a time.
    pub(crate) bytes: u64,
}

/// What is to be made ready ahead of need, after a commit and outside all locks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Preparation {
    /// The hint table of a shard, which has so many keys.
    Hints(usize, u64),
    /// A free run of so many pages.
    Run(u64),
}

/// Rarely used state, boxed so that a typical transaction carries one pointer.
#[derive(Default)]
pub(crate) struct RareState {
    /// Runs granted to shards by this transaction.
    pub(crate) granted: Vec<u64>,
    /// Pages in them.
    pub(crate) granted_pages: u64,
    /// What it is known to have wanted next when it ran short.
    pub(crate) missing: Missing,
    /// Whether what it ran short for can wait; see `prepared.rs`.
    pub(crate) can_wait: bool,
    /// What is to be made ready after the commit, outside the locks.
    pub(crate) preparations: Vec<Preparation>,
    /// Modification counters to raise with the commit: shard and number.
    pub(crate) changes: Vec<(u8, u16)>,
    /// Runs and arenas that this transaction moved to another shard.
    pub(crate) moved: MovedRuns,
    /// What its logs hold, where they are long.
    pub(crate) saved: Option<Saved>,
}
