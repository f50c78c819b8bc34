//! Notifies a thread of messages for its connections.

use std::os::fd::OwnedFd;

/// The bell: the descriptor that notifies a thread of messages, and the state of its message
/// delivery.
#[derive(Default)]
pub(super) struct Bell {
    /// The descriptor that becomes readable when messages arrive, or `None` before the first
    /// subscription.
    pub(super) bell: Option<OwnedFd>,
    /// Whether the descriptor was readable in this round.
    pub(super) rung: bool,
    /// Whether the last round left unread messages in the store's ring.
    pub(super) more: bool,
    /// Whether there are subscriptions but the descriptor could not be created.
    pub(super) no_bell: bool,
}
