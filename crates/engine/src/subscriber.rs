//! Receiving messages: from the ring, at the subscriber's own pace (M3, M4).

use std::collections::HashMap;
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use undercroft_memory::{self as memory, Look, Patience, Record, counter_of};

use crate::error::Error;
use crate::publish::is_match;
use crate::receivers::Topic;
use crate::seating::Seating;
use crate::store::Store;

/// How long a thread looks for messages before it sleeps, unless told
/// otherwise: about what going to sleep and being woken costs.
const SPIN: Duration = Duration::from_micros(20);
/// Records that are not for this subscriber, passed over in one call at most.
const PASSED_OVER: u32 = 10_000;
/// Names given up in one transaction.
const STEP: usize = 64;
const COUNTERS: usize = memory::layout::ring::COUNTER_COUNT as usize;

/// A message, for as long as the subscriber is not asked for the next.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// [`Topic::Channel`] or [`Topic::Shard`].
    pub topic: Topic,
    /// Where it was published.
    pub channel: &'m [u8],
    /// What was published.
    pub payload: &'m [u8],
    /// Whether the channel itself is subscribed to.
    pub direct: bool,
    /// The patterns among those subscribed to that match the channel, in the
    /// order in which they were.
    pub patterns: &'m [Arc<[u8]>],
}

/// What a subscriber is told.
#[derive(Clone, Copy, Debug)]
pub enum Event<'m> {
    /// A message.
    Message(Message<'m>),
    /// So many messages were overwritten before this subscriber came to them;
    /// it goes on with the newest. The number is exact for subscriptions to
    /// channels, unless another channel shares one of 4,096 counters with one
    /// of them; with patterns it is that of all messages in the store. It is
    /// never too low.
    Lost(u64),
}

/// One subscription of this subscriber.
#[derive(Clone, Copy, Debug)]
struct Subscription {
    /// Times it was subscribed to.
    count: u64,
    /// Messages before this position are not for it.
    since: u64,
    hash: u64,
}

/// A receiver of messages. Belongs to one thread at a time.
///
/// Survives a fork: the child's copy subscribes anew, as a receiver of its own,
/// when it is first used there.
///
/// ```
/// # use undercroft_engine::{Event, Options, Store, Topic};
/// # let directory = tempfile::tempdir_in("/dev/shm").unwrap();
/// # let path = directory.path().join("store");
/// let store = Store::open_or_create(&path, &Options::default())?;
/// let mut subscriber = store.subscriber();
/// subscriber.subscribe(Topic::Channel, &[b"news"])?;
/// assert_eq!(store.publish(Topic::Channel, b"news", b"hello")?, 1);
/// let Some(Event::Message(message)) = subscriber.next(None)? else { panic!() };
/// assert_eq!(message.payload, b"hello");
/// # Ok::<(), undercroft_engine::Error>(())
/// ```
pub struct Subscriber<S: Deref<Target = Store>> {
    store: S,
    seating: Seating,
    spin: Duration,
    /// Where the next record starts, and how many were before it.
    position: u64,
    number: u64,
    channels: HashMap<Vec<u8>, Subscription>,
    shards: HashMap<Vec<u8>, Subscription>,
    patterns: Vec<(Arc<[u8]>, Subscription)>,
    /// A bit for each counter that one of the channels has.
    filter: Box<[u64; COUNTERS / 64]>,
    /// What these counters were at the position.
    counts: HashMap<usize, u64>,
    name: Vec<u8>,
    body: Vec<u8>,
    matched: Vec<Arc<[u8]>>,
}

/// What [`Subscriber::advance`] came to.
enum Step {
    Message { topic: Topic, direct: bool },
    Lost(u64),
    Nothing,
}

/// Where a subscriber stands, for waiting without holding on to it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    seat: memory::SeatName,
    /// None where it is not subscribed to anything.
    position: Option<u64>,
    spin: Duration,
}

impl Store {
    /// Waits until there may be something for a subscriber to take. Returns
    /// false where there was nothing within the timeout.
    ///
    /// # Errors
    /// [`Error::is_wait`] where a signal handler of the language runtime wants
    /// to run.
    pub fn wait_for_message(
        &self,
        waiting: &Waiting,
        timeout: Option<Duration>,
    ) -> Result<bool, Error> {
        let patience = Patience {
            timeout,
            spin: waiting.spin,
        };
        let is_there = || {
            waiting
                .position
                .is_some_and(|position| self.segment.ring_tail() != position)
        };
        Ok(self.segment.wait_at(waiting.seat, patience, is_there)?)
    }

