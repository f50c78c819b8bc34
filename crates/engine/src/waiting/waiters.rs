//! The waiting client's side.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use undercroft_memory::{Patience, Polling, SeatName, ShardSet, defer_signals};

use super::looking::Found;
use super::record::{OF_GROUP, Ticket, once};
use super::serve::Ending;
use super::table::Offer;
use super::{Answer, Take, Wanted};
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::messages::seating::Seating;
use crate::transaction::access::Access;
use crate::transaction::notice::Queue;
use crate::transaction::writer::Writer;

/// How often a waiter checks its keys (M4).
const TEND: Duration = Duration::from_millis(100);
/// How long a thread polls for an answer before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// Maximum number of answered tickets returned at a time.
const ANSWERS: usize = 256;

/// The outcome of beginning to wait.
#[derive(Debug)]
pub enum WaitOutcome {
    /// The answer was available at once.
    Answered(Answer),
    /// The client waits.
    Waiting(Ticket),
}

/// The waiting clients of one thread, which share one seat.
///
/// This is for event loops: a thread that waits for a single client uses [`Store::take_or_wait`].
/// After a fork, the child's copy contains none of the parent's clients.
pub struct Waiters<S: Deref<Target = Store>> {
    pub(super) store: S,
    seating: Seating,
    /// The waiting clients, each with its database and keys.
    pub(super) waiting: BTreeMap<Ticket, (usize, Vec<Vec<u8>>)>,
}

impl Writer<'_, '_> {
    /// Takes what is wanted, unless other clients already wait for it. The second value says
    /// whether other clients wait.
    ///
    /// # Errors
    /// [`Error::WrongType`] if a key holds another type and no key before it has something to take.
    pub(super) fn take_unless_queued(
        &mut self,
        wanted: &Wanted<'_>,
    ) -> Result<(Option<Answer>, bool), Error> {
        if let Take::Look(look) = wanted.take {
            let found = self.reader().look(wanted.database, wanted.keys, look)?;
            return Ok(((found != Found::Nothing).then_some(Answer::Ready), false));
        }
        for name in wanted.sources() {
            let key = self.store.key(name);
            // Entries after an id go to all readers, so a reader never waits its turn.
            let waits_its_turn = !matches!(wanted.take, Take::Entries { .. });
            if waits_its_turn
                && self.has_queue(wanted.database, &key)?
                && let Some(entry) = self.find(wanted.database, &key)?
            {
                entry.expect(wanted.take.value_type())?;
                return Ok((None, true));
            }
            let answer = self.take(wanted, name)?;
            if answer.is_some() {
                return Ok((answer, false));
            }
        }
        Ok((None, false))
    }

    fn take(&mut self, wanted: &Wanted<'_>, key: &[u8]) -> Result<Option<Answer>, Error> {
        let destination = wanted.keys.get(1).copied();
        let offer = match wanted.take.is_of_stream() {
            true => self.offer_entries(wanted, key)?,
            false => self.offer(wanted.database, key, destination, wanted.take)?,
        };
        match offer {
            Offer::Nothing | Offer::NotYet => Ok(None),
            Offer::OtherType => Err(Error::WrongType),
            Offer::Answer(answer) => Ok(Some(answer)),
        }
    }
}

impl Access<'_> {
    /// Takes what is wanted if it is there now, even if other clients wait for it. For use within a
    /// transaction, which never waits.
    ///
    /// # Errors
    /// [`Error::WrongType`] if a key holds another type and no key before it has something to take.
    pub fn take_now(&self, wanted: &Wanted<'_>) -> Result<Option<Answer>, Error> {
        let keys: Vec<_> = wanted.named().iter().map(|key| self.key(key)).collect();
        self.write(self.shards_of(&keys), |writer| {
            for name in wanted.sources() {
                let answer = writer.take(wanted, name)?;
                if answer.is_some() {
                    return Ok(answer);
                }
            }
            Ok::<_, Error>(None)
        })
    }

    /// Takes what is wanted, or waits for it; see [`Store::take_or_wait`].
    pub fn take_or_wait(
        &self,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<Answer, Error> {
        self.store.take_or_wait(wanted, timeout)
    }
}

