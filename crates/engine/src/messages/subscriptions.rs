//! A subscriber's subscriptions, and matching messages against them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use undercroft_memory::{self as memory, RingCounts, RingRecord, counter_of};

use crate::messages::publish::is_match;
use crate::messages::receivers::{OBSERVER, is_of_notifications};
use crate::transaction::message::Topic;

const COUNTERS: usize = memory::layout::ring::COUNTER_COUNT as usize;

/// A cheap hasher for keys that are already hashes or are small numbers.
#[derive(Default)]
pub(crate) struct MultiplyHasher(u64);

impl Hasher for MultiplyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }
}

type Hashed<V> = HashMap<u64, V, BuildHasherDefault<MultiplyHasher>>;

/// A subscription to a channel or a shard channel by name.
struct Named {
    topic: Topic,
    name: Box<[u8]>,
    /// The number of times that the subscriber subscribed to this name.
    count: u64,
    /// The position in the message ring at which this subscription starts.
    since: u64,
}

struct Pattern {
    pattern: Arc<[u8]>,
    count: u64,
    since: u64,
}

impl Pattern {
    /// Returns whether the messages of a channel or a shard channel arrive because of the pattern.
    fn matches(&self, topic: Topic, name: &[u8]) -> bool {
        match &*self.pattern == OBSERVER {
            true => !is_of_notifications(name),
            false => topic == Topic::Channel && is_match(&self.pattern, name),
        }
    }
}

/// All subscriptions of one subscriber.
pub(crate) struct Subscriptions {
    /// The subscribed channels and shard channels, by the hash of their names.
    names: Hashed<SmallVec<[Named; 1]>>,
    patterns: Vec<Pattern>,
    /// A bit set of the message ring's counters that the subscribed names use.
    filter: Box<[u64; COUNTERS / 64]>,
    /// The values of these ring counters at the subscriber's position.
    counts: Hashed<u64>,
}