    /// A subscriber that is not subscribed to anything yet.
    pub fn subscriber(&self) -> Subscriber<&Store> {
        Subscriber::new(self)
    }
}

impl<S: Deref<Target = Store>> Subscriber<S> {
    /// A subscriber that is not subscribed to anything yet.
    pub fn new(store: S) -> Subscriber<S> {
        Subscriber {
            store,
            seating: Seating::default(),
            spin: SPIN,
            position: 0,
            number: 0,
            channels: HashMap::new(),
            shards: HashMap::new(),
            patterns: Vec::new(),
            filter: Box::new([0; COUNTERS / 64]),
            counts: HashMap::new(),
            name: Vec::new(),
            body: Vec::new(),
            matched: Vec::new(),
        }
    }

    /// How long [`next`](Self::next) looks for messages before it sleeps
    /// (default 20 microseconds). More means less latency and more work for
    /// the processor.
    pub fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// The store it is subscribed in.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Whether it is subscribed to something.
    pub fn is_active(&self) -> bool {
        !(self.channels.is_empty() && self.shards.is_empty() && self.patterns.is_empty())
    }

    /// Whether it is subscribed to this.
    pub fn is_subscribed(&self, topic: Topic, name: &[u8]) -> bool {
        self.find(topic, name).is_some()
    }

    fn find(&self, topic: Topic, name: &[u8]) -> Option<&Subscription> {
        match topic {
            Topic::Channel => self.channels.get(name),
            Topic::Shard => self.shards.get(name),
            Topic::Pattern => {
                let mut known = self.patterns.iter();
                let found = known.find(|(pattern, _)| **pattern == *name);
                found.map(|(_, subscription)| subscription)
            }
        }
    }