impl Store {
    /// Takes what is wanted or waits until it is there, without limit if there is no timeout.
    /// Clients of all processes are served in the order in which they began to wait. Must not be
    /// called within a transaction.
    ///
    /// # Errors
    /// [`Error::WrongType`] if a key holds another type and no key before it has something to take.
    /// [`Error::is_wait`] if a signal handler of the language runtime wants to run; nothing was
    /// taken then.
    ///
    /// ```
    /// # use undercroft_engine::lists::End;
    /// # use undercroft_engine::waiting::{Answer, Take, Wanted};
    /// # use undercroft_engine::{Options, Store};
    /// # let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    /// # let path = directory.path().join("store");
    /// let store = Store::open_or_create(&path, &Options::default())?;
    /// let take = Take::Items { end: End::Left, count: 1 };
    /// let wanted = Wanted { database: 0, keys: &[b"jobs"], take };
    /// let answer = std::thread::scope(|scope| {
    ///     let waiter = scope.spawn(|| store.take_or_wait(&wanted, None));
    ///     store.list_push(0, b"jobs", End::Right, &[b"one"])?;
    ///     waiter.join().unwrap()
    /// })?;
    /// let Answer::Taken(taken) = answer else { panic!() };
    /// assert_eq!((taken.key.as_slice(), taken.items.get(0)), (&b"jobs"[..], &b"one"[..]));
    /// # Ok::<(), undercroft_engine::Error>(())
    /// ```
    pub fn take_or_wait(
        &self,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<Answer, Error> {
        let start = Instant::now();
        let mut waiters = Waiters::new(self);
        let ticket = match waiters.begin(wanted)? {
            WaitOutcome::Answered(answer) => return Ok(answer),
            WaitOutcome::Waiting(ticket) => ticket,
        };
        let seat = waiters.seated()?;
        let polling = Polling::new(SPIN);
        loop {
            let left = timeout.map_or(TEND, |timeout| timeout.saturating_sub(start.elapsed()));
            let patience = Patience {
                timeout: Some(left.min(TEND)),
                polling: &polling,
                progress: 0,
            };
            // If constant writes prevent an unlocked read, stop waiting and check properly.
            let is_there = || self.is_answered(seat).unwrap_or(true);
            self.segment.wait_at(seat, patience, is_there)?;
            if let Some(answer) = waiters.finish(ticket)? {
                return answer.error().map_or(Ok(answer), Err);
            }
            if timeout.is_some_and(|timeout| start.elapsed() >= timeout) {
                return Ok(waiters.leave(ticket)?.unwrap_or(Answer::TimedOut));
            }
            waiters.tend();
        }
    }

    /// Returns whether any client of a seat was answered, or `None` if finding out means waiting
    /// for a lock.
    fn is_answered(&self, seat: SeatName) -> Option<bool> {
        let home = ShardSet::one(self.home_of(seat));
        let look = self.segment.try_read(home, |view| {
            let reader = Reader { store: self, view };
            reader.has_answers(seat)
        });
        look?.ok()
    }
}

impl<S: Deref<Target = Store>> Waiters<S> {
    /// Creates an empty set of waiting clients.
    pub fn new(store: S) -> Waiters<S> {
        Waiters {
            store,
            seating: Seating::default(),
            waiting: BTreeMap::new(),
        }
    }

    /// Returns whether no client waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes what a client wants, or makes the client wait.
    ///
    /// # Errors
    /// [`Error::WrongType`] if a key holds another type and no key before it has something to take.
    /// Also fails if the store is read-only, or if 512 seats are already in use in this process.
    pub fn begin(&mut self, wanted: &Wanted<'_>) -> Result<WaitOutcome, Error> {
        self.store.settle_waits();
        // A client that wants stream entries has just looked for them, so do not look again.
        if !wanted.take.is_of_stream()
            && let Some(answer) = self.store.take_at_once(wanted)?
        {
            return Ok(WaitOutcome::Answered(answer));
        }
        let seat = self.seated()?;
        let store = &*self.store;
        let keys: Vec<_> = wanted.named().iter().map(|key| store.key(key)).collect();
        let mut shards = store.shards_of(&keys);
        shards.insert(store.home_of(seat));
        let (begun, behind) = store.write(shards, |writer| {
            let (answer, behind) = writer.take_unless_queued(wanted)?;
            Ok::<_, Error>(match answer {
                Some(answer) => (WaitOutcome::Answered(answer), false),
                None => (WaitOutcome::Waiting(writer.enqueue(seat, wanted)?), behind),
            })
        })?;
        let WaitOutcome::Waiting(ticket) = begun else {
            return Ok(begun);
        };
        let sources = once(wanted.sources().iter().copied());
        let names = sources.iter().map(|key| key.to_vec()).collect();
        self.waiting.insert(ticket, (wanted.database, names));
        if behind {
            // The key has something for the clients ahead in the queue, and perhaps for this
            // client, too.
            let keys = sources.iter().map(|key| store.key(key));
            let queues: VecDeque<Queue> =
                keys.map(|key| Queue::of(wanted.database, &key)).collect();
            store.serve(queues);
            let _deferred = defer_signals();
            // If a lock delays this attempt, a later check finds the answer.
            if let Ok(Some(answer)) = self.finish(ticket) {
                return Ok(WaitOutcome::Answered(answer));
            }
        }
        Ok(WaitOutcome::Waiting(ticket))
    }

