//! Publishing messages to the subscribers of all processes.
//!
//! A publisher finds the subscribers of a channel without a lock, so publishing to a channel
//! without subscribers costs about as much as a GET. All other messages are written to the message
//! ring, and sleeping receivers are woken.

use std::collections::HashMap;
use std::sync::Arc;

use undercroft_memory::{ForkMutex, ShardSet, defer_signals};

use crate::error::Error;
use crate::glob::{Case, matches};
use crate::handle::store::Store;
use crate::messages::parcel;
use crate::messages::receivers::{OBSERVER, Places, collect, is_of_notifications, places_of};
use crate::structures::entry::Entry;
use crate::structures::roots::{KEYS, PATTERN_CHANGES, Root};
use crate::structures::walk::scan_bucket;
use crate::transaction::access::Access;
use crate::transaction::message::MessageKind;
use crate::transaction::message::QueuedMessage;
use crate::transaction::message::Topic;
use crate::transaction::outbox::Post;

/// Every pattern, with the seats (processes' futex slots) that are subscribed to it.
type List = Arc<[(Vec<u8>, Places)]>;

/// A cache of the subscribed patterns that publishers match channels against, kept in the store
/// handle.
#[derive(Default)]
pub(crate) struct Patterns(ForkMutex<KnownPatterns>);

/// The patterns of all subscribers, valid while the change counter is `changes`.
#[derive(Default)]
struct KnownPatterns {
    changes: u64,
    list: Option<List>,
}

/// The receivers of a message, and the hash of its channel.
struct Address {
    hash: u64,
    places: Places,
    /// The number of receivers, without the sender of changes to replicas.
    receivers: u64,
    /// Whether the message must be written to the message ring.
    is_heard: bool,
    /// Whether some of the subscribed seats in `places` belong to dead processes.
    some_dead: bool,
    /// Whether the channel itself has subscribers.
    direct: bool,
    /// All subscribed patterns, if any.
    patterns: Option<List>,
}

/// Sends the messages of a committed transaction. Messages that cannot be sent now are sent later,
/// in order.
pub(crate) struct Outgoing<'s> {
    store: &'s Store,
    /// Whether earlier messages could not be sent and must be sent first.
    held_up: bool,
}

impl Outgoing<'_> {
    /// Sends a message. The message is lost only if it is too long or the store is out of memory.
    pub(crate) fn send(&mut self, topic: Topic, name: &[u8], body: &[u8]) {
        self.send_as(MessageKind::whole(topic), name, body);
    }

    /// Sends a message that the transaction published.
    pub(crate) fn send_letter(&mut self, letter: &QueuedMessage) {
        self.send_as(letter.kind, &letter.name, &letter.body);
    }

    fn send_as(&mut self, kind: MessageKind, name: &[u8], body: &[u8]) {
        if !self.held_up {
            match self.store.publish_now(kind, name, body) {
                Err(error) if error.is_wait() => self.held_up = true,
                _ => return,
            }
        }
        self.store.send_later(QueuedMessage {
            kind,
            name: name.to_vec(),
            body: body.to_vec(),
        });
    }
}

impl Store {
    /// Sends a message to a channel or a shard channel. Returns the number of receivers in all
    /// processes, which includes the receivers of a killed process for up to 10 milliseconds. Never
    /// waits for receivers.
    ///
    /// O(receiving processes + patterns), plus a copy of the message.
    ///
    /// # Errors
    /// Fails if the store is out of memory for a message longer than a quarter of the message ring,
    /// or if another publisher was stopped in the middle of a message.
    #[inline]
    pub fn publish(&self, topic: Topic, name: &[u8], body: &[u8]) -> Result<u64, Error> {
        self.access().publish(topic, name, body)
    }

    /// Sends messages to one channel or shard channel, in order, at a much lower cost than
    /// publishing each message separately. Messages from other publishers may be interleaved.
    /// Returns how many receivers each message has.
    ///
    /// # Errors
    /// Returns the errors of [`publish`](Self::publish). Some of the first messages may have been
    /// sent despite an error.
    pub fn publish_all(&self, topic: Topic, name: &[u8], bodies: &[&[u8]]) -> Result<u64, Error> {
        self.access().publish_all(topic, name, bodies)
    }

