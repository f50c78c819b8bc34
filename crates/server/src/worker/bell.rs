//! What tells a thread of messages for its connections.

use std::os::fd::OwnedFd;

/// The bell of a thread, and what is known of the messages.
#[derive(Default)]
pub(super) struct Bell {
    /// Readable when messages come; from the first subscription on.
    pub(super) bell: Option<OwnedFd>,
    /// It was readable in this round.
    pub(super) rung: bool,
    /// The last round left messages in the ring.
    pub(super) more: bool,
    /// Messages are awaited, and the bell could not be had.
    pub(super) no_bell: bool,
}