    /// Subscribes, to all of the names or none. Every message that is published
    /// after the return is received, none that was published before the call.
    /// Each call counts as one more receiver, in what publishers are told.
    ///
    /// # Errors
    /// A read-only store, or 512 subscribers in this process.
    pub fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let seat = self.seated()?;
        let hashes: Vec<u64> = names.iter().map(|name| self.store.key(name).hash).collect();
        let was_active = self.is_active();
        let (tail, records, counts) = self.store.segment.ring_counts(|counts| {
            let each: Vec<u64> = hashes.iter().map(|&hash| counts.count(hash)).collect();
            (counts.tail, counts.records, each)
        })?;
        let changes: Vec<(&[u8], i64)> = names.iter().map(|name| (*name, 1)).collect();
        self.store.enrol(seat, topic, &changes)?;
        if !was_active {
            self.position = tail;
            self.number = records;
        }
        for ((name, hash), count) in names.iter().zip(hashes).zip(counts) {
            self.add(topic, name, hash, tail);
            if topic != Topic::Pattern {
                self.counts.entry(counter_of(hash)).or_insert(count);
                self.filter[counter_of(hash) / 64] |= 1 << (counter_of(hash) % 64);
            }
        }
        Ok(())
    }

    fn add(&mut self, topic: Topic, name: &[u8], hash: u64, since: u64) {
        let new = Subscription {
            count: 0,
            since,
            hash,
        };
        let subscription = match topic {
            Topic::Channel => self.channels.entry(name.to_vec()).or_insert(new),
            Topic::Shard => self.shards.entry(name.to_vec()).or_insert(new),
            Topic::Pattern => {
                let known = self.patterns.iter().position(|(known, _)| **known == *name);
                let place = known.unwrap_or(self.patterns.len());
                if known.is_none() {
                    self.patterns.push((name.into(), new));
                }
                &mut self.patterns[place].1
            }
        };
        subscription.count += 1;
    }

    /// Takes back one subscription to each of the names; those that it is not
    /// subscribed to do not matter.
    pub fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let seat = self.seated()?;
        let mut changes: Vec<(&[u8], i64)> = names.iter().map(|name| (*name, -1)).collect();
        changes.retain(|(name, _)| self.is_subscribed(topic, name));
        self.store.enrol(seat, topic, &changes)?;
        for (name, _) in changes {
            self.take_back(topic, name);
        }
        Ok(())
    }

    fn take_back(&mut self, topic: Topic, name: &[u8]) {
        let remove = |map: &mut HashMap<Vec<u8>, Subscription>| {
            if let Some(subscription) = map.get_mut(name) {
                subscription.count -= 1;
                if subscription.count == 0 {
                    map.remove(name);
                }
            }
        };
        match topic {
            Topic::Channel => remove(&mut self.channels),
            Topic::Shard => remove(&mut self.shards),
            Topic::Pattern => {
                for (pattern, subscription) in &mut self.patterns {
                    subscription.count -= u64::from(**pattern == *name);
                }
                self.patterns
                    .retain(|(_, subscription)| subscription.count > 0);
                return;
            }
        }
        let hash = self.store.key(name).hash;
        let shares = |other: &Subscription| counter_of(other.hash) == counter_of(hash);
        let all = self.channels.values().chain(self.shards.values());
        if !all.into_iter().any(shares) {
            self.counts.remove(&counter_of(hash));
            self.filter[counter_of(hash) / 64] &= !(1 << (counter_of(hash) % 64));
        }
    }

    /// What comes next, if it is there already. Where a
    /// [`descriptor`](Self::descriptor) was asked for and nothing is there, it
    /// becomes readable with the next message.
    pub fn try_next(&mut self) -> Result<Option<Event<'_>>, Error> {
        self.try_next_after(true)
    }

    /// [`try_next`](Self::try_next) for who knows whether the descriptor was
    /// readable (`rung`): otherwise it need not be looked at, which saves two
    /// system calls.
    pub fn try_next_after(&mut self, rung: bool) -> Result<Option<Event<'_>>, Error> {
        if self.is_active() {
            self.seated()?;
        }
        let mut step = self.advance()?;
        if matches!(step, Step::Nothing) && self.seating.arm(&self.store.segment, rung) {
            step = self.advance()?;
        }
        Ok(self.event(step))
    }

    /// What comes next; waits for it, for ever where no timeout is given.
    /// Nothing is returned where none came in time.
    ///
    /// # Errors
    /// [`Error::is_wait`] where a signal handler of the language runtime wants
    /// to run.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event<'_>>, Error> {
        let start = std::time::Instant::now();
        loop {
            self.seated()?;
            let step = self.advance()?;
            if !matches!(step, Step::Nothing) {
                return Ok(self.event(step));
            }
            let waiting = self.waiting()?;
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if !self.store.wait_for_message(&waiting, left)? {
                return Ok(None);
            }
        }
    }

    /// What [`Store::wait_for_message`] waits for: that [`try_next`](Self::try_next)
    /// may have something to return.
    pub fn waiting(&mut self) -> Result<Waiting, Error> {
        Ok(Waiting {
            seat: self.seated()?,
            position: self.is_active().then_some(self.position),
            spin: self.spin,
        })
    }

    /// A descriptor for event loops: it is readable when there may be something
    /// to get, and ten times a second besides, as wakes can be lost with a
    /// killed publisher. Call [`try_next`](Self::try_next) until it returns
    /// nothing. It is another one after a fork.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.seated()?;
        self.seating.descriptor(&self.store.segment)
    }

    fn event(&self, step: Step) -> Option<Event<'_>> {
        match step {
            Step::Nothing => None,
            Step::Lost(messages) => Some(Event::Lost(messages)),
            Step::Message { topic, direct } => Some(Event::Message(Message {
                topic,
                channel: &self.name,
                payload: &self.body,
                direct,
                patterns: &self.matched,
            })),
        }
    }

    /// Goes on to the next message that is for this subscriber.
    fn advance(&mut self) -> Result<Step, Error> {
        if !self.is_active() {
            return Ok(Step::Nothing);
        }
        for _ in 0..PASSED_OVER {
            let record = match self.store.segment.look_at(self.position)? {
                Look::End => return Ok(Step::Nothing),
                Look::Record(record) => record,
                Look::Lapped => match self.skip()? {
                    0 => continue,
                    lost => return Ok(Step::Lost(lost)),
                },
            };
            let counter = counter_of(record.hash);
            let known = self.filter[counter / 64] >> (counter % 64) & 1 == 1;
            if !known && self.patterns.is_empty() {
                self.pass(&record);
                continue;
            }
            let segment = &self.store.segment;
            if !segment.copy_record(&record, &mut self.name, &mut self.body) {
                continue;
            }
            let at = self.position;
            self.pass(&record);
            if known && let Some(count) = self.counts.get_mut(&counter) {
                *count = record.count.max(*count);
            }
            let Some(topic) = Topic::from_kind(record.kind) else {
                continue;
            };
            let direct = self
                .find(topic, &self.name)
                .is_some_and(|subscription| subscription.since <= at);
            self.matched.clear();
            if topic == Topic::Channel {
                for (pattern, subscription) in &self.patterns {
                    if subscription.since <= at && is_match(pattern, &self.name) {
                        self.matched.push(pattern.clone());
                    }
                }
            }
            if direct || !self.matched.is_empty() {
                return Ok(Step::Message { topic, direct });
            }
        }
        Ok(Step::Nothing)
    }

    fn pass(&mut self, record: &Record) {
        self.position = record.next;
        self.number = record.number;
    }

    /// Goes on with the newest message, after this subscriber was lapped.
    /// Returns how many of those that were for it were missed.
    #[cold]
    fn skip(&mut self) -> Result<u64, Error> {
        let segment = &self.store.segment;
        let counts = &mut self.counts;
        let (tail, records, missed) = segment.ring_counts(|ring| {
            let mut missed = 0;
            for (counter, seen) in counts.iter_mut() {
                let now = ring.count(*counter as u64);
                missed += now.saturating_sub(*seen);
                *seen = now;
            }
            (ring.tail, ring.records, missed)
        })?;
        let all = records.saturating_sub(self.number);
        self.position = tail;
        self.number = records;
        Ok(if self.patterns.is_empty() {
            missed
        } else {
            all
        })
    }

    /// The seat, taken where there is none yet; in a forked child a new one, to
    /// which all is subscribed again.
    fn seated(&mut self) -> Result<memory::SeatName, Error> {
        let (seat, is_new) = self.seating.take(&self.store.segment)?;
        if is_new && self.is_active() {
            self.subscribe_again(seat)?;
        }
        Ok(seat)
    }

    #[cold]
    fn subscribe_again(&mut self, seat: memory::SeatName) -> Result<(), Error> {
        // What was there at the fork is the parent's to receive.
        self.skip()?;
        for topic in Topic::ALL {
            let names = self.subscriptions(topic);
            for names in names.chunks(STEP) {
                let changes: Vec<(&[u8], i64)> = names
                    .iter()
                    .map(|(name, count)| (name.as_slice(), *count))
                    .collect();
                self.store.enrol(seat, topic, &changes)?;
            }
        }
        Ok(())
    }

    /// What of a topic it is subscribed to, and how many times.
    fn subscriptions(&self, topic: Topic) -> Vec<(Vec<u8>, i64)> {
        let pair = |(name, subscription): (&Vec<u8>, &Subscription)| {
            (name.clone(), subscription.count as i64)
        };
        match topic {
            Topic::Channel => self.channels.iter().map(pair).collect(),
            Topic::Shard => self.shards.iter().map(pair).collect(),
            Topic::Pattern => {
                let all = self.patterns.iter();
                all.map(|(pattern, subscription)| (pattern.to_vec(), subscription.count as i64))
                    .collect()
            }
        }
    }
}

impl<S: Deref<Target = Store>> Drop for Subscriber<S> {
    fn drop(&mut self) {
        // A forked child's copy takes nothing of its parent's away.
        let Some(seat) = self.seating.name(&self.store.segment) else {
            return;
        };
        for topic in Topic::ALL {
            let names = self.subscriptions(topic);
            for names in names.chunks(STEP) {
                let changes: Vec<(&[u8], i64)> = names
                    .iter()
                    .map(|(name, count)| (name.as_slice(), -count))
                    .collect();
                if self.store.enrol(seat, topic, &changes).is_err() {
                    // Somebody is stopped with the lock. The seat stays taken,
                    // or its next owner would count as subscribed; it ends with
                    // the process.
                    return;
                }
            }
        }
        self.seating.leave(&self.store.segment);
    }
}
