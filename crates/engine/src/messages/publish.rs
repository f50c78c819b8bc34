//! Publishing messages: to whoever is subscribed, in any process.
//!
//! Who that is, is read without a lock, so a message to nobody costs about as
//! much as a GET. Others go through the ring, and those of the receivers who
//! sleep are woken.

use std::collections::HashMap;
use std::sync::Arc;

use undercroft_memory::{ForkMutex, ShardSet, defer_signals};

use crate::error::Error;
use crate::glob::{Case, matches};
use crate::handle::store::Store;
use crate::messages::parcel;
use crate::messages::receivers::{Places, collect, places_of};
use crate::structures::entry::Entry;
use crate::structures::roots::{KEYS, PATTERN_CHANGES, Root};
use crate::structures::walk::scan_bucket;
use crate::transaction::access::Access;
use crate::transaction::message::Letter;
use crate::transaction::message::MessageKind;
use crate::transaction::message::Topic;
use crate::transaction::outbox::Post;

/// Each pattern and who is subscribed to it.
type List = Arc<[(Vec<u8>, Places)]>;

/// The patterns that publishers match channels with, as they were lately: a part of the handle.
#[derive(Default)]
pub(crate) struct Patterns(ForkMutex<KnownPatterns>);

/// The patterns of all subscribers, as they were after so many changes.
#[derive(Default)]
struct KnownPatterns {
    changes: u64,
    list: Option<List>,
}

/// Those whom a message is for.
struct Address {
    hash: u64,
    places: Places,
    receivers: u64,
    /// Some of the places are those of the dead.
    some_dead: bool,
    /// Somebody is subscribed to the channel itself.
    direct: bool,
    /// All patterns, where there are some.
    patterns: Option<List>,
}

/// Messages that tell of a commit: what cannot be sent now is sent later, in
/// order.
pub(crate) struct Outgoing<'s> {
    store: &'s Store,
    /// Others are in front that could not be sent.
    held_up: bool,
}

impl Outgoing<'_> {
    /// Sends a message. Only one that is too long, or for which there is no
    /// memory, is lost.
    pub(crate) fn send(&mut self, topic: Topic, name: &[u8], body: &[u8]) {
        self.send_as(MessageKind::whole(topic), name, body);
    }

    /// Sends what a transaction has published.
    pub(crate) fn send_letter(&mut self, letter: &Letter) {
        self.send_as(letter.kind, &letter.name, &letter.body);
    }

    fn send_as(&mut self, kind: MessageKind, name: &[u8], body: &[u8]) {
        if !self.held_up {
            match self.store.publish_now(kind, name, body) {
                Err(error) if error.is_wait() => self.held_up = true,
                _ => return,
            }
        }
        self.store.send_later(Letter {
            kind,
            name: name.to_vec(),
            body: body.to_vec(),
        });
    }
}

impl Store {
    /// Sends a message to a channel or a shard channel. Returns how many
    /// receivers it has, in all processes; those of a process that was killed
    /// are counted for 10 milliseconds at most. Never waits for receivers.
    ///
    /// O(receiving processes + patterns), and a copy of the message.
    ///
    /// # Errors
    /// No memory for a message longer than a quarter of the store's ring, or
    /// another publisher that was stopped in the middle of one.
    #[inline]
    pub fn publish(&self, topic: Topic, name: &[u8], body: &[u8]) -> Result<u64, Error> {
        self.access().publish(topic, name, body)
    }

    /// Sends messages to one channel or shard channel, in their order. Costs much
    /// less than to publish each by itself, and others' may come between them.
    /// Returns how many receivers each of them has.
    ///
    /// # Errors
    /// As those of [`publish`](Self::publish); the first ones may have been sent
    /// even so.
    pub fn publish_all(&self, topic: Topic, name: &[u8], bodies: &[&[u8]]) -> Result<u64, Error> {
        self.access().publish_all(topic, name, bodies)
    }

    /// Sends a message to those it is for, whatever is kept to be sent.
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
        if address.receivers > 0 {
            let sent = self
                .segment
                .append_all(kind.pack(), address.hash, name, bodies);
            // The first ones may have been sent even so.
            self.wake(&address.places);
            sent?;
        }
        if address.some_dead {
            self.forget(kind.topic, name, address.direct, address.patterns.as_ref());
        }
        Ok(())
    }

    /// Sends the messages that are kept, in their order. Returns false where
    /// another thread does so now.
    ///
    /// # Errors
    /// The ring's lock cannot be had; what was not sent is kept.
    pub(crate) fn send_unsent(&self) -> Result<bool, Error> {
        self.send_kept(|letter| self.publish_now(letter.kind, &letter.name, &letter.body))
    }

    /// A way to send messages after a commit.
    pub(crate) fn outgoing(&self) -> Outgoing<'_> {
        Outgoing {
            store: self,
            held_up: self.has_letters() && !matches!(self.send_unsent(), Ok(true)),
        }
    }

    /// Whether a message fits into a record of the ring.
    fn fits(&self, name: &[u8], body: &[u8]) -> bool {
        (name.len() as u64).saturating_add(body.len() as u64) <= self.segment.record_max()
    }

    /// An error where not even a message's channel fits into a record.
    fn check_name(&self, name: &[u8]) -> Result<(), Error> {
        if self.fits(name, &parcel::Name::default()) {
            return Ok(());
        }
        let length = name.len() as u64 + size_of::<parcel::Name>() as u64;
        let most = self.segment.record_max();
        Err(undercroft_memory::Error::MessageTooLong { length, most }.into())
    }

    /// Wakes those who wait; a seat that comes twice is awake the second time.
    #[inline]
    fn wake(&self, places: &Places) {
        self.segment
            .wake_seats(places.iter().map(|(seat, _)| *seat));
    }

    /// Takes away what dead receivers of a message left. Where a lock cannot be
    /// had, the next publisher does.
    #[cold]
    fn forget(&self, topic: Topic, name: &[u8], direct: bool, patterns: Option<&List>) {
        let _deferred = defer_signals();
        if direct {
            let _ = self.forget_dead(topic, &[name.to_vec()]);
        }
        let Some(patterns) = patterns else {
            return;
        };
        let matching = patterns
            .iter()
            .filter(|(pattern, places)| is_match(pattern, name) && self.count_living(places).1);
        let names: Vec<Vec<u8>> = matching.map(|(pattern, _)| pattern.clone()).collect();
        let _ = self.forget_dead(Topic::Pattern, &names);
    }
}

