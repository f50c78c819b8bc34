//! The state of a follower, for reports.

use std::time::Instant;

use undercroft_engine::{ForkMutex, LinkStatus};

/// The work that a follower has done, and its last error.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// The state of the connection.
    pub status: LinkStatus,
    /// The number of bytes of the source's stream before the last applied change.
    pub offset: u64,
    /// When the last byte arrived from the source.
    pub heard: Option<Instant>,
    /// The number of keys loaded so far from the data set that is arriving, or of the last one.
    pub loaded_keys: u64,
    /// The number of bytes of the data set that have arrived.
    pub loaded_bytes: u64,
    /// How often the complete data set was loaded.
    pub full_resyncs: u64,
    /// How often a lost connection was continued without loading the data set.
    pub partial_resyncs: u64,
    /// The number of changes that were applied.
    pub changes: u64,
    /// The number of changes whose command failed, so that the store may differ from the source.
    pub failed_changes: u64,
    /// The last error.
    pub error: Option<String>,
}

/// The progress of a follower, which other threads can read.
#[derive(Default)]
pub struct FollowState(ForkMutex<Progress>);

impl FollowState {
    /// Returns the progress.
    pub fn progress(&self) -> Progress {
        self.0.lock().clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.0.lock());
    }
}