impl Subscriptions {
    pub(crate) fn new() -> Subscriptions {
        Subscriptions {
            names: HashMap::default(),
            patterns: Vec::new(),
            filter: Box::new([0; COUNTERS / 64]),
            counts: HashMap::default(),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty()
    }

    fn find(&self, topic: Topic, hash: u64, name: &[u8]) -> Option<&Named> {
        let mut named = self.names.get(&hash)?.iter();
        named.find(|named| named.topic == topic && *named.name == *name)
    }

    pub(crate) fn contains(&self, topic: Topic, hash: u64, name: &[u8]) -> bool {
        match topic {
            Topic::Pattern => self.patterns.iter().any(|known| *known.pattern == *name),
            Topic::Channel | Topic::Shard => self.find(topic, hash, name).is_some(),
        }
    }

    /// Adds a subscription that starts at position `since`, at which the name's ring counter was
    /// `counted`.
    pub(crate) fn add(&mut self, topic: Topic, hash: u64, name: &[u8], since: u64, counted: u64) {
        if topic == Topic::Pattern {
            let mut known = self.patterns.iter_mut();
            match known.find(|known| *known.pattern == *name) {
                Some(known) => known.count += 1,
                None => self.patterns.push(Pattern {
                    pattern: name.into(),
                    count: 1,
                    since,
                }),
            }
            return;
        }
        let named = self.names.entry(hash).or_default();
        match named
            .iter_mut()
            .find(|named| named.topic == topic && *named.name == *name)
        {
            Some(named) => named.count += 1,
            None => named.push(Named {
                topic,
                name: name.into(),
                count: 1,
                since,
            }),
        }
        let counter = counter_of(hash);
        self.counts.entry(counter as u64).or_insert(counted);
        self.filter[counter / 64] |= 1 << (counter % 64);
    }

    /// Cancels one subscription to a name.
    pub(crate) fn take_back(&mut self, topic: Topic, hash: u64, name: &[u8]) {
        if topic == Topic::Pattern {
            for known in &mut self.patterns {
                known.count -= u64::from(*known.pattern == *name);
            }
            self.patterns.retain(|known| known.count > 0);
            return;
        }
        let Some(named) = self.names.get_mut(&hash) else {
            return;
        };
        for known in named.iter_mut() {
            known.count -= u64::from(known.topic == topic && *known.name == *name);
        }
        named.retain(|known| known.count > 0);
        if !named.is_empty() {
            return;
        }
        self.names.remove(&hash);
        let counter = counter_of(hash);
        if !self.names.keys().any(|&other| counter_of(other) == counter) {
            self.counts.remove(&(counter as u64));
            self.filter[counter / 64] &= !(1 << (counter % 64));
        }
    }

    /// Returns the subscribed names of a topic, and the number of subscriptions to each name.
    pub(crate) fn all(&self, topic: Topic) -> Vec<(Vec<u8>, i64)> {
        if topic == Topic::Pattern {
            let all = self.patterns.iter();
            return all
                .map(|known| (known.pattern.to_vec(), known.count as i64))
                .collect();
        }
        let all = self.names.values().flatten();
        all.filter(|named| named.topic == topic)
            .map(|named| (named.name.to_vec(), named.count as i64))
            .collect()
    }

    /// Returns whether a record may be for this subscriber.
    #[inline]
    pub(crate) fn may_want(&self, record: &RingRecord) -> bool {
        self.counts_for(record.hash) || !self.patterns.is_empty()
    }

    #[inline]
    fn counts_for(&self, hash: u64) -> bool {
        let counter = counter_of(hash);
        self.filter[counter / 64] >> (counter % 64) & 1 == 1
    }

    /// Processes a record that the subscriber has reached. Returns whether the subscriber is
    /// subscribed to the record's name, and fills `matched` with the patterns that match the name.
    #[inline]
    pub(crate) fn meet(
        &mut self,
        record: &RingRecord,
        topic: Topic,
        name: &[u8],
        matched: &mut Vec<Arc<[u8]>>,
    ) -> bool {
        if self.counts_for(record.hash)
            && let Some(count) = self.counts.get_mut(&(counter_of(record.hash) as u64))
        {
            *count = record.count.max(*count);
        }
        matched.clear();
        for known in &self.patterns {
            if known.since <= record.at && known.matches(topic, name) {
                matched.push(known.pattern.clone());
            }
        }
        self.find(topic, record.hash, name)
            .is_some_and(|named| named.since <= record.at)
    }

    /// Returns whether a record is for this subscriber, without counting the record as reached.
    pub(crate) fn wants(&self, record: &RingRecord, topic: Topic, name: &[u8]) -> bool {
        self.patterns.iter().any(|known| known.matches(topic, name))
            || self.find(topic, record.hash, name).is_some()
    }

    /// Skips to the position after the last record. Returns the number of records that were
    /// published to the subscribed names but never reached.
    pub(crate) fn skip(&mut self, ring: &RingCounts<'_>) -> u64 {
        let mut missed = 0;
        for (counter, seen) in &mut self.counts {
            let now = ring.count(*counter);
            missed += now.saturating_sub(*seen);
            *seen = now;
        }
        missed
    }

    pub(crate) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_the_same_hash_stay_distinct() {
        let mut all = Subscriptions::new();
        all.add(Topic::Channel, 7, b"a", 0, 0);
        all.add(Topic::Channel, 7, b"a", 0, 0);
        all.add(Topic::Shard, 7, b"a", 0, 0);
        all.add(Topic::Channel, 7, b"b", 0, 0);
        // This name has a different hash that selects the same counter.
        all.add(Topic::Channel, 7 + COUNTERS as u64, b"c", 0, 0);
        let mut known = all.all(Topic::Channel);
        known.sort();
        let expected = [(&b"a"[..], 2), (b"b", 1), (b"c", 1)];
        assert_eq!(known, expected.map(|(name, count)| (name.to_vec(), count)));
        for (topic, name) in [
            (Topic::Channel, b"a"),
            (Topic::Channel, b"a"),
            (Topic::Shard, b"a"),
        ] {
            assert!(all.contains(topic, 7, name));
            all.take_back(topic, 7, name);
        }
        assert!(!all.contains(Topic::Channel, 7, b"a") && all.contains(Topic::Channel, 7, b"b"));
        all.take_back(Topic::Channel, 7, b"b");
        assert!(all.counts_for(7), "of the name that shares the counter");
        all.take_back(Topic::Channel, 7 + COUNTERS as u64, b"c");
        assert!(!all.counts_for(7) && all.is_empty());
    }
}