    /// Returns clients whose wait is over, at most 256 at a time; [`finish`](Self::finish) takes
    /// their answers. If the store's file is gone, returns the clients that still wait. If there
    /// are no clients to return and a [`descriptor`](Self::descriptor) was requested, the
    /// descriptor becomes readable at the next answer. `rung` says whether the descriptor was
    /// readable.
    pub fn answered(&mut self, rung: bool) -> Result<Vec<Ticket>, Error> {
        let store = &*self.store;
        let Some(name) = self.seating.name(&store.segment) else {
            return Ok(Vec::new());
        };
        self.seating.arm(&store.segment, rung);
        if store.segment.in_place().is_err() {
            return Ok(self.waiting.keys().copied().take(ANSWERS).collect());
        }
        store.read_marked(ShardSet::one(store.home_of(name)), |reader| {
            reader.answered(name, ANSWERS)
        })
    }

    /// Tells the handle that the thread is awake and will ask for [answered](Self::answered)
    /// clients before it sleeps. Until then the descriptor need not become readable.
    pub fn awake(&self) {
        self.seating.disarm(&self.store.segment);
    }

    /// Takes the answer of a client whose wait is over.
    ///
    /// # Errors
    /// Fails if a lock cannot be taken now. The answer then stays in the record.
    pub fn finish(&mut self, ticket: Ticket) -> Result<Option<Answer>, Error> {
        let mut answer = self.store.end(ticket, Ending::Collect)?;
        if answer.is_none() && self.store.segment.in_place().is_err() {
            answer = Some(Answer::Removed(self.store.path().into()));
        }
        if answer.is_some() {
            self.waiting.remove(&ticket);
        }
        Ok(answer)
    }

    /// Ends a client's wait. Returns the answer if there already was one.
    ///
    /// # Errors
    /// Returns the errors of [`finish`](Self::finish).
    pub fn leave(&mut self, ticket: Ticket) -> Result<Option<Answer>, Error> {
        let answer = self.store.end(ticket, Ending::Leave)?;
        self.waiting.remove(&ticket);
        Ok(answer)
    }

    /// Ends the wait of a client that is gone, and returns its items to their key. Does nothing in
    /// a forked child, because the client belongs to the parent.
    pub fn give_up(&mut self, ticket: Ticket) {
        if self.waiting.remove(&ticket).is_some()
            && self.seating.name(&self.store.segment).is_some()
        {
            self.store.give_back(ticket);
        }
    }

    /// Tends the keys of the waiting clients: serves queues that a killed writer left unserved, and
    /// removes dead waiters that are ahead in a queue. Call it ten times a second. O(keys).
    pub fn tend(&mut self) {
        let _deferred = defer_signals();
        self.store.upkeep_while_waiting();
        self.store.settle_waits();
        let mut seen = HashMap::new();
        for (ticket, (database, keys)) in &self.waiting {
            // Ignore errors: tickets whose shard is locked are examined on the next pass.
            if ticket.looks() {
                let _ = self.store.tend_look(*ticket);
            }
            for key in keys {
                let tended = || self.store.tend(*database, key).unwrap_or(true);
                let is_there = *seen.entry((database, key)).or_insert_with(tended);
                if !is_there && ticket.kind() == OF_GROUP {
                    let _ = self.store.tend_gone(*ticket, *database, key);
                }
            }
        }
    }

    /// Returns a descriptor for event loops. It is readable when a client's wait may be over, and
    /// also ten times a second, when [`tend`](Self::tend) is due.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.seated()?;
        self.seating.descriptor(&self.store.segment)
    }

    pub(super) fn seated(&mut self) -> Result<SeatName, Error> {
        let (seat, is_new) = self.seating.take(&self.store.segment)?;
        if is_new {
            // These clients belong to the process that forked.
            self.waiting.clear();
        }
        Ok(seat)
    }
}

impl<S: Deref<Target = Store>> Drop for Waiters<S> {
    fn drop(&mut self) {
        if self.seating.name(&self.store.segment).is_none() {
            return;
        }
        let mut all_ended = true;
        for ticket in std::mem::take(&mut self.waiting).into_keys() {
            all_ended &= self.store.give_back(ticket);
        }
        if !all_ended {
            // A stopped process holds a lock, so some waits have not ended and still use the seat.
            return;
        }
        self.seating.leave(&self.store.segment);
    }
}
