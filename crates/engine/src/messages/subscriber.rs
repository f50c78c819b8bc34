//! Receiving messages from the message ring, at the subscriber's own pace (M3, M4).

use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use undercroft_memory::{Look, Patience, Polling, RingReader, RingRecord, SeatName, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::messages::receivers::OBSERVER;
use crate::messages::seating::Seating;
use crate::messages::subscriptions::Subscriptions;
use crate::messages::unsent::Departure;
use crate::transaction::message::MessageKind;
use crate::transaction::message::Topic;

/// The default maximum time that a thread polls for messages before it sleeps.
const SPIN: Duration = Duration::from_micros(500);
/// The maximum number of records for other subscribers that one call skips.
const PASSED_OVER: u32 = 10_000;
/// The maximum number of names that one transaction unsubscribes.
const STEP: usize = 64;

/// A received message. It is valid until the next call on the subscriber.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// Whether the message was published to a channel ([`Topic::Channel`]) or a shard channel
    /// ([`Topic::Shard`]).
    pub topic: Topic,
    /// The channel that the message was published to.
    pub channel: &'m [u8],
    /// The body of the message.
    pub payload: &'m [u8],
    /// Whether the subscriber is subscribed to the channel by name, and not only by a pattern.
    pub direct: bool,
    /// The subscribed patterns that match the channel, in the order in which they were subscribed.
    pub patterns: &'m [Arc<[u8]>],
}

/// An event that a subscriber receives.
#[derive(Clone, Copy, Debug)]
pub enum Event<'m> {
    /// A message was received.
    Message(Message<'m>),
    /// The number of messages that were overwritten before the subscriber read them. The subscriber
    /// continues with the newest message. For channel subscriptions, the number is exact, unless
    /// another channel shares one of the 4,096 counters with a subscribed channel. With pattern
    /// subscriptions, the number includes all messages in the store. It is never too low.
    ///
    /// In a forked child, the copy of a subscriber first reports the messages that were published
    /// before its first call in the child. The parent receives them.
    Lost(u64),
}

/// A receiver of messages, for use by one thread at a time.
///
/// A subscriber survives a fork: on first use, the child's copy subscribes again as a separate
/// receiver, and reports how many messages it missed.
///
/// ```
/// # use undercroft_engine::{Options, Store};
/// # use undercroft_engine::messages::{Event, Topic};
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
    polling: Arc<Polling>,
    reader: RingReader,
    /// The number of records before the reader's position in the message ring.
    number: u64,
    subscriptions: Subscriptions,
    /// The number of subscriptions that a forked child has already stored for its new seat, or
    /// `None` if all are stored.
    enrolled: Option<usize>,
    /// The number of messages missed between a fork and the first call in the child, to be reported
    /// next.
    missed: u64,
    matched: Vec<Arc<[u8]>>,
    /// The body of the last message, if it was too long for a record.
    parcel: Vec<u8>,
}

/// The result of [`Subscriber::advance`], which looks for the next message.
enum Step {
    Message {
        topic: Topic,
        direct: bool,
        by_name: bool,
    },
    Lost(u64),
    Nothing,
}

/// A snapshot of a subscriber's position, for waiting without borrowing the subscriber.
#[derive(Clone, Debug)]
pub struct Waiting {
    seat: SeatName,
    /// The position in the message ring, or `None` if there are no subscriptions.
    position: Option<u64>,
    polling: Arc<Polling>,
    progress: u64,
}

impl Store {
    /// Waits until there may be an event for a subscriber. Returns false if the timeout expires
    /// first.
    ///
    /// # Errors
    /// Returns an error for which [`Error::is_wait`] is true if a signal handler of the language
    /// runtime must run.
    pub fn wait_for_message(
        &self,
        waiting: &Waiting,
        timeout: Option<Duration>,
    ) -> Result<bool, Error> {
        let patience = Patience {
            timeout,
            polling: &waiting.polling,
            progress: waiting.progress,
        };
        let is_there = || {
            waiting
                .position
                .is_some_and(|position| self.segment.ring_tail() != position)
        };
        Ok(self.segment.wait_at(waiting.seat, patience, is_there)?)
    }

