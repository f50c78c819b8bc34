//! The state of a thread that concerns the invalidations of keys.

use std::os::fd::OwnedFd;

use crate::shared::tracking::{Push, collapse};

/// The maximum number of invalidations that are kept for connections on separate threads. Beyond it,
/// one invalidation of all keys replaces those of each connection.
const KEPT: usize = 1000;

/// The state of a thread that concerns changed keys.
#[derive(Default)]
pub(super) struct Invalidations {
    /// The descriptor that becomes readable when keys were changed. Only the first thread has it.
    pub(super) bell: Option<OwnedFd>,
    /// Whether the descriptor was readable in this round.
    pub(super) rung: bool,
    /// Whether changed keys could not be collected because of a lock, or cannot be waited for.
    pub(super) is_late: bool,
    /// The pushes for connections that are currently on another thread.
    pub(super) kept: Vec<Push>,
}

impl Invalidations {
    /// Keeps a push for a connection on another thread.
    pub(super) fn keep(&mut self, push: Push) {
        self.kept.push(push);
        if self.kept.len() > KEPT {
            collapse(&mut self.kept);
        }
    }
}