    /// Sends a message to its receivers immediately, ahead of any unsent messages.
    pub(crate) fn publish_now(
        &self,
        kind: MessageKind,
        name: &[u8],
        body: &[u8],
    ) -> Result<(), Error> {
        let address = self.access().address(kind.topic, name)?;
        self.append(&address, kind, name, &[body])
    }

    #[inline]
    fn append(
        &self,
        address: &Address,
        kind: MessageKind,
        name: &[u8],
        bodies: &[&[u8]],
    ) -> Result<(), Error> {
        if address.is_heard {
            let sent = self
                .segment
                .append_all(kind.pack(), address.hash, name, bodies);
            // Wake the receivers even after an error, because some messages may have been sent.
            self.wake(&address.places);
            sent?;
        }
        if address.some_dead {
            self.forget(kind.topic, name, address.direct, address.patterns.as_ref());
        }
        Ok(())
    }

    /// Sends the pending messages in order. Returns false if another thread is already sending
    /// them.
    ///
    /// # Errors
    /// Fails if the lock of the message ring cannot be acquired. Messages that were not sent stay
    /// pending.
    pub(crate) fn send_unsent(&self) -> Result<bool, Error> {
        self.send_kept(|letter| self.publish_now(letter.kind, &letter.name, &letter.body))
    }

    /// Returns a sender for the messages of a committed transaction.
    pub(crate) fn outgoing(&self) -> Outgoing<'_> {
        Outgoing {
            store: self,
            held_up: self.has_letters() && !matches!(self.send_unsent(), Ok(true)),
        }
    }

    /// Returns whether a message fits into a record of the message ring.
    fn fits(&self, name: &[u8], body: &[u8]) -> bool {
        (name.len() as u64).saturating_add(body.len() as u64) <= self.segment.record_max()
    }

    /// Returns an error if the channel's name is so long that its record has no room even for the
    /// name of a parcel (a stored long message).
    fn check_name(&self, name: &[u8]) -> Result<(), Error> {
        if self.fits(name, &parcel::Name::default()) {
            return Ok(());
        }
        let length = name.len() as u64 + size_of::<parcel::Name>() as u64;
        let most = self.segment.record_max();
        Err(undercroft_memory::Error::MessageTooLong { length, most }.into())
    }

    /// Wakes the sleeping receivers. Waking a seat (a process's futex slot) twice is harmless and
    /// cheap.
    #[inline]
    fn wake(&self, places: &Places) {
        self.segment
            .wake_seats(places.iter().map(|(seat, _)| *seat));
    }

    /// Removes the subscriptions of a message's dead receivers. If a lock cannot be acquired,
    /// leaves them to the next publisher.
    #[cold]
    fn forget(&self, topic: Topic, name: &[u8], direct: bool, patterns: Option<&List>) {
        let _deferred = defer_signals();
        if direct {
            let _ = self.forget_dead(topic, &[name.to_vec()]);
        }
        let Some(patterns) = patterns else {
            return;
        };
        let matching = patterns.iter().filter(|(pattern, places)| {
            (pattern == OBSERVER || is_match(pattern, name)) && self.count_living(places).1
        });
        let names: Vec<Vec<u8>> = matching.map(|(pattern, _)| pattern.clone()).collect();
        let _ = self.forget_dead(Topic::Pattern, &names);
    }
}

