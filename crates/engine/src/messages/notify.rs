//! Keyspace notifications: messages about changes to keys (M3).
//!
//! A writer collects the events of its transaction in its outbox. The events are published after
//! the commit, so subscribers never see a change that was rolled back. If notifications are off,
//! they cost each transaction a single load.

use std::io::Write as _;

use crate::handle::events::{EventClasses, KeyEvent};
use crate::messages::publish::Outgoing;
use crate::transaction::message::Topic;

impl Outgoing<'_> {
    /// Publishes a key event on the keyspace and keyevent channels, if the enabled classes include
    /// these channels.
    pub(crate) fn tell(
        &mut self,
        classes: EventClasses,
        event: KeyEvent,
        database: usize,
        key: &[u8],
    ) {
        let name = event.name().as_bytes();
        for (class, kind, subject, body) in
            [(b'K', "keyspace", key, name), (b'E', "keyevent", name, key)]
        {
            if !classes.has(EventClasses::of(class)) {
                continue;
            }
            let mut channel = Vec::new();
            // Writing to a vector cannot fail.
            let _ = write!(channel, "__{kind}@{database}__:");
            channel.extend_from_slice(subject);
            self.send(Topic::Channel, &channel, body);
        }
    }
}
