use std::fmt;
use std::sync::Arc;

use undercroft_engine::Error;

use super::item::ChannelMessage;
use super::link::ChannelError;
use super::values::{HeldMessage, ValueChannel};
use super::waiting::ChannelPatience;
use crate::open_store::OpenStore;

/// A message that this process holds. Dropping it returns the message to the front of the channel,
/// except in a forked child: the message belongs to the parent.
pub struct Delivery {
    /// The message, or `None` once the hold has ended.
    held: Option<HeldMessage>,
    channel: Arc<ValueChannel>,
    open: Arc<OpenStore>,
    database: usize,
    /// The process that received the message.
    process: u32,
}

/// The reason why a delivery could not be acknowledged or released.
#[derive(Debug)]
pub enum DeliveryError {
    /// The message belongs to the process with this number, which is not this process.
    Inherited(u32),
    /// The store refused the change.
    Failed(Error),
}

impl Delivery {
    /// Receives the first message of a channel and holds it until the delivery is acknowledged,
    /// released or dropped. If the process dies, the message returns to the channel. Returns `None`
    /// after the timeout.
    ///
    /// # Errors
    /// Returns the errors of [`ValueChannel::receive`].
    pub fn receive(
        channel: &Arc<ValueChannel>,
        open: &Arc<OpenStore>,
        database: usize,
        patience: &ChannelPatience,
    ) -> Result<Option<Delivery>, ChannelError> {
        let held = channel.hold(open, database, patience)?;
        Ok(held.map(|held| Delivery {
            held: Some(held),
            channel: channel.clone(),
            open: open.clone(),
            database,
            process: std::process::id(),
        }))
    }

    /// Returns the store of the channel.
    pub fn open_store(&self) -> &Arc<OpenStore> {
        &self.open
    }

    /// Returns the message, or `None` once the hold has ended.
    pub fn message(&self) -> Option<&ChannelMessage> {
        self.held.as_ref().map(|held| &held.message)
    }

    /// Ends the hold: returns the message to the front of the channel, or deletes it. Returns false if
    /// the message was no longer held, because the channel was deleted, or the hold has ended.
    ///
    /// # Errors
    /// [`DeliveryError::Inherited`] in a forked child, and the errors of a write.
    pub fn end(&mut self, goes_back: bool) -> Result<bool, DeliveryError> {
        if self.process != std::process::id() {
            return Err(DeliveryError::Inherited(self.process));
        }
        let Some(held) = self.held.take() else {
            return Ok(false);
        };
        let ended = (self.channel).end(&self.open, self.database, &held, goes_back);
        ended.map_err(DeliveryError::Failed)
    }
}

impl DeliveryError {
    /// Returns the text for a program that used a delivery of another process.
    pub fn inherited_text(process: u32) -> String {
        format!(
            "this delivery belongs to process {process}, which received the message: acknowledge or \
             release it there, or receive another message in this process"
        )
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("held", &self.held)
            .field("process", &self.process)
            .finish()
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        if self.held.is_some() && self.process == std::process::id() {
            // If the store cannot be written, the message returns when this process ends.
            let _ = self.end(true);
        }
    }
}