impl Access<'_> {
    /// Sends a message; see [`Store::publish`]. Within a transaction, the message is sent after the
    /// commit.
    pub fn publish(&self, topic: Topic, name: &[u8], body: &[u8]) -> Result<u64, Error> {
        self.publish_all(topic, name, &[body])
    }

    /// Sends messages; see [`Store::publish_all`]. Within a transaction, the messages are sent
    /// after the commit.
    pub fn publish_all(&self, topic: Topic, name: &[u8], bodies: &[&[u8]]) -> Result<u64, Error> {
        let store = self.store;
        let address = self.address(topic, name)?;
        if address.is_heard && bodies.iter().any(|body| !store.fits(name, body)) {
            return self.publish_parcels(&address, topic, name, bodies);
        }
        self.send_all(&address, MessageKind::whole(topic), name, bodies)?;
        Ok(address.receivers)
    }

    /// Sends messages of which at least one is too long for a record.
    #[cold]
    fn publish_parcels(
        &self,
        address: &Address,
        topic: Topic,
        name: &[u8],
        bodies: &[&[u8]],
    ) -> Result<u64, Error> {
        self.store.check_name(name)?;
        for body in bodies {
            if self.store.fits(name, body) {
                self.send_all(address, MessageKind::whole(topic), name, &[body])?;
            } else {
                let parcel = self.leave_parcel(body)?;
                let kind = MessageKind {
                    topic,
                    by_name: true,
                };
                self.send_all(address, kind, name, &[&parcel])?;
            }
        }
        Ok(address.receivers)
    }

    /// Sends messages that all fit into records, after any earlier unsent messages.
    #[inline]
    fn send_all(
        &self,
        address: &Address,
        kind: MessageKind,
        name: &[u8],
        bodies: &[&[u8]],
    ) -> Result<(), Error> {
        let store = self.store;
        let letter = |body: &&[u8]| QueuedMessage {
            kind,
            name: name.to_vec(),
            body: body.to_vec(),
        };
        if let Some(running) = self.running {
            if address.is_heard {
                for body in bodies {
                    running.post(Post::QueuedMessage(letter(body)));
                }
            }
        } else if store.has_letters() && !store.send_unsent()? {
            // Another thread is sending the earlier messages and will also send these messages, in
            // order.
            for body in bodies {
                store.send_later(letter(body));
            }
        } else {
            store.append(address, kind, name, bodies)?;
        }
        Ok(())
    }

    #[inline]
    fn address(&self, topic: Topic, name: &[u8]) -> Result<Address, Error> {
        let store = self.store;
        let key = store.key(name);
        let patterns = Root {
            shard: 0,
            database: Topic::Pattern.database(),
        };
        let (mut places, patterned) = self.read(ShardSet::one(key.shard), |reader| {
            let mut places = Places::new();
            collect(reader.view(), topic, &key, &mut places)?;
            let patterned = patterns.get(reader.view(), KEYS) != 0;
            Ok::<_, Error>((places, patterned))
        })?;
        let direct = !places.is_empty();
        let mut observers = Places::new();
        let patterns = if patterned {
            let patterns = self.patterns()?;
            for (pattern, subscribed) in patterns.iter() {
                if pattern == OBSERVER {
                    if !is_of_notifications(name) {
                        observers.extend_from_slice(subscribed);
                    }
                } else if topic == Topic::Channel && is_match(pattern, name) {
                    places.extend_from_slice(subscribed);
                }
            }
            Some(patterns)
        } else {
            None
        };
        // Count before sending, so that a receiver that exits right after receiving the message is
        // still counted.
        let (receivers, mut some_dead) = store.count_living(&places);
        let mut is_heard = receivers > 0;
        if !observers.is_empty() {
            let (observing, some_died) = store.count_living(&observers);
            is_heard |= observing > 0;
            some_dead |= some_died;
            places.extend(observers);
        }
        Ok(Address {
            hash: key.hash,
            places,
            receivers,
            is_heard,
            some_dead,
            direct,
            patterns,
        })
    }

    /// Returns the number of subscribers to one channel or shard channel, not counting pattern
    /// subscribers. O(processes subscribed to it).
    pub fn receivers(&self, topic: Topic, name: &[u8]) -> Result<u64, Error> {
        let key = self.store.topic_key(topic, name);
        let places = self.read(ShardSet::one(key.shard), |reader| {
            let mut places = Places::new();
            collect(reader.view(), topic, &key, &mut places)?;
            Ok::<_, Error>(places)
        })?;
        Ok(self.store.count_living(&places).0)
    }

    /// Returns all channels, patterns or shard channels that have live subscribers. Also removes
    /// subscriptions of dead processes, unless a transaction is running. O(names).
    pub fn topics(&self, topic: Topic) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        let mut dead = Vec::new();
        for (name, places) in self.all_places(topic)? {
            let (receivers, some_dead) = self.store.count_living(&places);
            if some_dead && self.store.writable() && !self.is_running() {
                dead.push(name.clone());
            }
            if receivers > 0 && !(topic == Topic::Pattern && name == OBSERVER) {
                names.push(name);
            }
        }
        // The returned names are correct even if the cleanup cannot acquire its lock now.
        let _deferred = defer_signals();
        match self.store.forget_dead(topic, &dead) {
            Err(error) if !error.is_wait() => Err(error),
            _ => Ok(names),
        }
    }

    /// Returns the number of subscribed channels, patterns or shard channels, including names to
    /// which only dead processes were subscribed. O(number of shards).
    pub fn topic_count(&self, topic: Topic) -> u64 {
        self.store.keys(topic.database())
    }

    /// Returns every name of a topic with the seats (processes' futex slots) that are subscribed to
    /// it. A name that exists during the entire scan is returned exactly once.
    pub(crate) fn all_places(&self, topic: Topic) -> Result<Vec<(Vec<u8>, Places)>, Error> {
        let mut found = HashMap::new();
        let mut cursor = 0;
        loop {
            cursor = self.scan(
                topic.database(),
                cursor,
                1000,
                |reader, entry| {
                    let mut places = Places::new();
                    places_of(reader.view(), entry, &mut places)?;
                    Ok(Some(places))
                },
                |name, places| {
                    found.insert(name.to_vec(), places);
                },
            )?;
            if cursor == 0 {
                return Ok(found.into_iter().collect());
            }
        }
    }

    /// Returns all patterns from the cache, which is updated first if the patterns have changed.
    fn patterns(&self) -> Result<List, Error> {
        let Some(mut known) = self.store.part::<Patterns>().0.try_lock() else {
            // Another thread is using the cache, so read the patterns from the store.
            return Ok(self.read_patterns()?.1);
        };
        let changes = self.read(ShardSet::one(0), |reader| {
            Ok::<_, Error>(reader.view().root(0, PATTERN_CHANGES))
        })?;
        if let Some(list) = known.list.as_ref().filter(|_| known.changes == changes) {
            return Ok(list.clone());
        }
        let (changes, list) = self.read_patterns()?;
        known.changes = changes;
        known.list = Some(list.clone());
        Ok(list)
    }

    #[cold]
    fn read_patterns(&self) -> Result<(u64, List), Error> {
        let root = Root {
            shard: 0,
            database: Topic::Pattern.database(),
        };
        self.read(ShardSet::one(0), |reader| {
            let view = reader.view();
            let changes = view.root(0, PATTERN_CHANGES);
            let mut list = Vec::new();
            let mut position = 0;
            loop {
                position = scan_bucket(view, root, position, |at| {
                    let entry = Entry::load(view, at)?;
                    let mut pattern = Vec::new();
                    entry.append_key(view, &mut pattern)?;
                    let mut places = Places::new();
                    places_of(view, &entry, &mut places)?;
                    list.push((pattern, places));
                    Ok(())
                })?;
                // A walk over torn data may never end, so revalidate the view (R3).
                view.recheck()?;
                if position == 0 {
                    return Ok((changes, list.into()));
                }
            }
        })
    }
}

/// Returns whether a channel's name matches a pattern. A pattern that takes too many steps matches
/// no name.
pub(crate) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    matches(pattern, name, Case::Sensitive).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_pattern_matches_nothing() {
        let pattern = [b"*".to_vec(), vec![b'a'; 50_000], b"b".to_vec()].concat();
        assert!(!is_match(&pattern, &vec![b'a'; 100_000]));
        assert!(is_match(b"news.*", b"news.art") && !is_match(b"news.*", b"new"));
    }
}
