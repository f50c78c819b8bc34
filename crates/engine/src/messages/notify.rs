//! Keyspace notifications: messages about what becomes of keys (M3).
//!
//! A writer puts the events of its transaction into its outbox, and they
//! are published once that is committed: nobody hears of a change that was undone.
//! While nothing is to be told a transaction pays one load for it.

use std::io::Write as _;

use crate::handle::events::{EventClasses, KeyEvent};
use crate::messages::publish::Outgoing;
use crate::transaction::message::Topic;

impl Outgoing<'_> {
    /// Sends what tells of an event, where somebody wants to hear of it in that way.
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
