//! The notification of a thread about messages for its connections.

use std::os::fd::OwnedFd;

/// The descriptor that reports messages to a thread, and the state of the messages.
#[derive(Default)]
pub(super) struct Bell {
    /// A descriptor that becomes readable when messages arrive, present from the first subscription
    /// on.
    pub(super) bell: Option<OwnedFd>,
    /// True if the descriptor was readable in this round.
    pub(super) rung: bool,
    /// True if the last round left messages in the ring.
    pub(super) more: bool,
    /// True if connections are subscribed but the descriptor could not be created.
    pub(super) no_bell: bool,
}