    /// Creates a subscriber without subscriptions.
    pub fn subscriber(&self) -> Subscriber<&Store> {
        Subscriber::new(self)
    }
}

impl<S: Deref<Target = Store>> Subscriber<S> {
    /// Creates a subscriber without subscriptions.
    pub fn new(store: S) -> Subscriber<S> {
        Subscriber {
            store,
            seating: Seating::default(),
            polling: Arc::new(Polling::new(SPIN)),
            reader: RingReader::default(),
            number: 0,
            subscriptions: Subscriptions::new(),
            enrolled: None,
            missed: 0,
            matched: Vec::new(),
            parcel: Vec::new(),
        }
    }

    /// Sets the longest time that [`next`](Self::next) polls for a message before it sleeps
    /// (default 500 microseconds). It polls that long only while messages arrive in quick
    /// succession and no other thread needs the CPU. Otherwise it sleeps after 20 microseconds.
    /// Zero disables polling.
    pub fn set_spin(&mut self, longest: Duration) {
        self.polling = Arc::new(Polling::new(longest));
    }

    /// Returns the subscriber's store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns whether the subscriber has any subscriptions.
    pub fn is_active(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Returns whether the subscriber is subscribed to the given name.
    pub fn is_subscribed(&self, topic: Topic, name: &[u8]) -> bool {
        let hash = self.store.key(name).hash;
        self.subscriptions.contains(topic, hash, name)
    }

    /// Subscribes to all of the names or, after an error, to none of them. The subscriber receives
    /// all messages that are published after this call returns, and no message from before the
    /// call. Each call adds one to the receiver counts that publishers see.
    ///
    /// # Errors
    /// Fails if the store is read-only, if this process already has 512 subscribers, or for the
    /// pattern that stands for the sender of changes to replicas, whose subscribers are not counted.
    pub fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        if topic == Topic::Pattern && names.contains(&OBSERVER) {
            return Err(Error::Name(
                "the pattern \\0replicas is reserved; use another one".into(),
            ));
        }
        self.subscribe_to_any(topic, names)
    }

