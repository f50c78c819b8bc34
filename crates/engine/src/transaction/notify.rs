//! Publishing keyspace events after the commit of a transaction.

use crate::error::Error;
use crate::handle::events::{EventClasses, KeyEvent};
use crate::structures::dictionary;
use crate::structures::key::Key;
use crate::transaction::access::Access;
use crate::transaction::writer::{Writer, outbox_of, root};

impl Access<'_> {
    /// Returns the classes of the keyspace events that are published; see
    /// [`Store::told_events`](crate::Store::told_events).
    pub fn told_events(&self) -> EventClasses {
        self.store.told_events()
    }

    /// Sets the classes of keyspace events that all processes publish; see
    /// [`Store::tell_events`](crate::Store::tell_events).
    pub fn tell_events(&self, classes: EventClasses) -> Result<(), Error> {
        self.store.tell_events(classes)
    }

    /// Returns whether lookups of missing keys publish an event.
    #[inline]
    pub fn tells_of_misses(&self) -> bool {
        self.told_events().has(KeyEvent::KeyMiss.class())
    }

    /// Publishes an event for the lookup of a missing key. Within a transaction, publishes it after
    /// the commit.
    pub fn tell_miss(&self, database: usize, key: &[u8]) {
        match self.running {
            Some(running) => running.tell(KeyEvent::KeyMiss, database, key),
            None => {
                let mut outbox = outbox_of(self.store);
                outbox.tell(KeyEvent::KeyMiss, database, key);
                if let Ok(mail) = outbox.close() {
                    self.store.deliver(mail);
                }
            }
        }
    }
}

impl Writer<'_, '_> {
    /// Queues a key event, to be published after the transaction commits.
    #[inline(always)]
    pub fn tell(&mut self, event: KeyEvent, database: usize, key: &Key<'_>) {
        if self.outbox.tells() {
            self.outbox.tell(event, database, key.bytes);
        }
    }

    /// Queues a key event, followed by `del` if the change removed the key.
    #[inline(always)]
    pub(crate) fn tell_taken(
        &mut self,
        event: KeyEvent,
        database: usize,
        key: &Key<'_>,
        gone: bool,
    ) {
        self.tell(event, database, key);
        if gone {
            self.tell(KeyEvent::Del, database, key);
        }
    }

    /// Calls `body` to change a key, and publishes `event` instead of the events of the individual
    /// changes. Publishes `del` instead if `body` removed the key, and nothing if the key exists
    /// neither before nor after `body`.
    pub fn tell_as<R, E: From<Error>>(
        &mut self,
        event: KeyEvent,
        database: usize,
        key: &Key<'_>,
        body: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, E> {
        if !self.outbox.tells() {
            return body(self);
        }
        let before = self.find(database, key)?.is_some();
        let result = self.quietly(body)?;
        let after = dictionary::find(self.view(), root(database, key), key)?.is_some();
        match (before, after) {
            (false, false) => {}
            (true, false) => self.tell(KeyEvent::Del, database, key),
            (_, true) => {
                if !before {
                    self.tell(KeyEvent::New, database, key);
                }
                self.tell(event, database, key);
            }
        }
        Ok(result)
    }

    /// Calls `body` with its events suppressed, except for events of expired keys.
    pub(crate) fn quietly<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        self.outbox.mute();
        let result = body(self);
        self.outbox.unmute();
        result
    }
}
