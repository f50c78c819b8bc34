//! The subscribers of all processes (M3).
//!
//! Subscribers are stored in three dictionaries that clients cannot see: for channels, patterns and
//! shard channels. The value stored for a name is a packed list with two words for each subscribed
//! seat: the seat's name and its number of receivers. The dictionaries are changed by transactions,
//! as keys are. If a process dies, its entries no longer count, and any process that finds them
//! later removes them.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use undercroft_memory::{Look, RingReader, SeatName, View, coarse_milliseconds};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::roots::{PATTERN_CHANGES, Root};
use crate::transaction::message::MessageKind;
use crate::transaction::message::Topic;
use crate::transaction::writer::{Expiry, Writer};
use crate::types::string::text::Text;

/// The maximum number of names that one transaction changes or examines.
const STEP: usize = 64;
/// The maximum length in bytes of a list that is copied without first revalidating the view (R3).
const SHORT: u64 = 4096;

/// The pattern under which the sender of a store's changes to replicas subscribes to the messages of all
/// channels and shard channels. It is no receiver: publishers and clients do not count it.
pub(crate) const OBSERVER: &[u8] = b"\0replicas";

/// Returns whether a channel is one of keyspace notifications. Replicas make their own.
pub(crate) fn is_of_notifications(channel: &[u8]) -> bool {
    channel.starts_with(b"__keyspace@") || channel.starts_with(b"__keyevent@")
}

/// Messages, each as a channel and a payload.
type Letters = Vec<(Vec<u8>, Vec<u8>)>;

/// Seats (futex slots, each of one process), with the number of receivers at each seat.
pub(crate) type Places = SmallVec<[(SeatName, u64); 4]>;

/// Appends the seats (processes' futex slots) that are subscribed to a name.
#[inline]
pub(crate) fn collect(
    view: &View<'_>,
    topic: Topic,
    key: &Key<'_>,
    places: &mut Places,
) -> Result<(), Error> {
    let root = Root {
        shard: key.shard,
        database: topic.database(),
    };
    match dictionary::find(view, root, key)? {
        None => Ok(()),
        Some(entry) => places_of(view, &entry, places),
    }
}

/// Appends the subscribed seats that are stored in the entry of a name.
pub(crate) fn places_of(view: &View<'_>, entry: &Entry, places: &mut Places) -> Result<(), Error> {
    let Text::Bytes(at, length) = entry.text(view)? else {
        return Ok(());
    };
    view.check(at, length)?;
    if length > SHORT {
        view.recheck()?;
    }
    for place in 0..length / 16 {
        let [seat, count] = view.words::<2>(at + place * 16)?;
        places.push((SeatName::from_bits(seat), count));
    }
    Ok(())
}

fn packed(places: &Places) -> Vec<u8> {
    let words = places
        .iter()
        .flat_map(|(seat, count)| [seat.bits(), *count]);
    words.flat_map(u64::to_le_bytes).collect()
}

impl Writer<'_, '_> {
    /// Changes a name's list of subscribed seats, and removes the name if the list becomes empty.
    fn change_places(
        &mut self,
        topic: Topic,
        key: &Key<'_>,
        change: impl FnOnce(&mut Places),
    ) -> Result<(), Error> {
        let mut places = Places::new();
        collect(self.view(), topic, key, &mut places)?;
        let before = places.clone();
        change(&mut places);
        if places == before {
            return Ok(());
        }
        if topic == Topic::Pattern {
            let changes = self.view().root(key.shard, PATTERN_CHANGES);
            self.transaction
                .set_root(key.shard, PATTERN_CHANGES, changes.wrapping_add(1))?;
        }
        if places.is_empty() {
            self.remove(topic.database(), key)?;
            return Ok(());
        }
        self.set_text(topic.database(), key, &packed(&places), Expiry::Never)
    }
}