    fn subscribe_to_any(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
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
            self.reader.go_to(tail);
            self.number = records;
        }
        for ((name, hash), count) in names.iter().zip(hashes).zip(counts) {
            self.subscriptions.add(topic, hash, name, tail, count);
        }
        Ok(())
    }

    /// Subscribes to the messages of all channels and shard channels, except for keyspace notifications,
    /// without being counted as a receiver. The sender of changes to replicas does so.
    ///
    /// # Errors
    /// Returns the errors of [`subscribe`](Self::subscribe).
    pub fn observe(&mut self) -> Result<(), Error> {
        self.subscribe_to_any(Topic::Pattern, &[OBSERVER])
    }

    /// Cancels one subscription to each of the names. Ignores names without a subscription.
    pub fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let seat = self.seated()?;
        let mut changes: Vec<(&[u8], i64)> = names.iter().map(|name| (*name, -1)).collect();
        changes.retain(|(name, _)| self.is_subscribed(topic, name));
        self.store.enrol(seat, topic, &changes)?;
        for (name, _) in changes {
            let hash = self.store.key(name).hash;
            self.subscriptions.take_back(topic, hash, name);
        }
        Ok(())
    }

    /// Returns the next event if one is available. Otherwise, if a [`descriptor`](Self::descriptor)
    /// was requested, the descriptor becomes readable at the next message.
    ///
    /// # Errors
    /// Fails within two seconds after the store's file is removed (M7).
    pub fn try_next(&mut self) -> Result<Option<Event<'_>>, Error> {
        self.try_next_after(true)
    }

    /// Like [`try_next`](Self::try_next), for callers that know whether the descriptor was readable
    /// (`rung`). If it was not readable, the call saves two system calls.
    pub fn try_next_after(&mut self, rung: bool) -> Result<Option<Event<'_>>, Error> {
        if self.is_active() {
            self.seated()?;
        }
        let mut step = self.advance()?;
        if matches!(step, Step::Nothing) && self.seating.arm(&self.store.segment, rung) {
            step = self.advance()?;
        }
        if rung && self.is_active() && matches!(step, Step::Nothing) {
            self.store.segment.in_place()?;
        }
        Ok(self.event(step))
    }

    /// Returns the next event, and waits for it if necessary. Without a timeout, waits
    /// indefinitely. Returns `None` if the timeout expires first.
    ///
    /// # Errors
    /// Returns an error for which [`Error::is_wait`] is true if a signal handler of the language
    /// runtime must run.
    pub fn next(&mut self, timeout: Option<Duration>) -> Result<Option<Event<'_>>, Error> {
        let mut start = None;
        loop {
            self.seated()?;
            let step = self.advance()?;
            if !matches!(step, Step::Nothing) {
                return Ok(self.event(step));
            }
            let waiting = self.waiting()?;
            let start = start.get_or_insert_with(Instant::now);
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if !self.store.wait_for_message(&waiting, left)? {
                return Ok(None);
            }
        }
    }

    /// Returns the argument for [`Store::wait_for_message`] to wait until
    /// [`try_next`](Self::try_next) may return an event.
    pub fn waiting(&mut self) -> Result<Waiting, Error> {
        Ok(Waiting {
            seat: self.seated()?,
            position: self.position(),
            polling: self.polling.clone(),
            progress: self.number,
        })
    }

    /// Returns the position in the message ring after the last published message.
    pub fn newest(&self) -> u64 {
        self.store.segment.ring_tail()
    }

    /// Returns the position of the next message to read, or `None` if there are no subscriptions.
    /// Once the position reaches an earlier value of [`newest`](Self::newest), all messages
    /// published before that value was read have been received.
    pub fn position(&self) -> Option<u64> {
        self.is_active().then(|| self.reader.position())
    }

    /// Returns a descriptor for event loops. The descriptor is readable when there may be an event,
    /// and also ten times a second, because a killed publisher can lose a wake. When it is
    /// readable, call [`try_next`](Self::try_next) until it returns `None`. The descriptor changes
    /// after a fork.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.seated()?;
        self.seating.descriptor(&self.store.segment)
    }

    fn event(&self, step: Step) -> Option<Event<'_>> {
        match step {
            Step::Nothing => None,
            Step::Lost(messages) => Some(Event::Lost(messages)),
            Step::Message {
                topic,
                direct,
                by_name,
            } => Some(Event::Message(Message {
                topic,
                channel: self.reader.name(),
                payload: match by_name {
                    true => &self.parcel,
                    false => self.reader.body(),
                },
                direct,
                patterns: &self.matched,
            })),
        }
    }

    /// Advances to the next message for this subscriber.
    fn advance(&mut self) -> Result<Step, Error> {
        if !self.is_active() {
            return Ok(Step::Nothing);
        }
        if self.missed > 0 {
            return Ok(Step::Lost(std::mem::take(&mut self.missed)));
        }
        // Free the previous parcel, because a long message can occupy a lot of memory.
        self.parcel = Vec::new();
        for _ in 0..PASSED_OVER {
            let segment = &self.store.segment;
            let record = match self.reader.look(segment)? {
                Look::End => return Ok(Step::Nothing),
                Look::Record(record) => record,
                Look::Lapped => match self.skip()? {
                    0 => continue,
                    lost => return Ok(Step::Lost(lost)),
                },
            };
            if !self.subscriptions.may_want(&record) {
                self.reader.pass(&record);
                self.number = record.number;
                continue;
            }
            if !self.reader.take(segment, &record)? {
                continue;
            }
            let Some(MessageKind { topic, by_name }) = MessageKind::unpack(record.kind) else {
                self.number = record.number;
                continue;
            };
            let is_there = !by_name || self.open_parcel(&record, topic)?;
            self.number = record.number;
            let name = self.reader.name();
            let direct = self
                .subscriptions
                .meet(&record, topic, name, &mut self.matched);
            if !direct && self.matched.is_empty() {
                continue;
            }
            if !is_there {
                return Ok(Step::Lost(1));
            }
            return Ok(Step::Message {
                topic,
                direct,
                by_name,
            });
        }
        Ok(Step::Nothing)
    }

    /// Reads the parcel named by the current record, if the message is for this subscriber. Returns
    /// false if the parcel no longer exists. If the parcel cannot be read now, the reader returns
    /// to the record.
    #[cold]
    fn open_parcel(&mut self, record: &RingRecord, topic: Topic) -> Result<bool, Error> {
        if !self.subscriptions.wants(record, topic, self.reader.name()) {
            return Ok(true);
        }
        self.store
            .open_parcel(self.reader.body(), &mut self.parcel)
            .inspect_err(|_| self.reader.go_to(record.at))
    }

    /// Advances to the newest message after the ring lapped this subscriber. Returns the number of
    /// messages that the subscriber missed.
    #[cold]
    fn skip(&mut self) -> Result<u64, Error> {
        let segment = &self.store.segment;
        let subscriptions = &mut self.subscriptions;
        let (tail, records, missed) =
            segment.ring_counts(|ring| (ring.tail, ring.records, subscriptions.skip(ring)))?;
        let all = records.saturating_sub(self.number);
        self.reader.go_to(tail);
        self.number = records;
        Ok(if self.subscriptions.has_patterns() {
            all
        } else {
            missed
        })
    }

    /// Returns the seat (a futex slot in the store), and acquires a seat on first use. A forked
    /// child acquires a new seat and repeats all subscriptions on it.
    fn seated(&mut self) -> Result<SeatName, Error> {
        let (seat, is_new) = self.seating.take(&self.store.segment)?;
        if is_new && self.is_active() {
            self.enrolled = Some(0);
        }
        if let Some(enrolled) = self.enrolled {
            self.subscribe_again(seat, enrolled)?;
        }
        Ok(seat)
    }

    /// Repeats all subscriptions for the new seat of a forked child, except the first `enrolled`.
    /// If a lock delays this, the next call continues where this call stopped.
    #[cold]
    fn subscribe_again(&mut self, seat: SeatName, enrolled: usize) -> Result<(), Error> {
        if enrolled == 0 {
            // It is unknown which of these messages preceded the fork and belong only to the
            // parent, so report all of them as missed.
            self.missed += self.skip()?;
        }
        let mut past = 0;
        for topic in Topic::ALL {
            for names in self.subscriptions.all(topic).chunks(STEP) {
                past += names.len();
                if past <= enrolled {
                    continue;
                }
                let changes: Vec<(&[u8], i64)> = names
                    .iter()
                    .map(|(name, count)| (name.as_slice(), *count))
                    .collect();
                self.store.enrol(seat, topic, &changes)?;
                self.enrolled = Some(past);
            }
        }
        self.enrolled = None;
        Ok(())
    }
}