impl Access<'_> {
    /// Sends a message; see [`Store::publish`]. Within a transaction it is sent
    /// after the commit.
    pub fn publish(&self, topic: Topic, name: &[u8], body: &[u8]) -> Result<u64, Error> {
        self.publish_all(topic, name, &[body])
    }

    /// Sends messages; see [`Store::publish_all`]. Within a transaction they are
    /// sent after the commit.
    pub fn publish_all(&self, topic: Topic, name: &[u8], bodies: &[&[u8]]) -> Result<u64, Error> {
        let store = self.store;
        let address = self.address(topic, name)?;
        if address.receivers > 0 && bodies.iter().any(|body| !store.fits(name, body)) {
            return self.publish_parcels(&address, topic, name, bodies);
        }
        self.send_all(&address, MessageKind::whole(topic), name, bodies)?;
        Ok(address.receivers)
    }

    /// Sends messages of which some are longer than a record.
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

    /// Sends messages that fit, now or behind what is to be sent before them.
    #[inline]
    fn send_all(
        &self,
        address: &Address,
        kind: MessageKind,
        name: &[u8],
        bodies: &[&[u8]],
    ) -> Result<(), Error> {
        let store = self.store;
        let letter = |body: &&[u8]| Letter {
            kind,
            name: name.to_vec(),
            body: body.to_vec(),
        };
        if let Some(running) = self.running {
            if address.receivers > 0 {
                for body in bodies {
                    running.post(Post::Letter(letter(body)));
                }
            }
        } else if store.has_letters() && !store.send_unsent()? {
            // Another thread sends those, and these behind them.
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
            let patterned = topic == Topic::Channel && patterns.get(reader.view(), KEYS) != 0;
            Ok::<_, Error>((places, patterned))
        })?;
        let direct = !places.is_empty();
        let patterns = if patterned {
            let patterns = self.patterns()?;
            for (pattern, subscribed) in patterns.iter() {
                if is_match(pattern, name) {
                    places.extend_from_slice(subscribed);
                }
            }
            Some(patterns)
        } else {
            None
        };
        // Counted first: who takes the message and ends at once has received it.
        let (receivers, some_dead) = store.count_living(&places);
        Ok(Address {
            hash: key.hash,
            places,
            receivers,
            some_dead,
            direct,
            patterns,
        })
    }

    /// Receivers of messages to one channel or shard channel, those of patterns
    /// not counted. O(processes that are subscribed to it).
    pub fn receivers(&self, topic: Topic, name: &[u8]) -> Result<u64, Error> {
        let key = self.store.topic_key(topic, name);
        let places = self.read(ShardSet::one(key.shard), |reader| {
            let mut places = Places::new();
            collect(reader.view(), topic, &key, &mut places)?;
            Ok::<_, Error>(places)
        })?;
        Ok(self.store.count_living(&places).0)
    }

    /// The names of a topic that somebody living is subscribed to. Takes away
    /// what the dead left on the way, unless a transaction runs. O(names).
    pub fn topics(&self, topic: Topic) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        let mut dead = Vec::new();
        for (name, places) in self.all_places(topic)? {
            let (receivers, some_dead) = self.store.count_living(&places);
            if some_dead && self.store.writable() && !self.is_running() {
                dead.push(name.clone());
            }
            if receivers > 0 {
                names.push(name);
            }
        }
        // The names are right whether or not the lock can be had now.
        let _deferred = defer_signals();
        match self.store.forget_dead(topic, &dead) {
            Err(error) if !error.is_wait() => Err(error),
            _ => Ok(names),
        }
    }

    /// The number of names of a topic, those that only the dead were subscribed
    /// to included. O(number of shards).
    pub fn topic_count(&self, topic: Topic) -> u64 {
        self.store.keys(topic.database())
    }

    /// Every name of a topic with its places. A name that is there all the time
    /// comes once.
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

    /// All patterns; read anew where they have changed.
    fn patterns(&self) -> Result<List, Error> {
        let Some(mut known) = self.store.part::<Patterns>().0.try_lock() else {
            // Another thread reads them.
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
                // A torn walk may not end.
                view.recheck()?;
                if position == 0 {
                    return Ok((changes, list.into()));
                }
            }
        })
    }
}

/// Whether a channel's name matches a pattern; one that takes too many steps
/// matches nothing.
pub(crate) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    matches(pattern, name, Case::Sensitive).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_pattern_matches_nothing() {
        let pattern = [b"*".to_vec(), vec![b'a'; 50_000], b"b".to_vec()].concat();
        assert!(!is_match(&pattern, &vec![b'a'; 100_000]));
        assert!(is_match(b"news.*", b"news.art") && !is_match(b"news.*", b"new"));
    }
}
