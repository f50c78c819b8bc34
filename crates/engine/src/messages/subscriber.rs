//! Receiving messages: from the ring, at the subscriber's own pace (M3, M4).

use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use undercroft_memory::{Look, Patience, Polling, RingReader, RingRecord, SeatName, defer_signals};

use crate::error::Error;
use crate::handle::store::Store;
use crate::messages::seating::Seating;
use crate::messages::subscriptions::Subscriptions;
use crate::messages::unsent::Departure;
use crate::transaction::message::MessageKind;
use crate::transaction::message::Topic;

/// How long a thread looks for messages before it sleeps, at most and unless
/// told otherwise.
const SPIN: Duration = Duration::from_micros(500);
/// Records that are not for this subscriber, passed over in one call at most.
const PASSED_OVER: u32 = 10_000;
/// Names given up in one transaction.
const STEP: usize = 64;

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
    ///
    /// The child's copy of a subscriber in a process that forked tells this first, of those that were published before
    /// its first call there; the parent's gets them.
    Lost(u64),
}

/// A receiver of messages. Belongs to one thread at a time.
///
/// Survives a fork: the child's copy subscribes anew, as a receiver of its own,
/// when it is first used there, and tells how many messages it has missed until then.
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
    /// How many records were before the reader's position.
    number: u64,
    subscriptions: Subscriptions,
    /// How many of these are known at the seat, where it is new and not all are.
    enrolled: Option<usize>,
    /// Messages that were missed between a fork and the first call in the child, and are to be told.
    missed: u64,
    matched: Vec<Arc<[u8]>>,
    /// The message last taken, where it was longer than a record may be.
    parcel: Vec<u8>,
}

/// What [`Subscriber::advance`] came to.
enum Step {
    Message {
        topic: Topic,
        direct: bool,
        by_name: bool,
    },
    Lost(u64),
    Nothing,
}

/// Where a subscriber stands, for waiting without holding on to it.
#[derive(Clone, Debug)]
pub struct Waiting {
    seat: SeatName,
    /// None where it is not subscribed to anything.
    position: Option<u64>,
    polling: Arc<Polling>,
    progress: u64,
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

    /// For how long [`next`](Self::next) looks for a message before it sleeps, at
    /// most (default 500 microseconds). It does so where messages come so close
    /// to one another, and nobody else wants the processor; where they come more
    /// slowly, it sleeps after 20 microseconds. Zero is never to look.
    pub fn set_spin(&mut self, longest: Duration) {
        self.polling = Arc::new(Polling::new(longest));
    }

    /// The store it is subscribed in.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Whether it is subscribed to something.
    pub fn is_active(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Whether it is subscribed to this.
    pub fn is_subscribed(&self, topic: Topic, name: &[u8]) -> bool {
        let hash = self.store.key(name).hash;
        self.subscriptions.contains(topic, hash, name)
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
            self.reader.go_to(tail);
            self.number = records;
        }
        for ((name, hash), count) in names.iter().zip(hashes).zip(counts) {
            self.subscriptions.add(topic, hash, name, tail, count);
        }
        Ok(())
    }

    /// Takes back one subscription to each of the names; those that it is not
    /// subscribed to do not matter.
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

    /// What comes next, if it is there already. Where a
    /// [`descriptor`](Self::descriptor) was asked for and nothing is there, it
    /// becomes readable with the next message.
    ///
    /// # Errors
    /// Within two seconds, that the store's file is gone (M7).
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
        if rung && self.is_active() && matches!(step, Step::Nothing) {
            self.store.segment.in_place()?;
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

    /// What [`Store::wait_for_message`] waits for: that [`try_next`](Self::try_next)
    /// may have something to return.
    pub fn waiting(&mut self) -> Result<Waiting, Error> {
        Ok(Waiting {
            seat: self.seated()?,
            position: self.position(),
            polling: self.polling.clone(),
            progress: self.number,
        })
    }

    /// Where what was published last ends.
    pub fn newest(&self) -> u64 {
        self.store.segment.ring_tail()
    }

    /// Where the next message is looked for: at [`newest`](Self::newest) all has been
    /// taken that had been published then. None where it is not subscribed to anything.
    pub fn position(&self) -> Option<u64> {
        self.is_active().then(|| self.reader.position())
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

    /// Goes on to the next message that is for this subscriber.
    fn advance(&mut self) -> Result<Step, Error> {
        if !self.is_active() {
            return Ok(Step::Nothing);
        }
        if self.missed > 0 {
            return Ok(Step::Lost(std::mem::take(&mut self.missed)));
        }
        // Much memory, for one message.
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

    /// Reads the parcel that the record names which was just taken, if it is for
    /// this subscriber. Returns false where it is not there any more; where it
    /// cannot be read now, the record is to be taken again.
    #[cold]
    fn open_parcel(&mut self, record: &RingRecord, topic: Topic) -> Result<bool, Error> {
        if !self.subscriptions.wants(record, topic, self.reader.name()) {
            return Ok(true);
        }
        self.store
            .open_parcel(self.reader.body(), &mut self.parcel)
            .inspect_err(|_| self.reader.go_to(record.at))
    }

    /// Goes on with the newest message, after this subscriber was lapped.
    /// Returns how many of those that were for it were missed.
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

    /// The seat, taken where there is none yet; in a forked child a new one, to
    /// which all is subscribed again.
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

    /// Subscribes at a new seat to all but the first so many names. Where a lock
    /// stands in the way it is called again, and goes on from there.
    #[cold]
    fn subscribe_again(&mut self, seat: SeatName, enrolled: usize) -> Result<(), Error> {
        if enrolled == 0 {
            // Which of them were there at the fork, and are the parent's to receive, is not known.
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
        // A forked child's copy takes nothing of its parent's away.
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
    /// Takes back the subscriptions of a subscriber that is gone, and gives its
    /// seat back.
    ///
    /// # Errors
    /// What is left of them, where a lock stands in the way.
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
                    // The seat stays taken, or its next owner would count as
                    // subscribed; it ends with the process.
                    Err(_) => return Ok(()),
                }
            }
        }
        departure.seating.leave(&self.segment);
        Ok(())
    }
}