impl<S: Deref<Target = Store>> Drop for Subscriber<S> {
    fn drop(&mut self) {
        // A forked child's copy must not cancel the parent's subscriptions.
        if self.seating.name(&self.store.segment).is_none() {
            return;
        }
        let _deferred = defer_signals();
        let departure = Departure {
            seating: std::mem::take(&mut self.seating),
            left: Topic::ALL
                .into_iter()
                .map(|topic| (topic, self.subscriptions.all(topic)))
                .collect(),
        };
        if let Err(departure) = self.store.depart(departure) {
            self.store.depart_later(departure);
        }
    }
}

impl Store {
    /// Cancels the subscriptions of a dropped subscriber, and releases its seat (its futex slot).
    ///
    /// # Errors
    /// Returns the remaining subscriptions if a lock cannot be acquired.
    pub(crate) fn depart(&self, mut departure: Departure) -> Result<(), Departure> {
        let Some(seat) = departure.seating.name(&self.segment) else {
            return Ok(());
        };
        for (topic, names) in &mut departure.left {
            while !names.is_empty() {
                let rest = names.len().saturating_sub(STEP);
                let changes: Vec<(&[u8], i64)> = names[rest..]
                    .iter()
                    .map(|(name, count)| (name.as_slice(), -count))
                    .collect();
                match self.enrol(seat, *topic, &changes) {
                    Ok(()) => names.truncate(rest),
                    Err(error) if error.is_wait() => return Err(departure),
                    // Keep the seat (the futex slot) until the process exits, because its next
                    // owner would inherit the remaining subscriptions.
                    Err(_) => return Ok(()),
                }
            }
        }
        departure.seating.leave(&self.segment);
        Ok(())
    }
}