impl Store {
    /// Returns the hashed key of a channel or pattern name. All patterns are in shard 0, because
    /// each message is matched against all of them.
    pub(crate) fn topic_key<'k>(&self, topic: Topic, name: &'k [u8]) -> Key<'k> {
        let key = self.key(name);
        match topic {
            Topic::Pattern => Key { shard: 0, ..key },
            Topic::Channel | Topic::Shard => key,
        }
    }

    /// Changes the number of receivers that one seat (a process's futex slot) has for each of
    /// several names, in one transaction.
    pub(crate) fn enrol(
        &self,
        seat: SeatName,
        topic: Topic,
        changes: &[(&[u8], i64)],
    ) -> Result<(), Error> {
        let names = changes.iter().map(|(name, _)| *name);
        let keys: Vec<Key<'_>> = names.map(|name| self.topic_key(topic, name)).collect();
        self.write(self.shards_of(&keys), |writer| {
            for (key, (_, change)) in keys.iter().zip(changes) {
                writer.change_places(topic, key, |places| {
                    // Also remove the subscriptions of processes that are known to be dead.
                    places.retain(|(other, _)| !self.segment.seat_is_stale(*other));
                    match places.iter_mut().find(|(other, _)| *other == seat) {
                        Some((_, count)) => *count = count.saturating_add_signed(*change),
                        None => places.push((seat, (*change).max(0) as u64)),
                    }
                    places.retain(|(_, count)| *count > 0);
                })?;
            }
            Ok::<_, Error>(())
        })
    }

    /// Returns the number of receivers in live processes, and whether any of the processes are
    /// dead.
    pub(crate) fn count_living(&self, places: &Places) -> (u64, bool) {
        let mut receivers = 0_u64;
        let mut some_dead = false;
        if places.is_empty() {
            return (receivers, some_dead);
        }
        let now = coarse_milliseconds();
        for (seat, count) in places {
            if self.segment.seat_lives_at(*seat, now) {
                receivers = receivers.saturating_add(*count);
            } else {
                some_dead = true;
            }
        }
        (receivers, some_dead)
    }

    /// Returns the number of subscribers to one channel or shard channel; see
    /// [`Access::receivers`](crate::Access::receivers).
    pub fn receivers(&self, topic: Topic, name: &[u8]) -> Result<u64, Error> {
        self.access().receivers(topic, name)
    }

    /// Returns the names that have live subscribers; see [`Access::topics`](crate::Access::topics).
    pub fn topics(&self, topic: Topic) -> Result<Vec<Vec<u8>>, Error> {
        self.access().topics(topic)
    }

    /// Returns every name of a topic and its number of receivers, including receivers in dead
    /// processes. Only for tests.
    #[doc(hidden)]
    pub fn enrolled(&self, topic: Topic) -> Result<BTreeMap<Vec<u8>, u64>, Error> {
        let all = self.access().all_places(topic)?.into_iter();
        let sum = |places: &Places| places.iter().map(|(_, count)| count).sum();
        Ok(all.map(|(name, places)| (name, sum(&places))).collect())
    }

    /// Returns the messages in the message ring as channels and payloads, oldest first. Valid only
    /// if no publisher is active. O(ring). Only for tests.
    #[doc(hidden)]
    pub fn messages(&self) -> Result<Letters, Error> {
        let tail = self.segment.ring_tail();
        let oldest = tail.saturating_sub(self.segment.ring_size());
        // The start of the oldest complete record is unknown, so try every position.
        let found = (oldest..=tail)
            .step_by(8)
            .find_map(|start| self.messages_from(start).ok());
        Ok(found.unwrap_or_default())
    }

    fn messages_from(&self, position: u64) -> Result<Letters, Error> {
        let mut messages = Vec::new();
        let mut last = None;
        let mut reader = RingReader::at(position);
        loop {
            let record = match reader.look(&self.segment)? {
                Look::End => return Ok(messages),
                Look::Record(record) if last.is_none_or(|last| record.number == last + 1) => record,
                _ => return Err(Error::Name("expected the start of a record".into())),
            };
            reader.take(&self.segment, &record)?;
            let mut body = reader.body().to_vec();
            if MessageKind::unpack(record.kind).is_some_and(|kind| kind.by_name) {
                self.open_parcel(reader.body(), &mut body)?;
            }
            messages.push((reader.name().to_vec(), body));
            last = Some(record.number);
        }
    }

    /// Removes the seats of dead processes from the lists of the given names.
    pub(crate) fn forget_dead(&self, topic: Topic, names: &[Vec<u8>]) -> Result<(), Error> {
        for names in names.chunks(STEP) {
            let keys: Vec<Key<'_>> = names
                .iter()
                .map(|name| self.topic_key(topic, name))
                .collect();
            let shards = self.shards_of(&keys);
            // Check liveness before acquiring the lock (W9): a dead process stays dead.
            let mut places = self.read(shards, |reader| {
                let mut places = Places::new();
                for key in &keys {
                    collect(reader.view(), topic, key, &mut places)?;
                }
                Ok::<_, Error>(places)
            })?;
            places.retain(|(seat, _)| !self.segment.seat_lives(*seat));
            self.write(shards, |writer| {
                for key in &keys {
                    writer.change_places(topic, key, |list| {
                        list.retain(|(seat, _)| places.iter().all(|(dead, _)| dead != seat));
                    })?;
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }
}
