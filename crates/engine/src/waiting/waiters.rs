//! Implements the waiting client's side, which begins to wait and reads the answer.

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

/// The time between two checks of a waiter's keys (M4).
const TEND: Duration = Duration::from_millis(100);
/// The time for which a thread polls for an answer before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// The maximum number of answered clients that one call returns.
const ANSWERS: usize = 256;

/// The outcome of a client's request.
#[derive(Debug)]
pub enum WaitOutcome {
    /// The answer was available immediately.
    Answered(Answer),
    /// The client is now waiting.
    Waiting(Ticket),
}

/// The waiting clients of one thread, which share one seat (a futex slot in the store).
///
/// This type is for event loops. A thread that waits for a single client uses
/// [`Store::take_or_wait`]. After a fork, the child's copy contains none of the parent's clients.
pub struct Waiters<S: Deref<Target = Store>> {
    pub(super) store: S,
    seating: Seating,
    /// The waiting clients, each with the database and the keys of its request.
    pub(super) waiting: BTreeMap<Ticket, (usize, Vec<Vec<u8>>)>,
}

impl Writer<'_, '_> {
    /// Performs the requested operation, unless other clients are already waiting for it. The
    /// second returned value indicates whether other clients are waiting.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if a key holds a different type and no earlier key has
    /// something for the client.
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
            // Entries after an id go to all readers, so a reader never waits for its turn.
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
    /// Performs the requested operation if a key has something for it now, even if other clients
    /// are waiting. This is for use within a transaction, which never waits.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if a key holds a different type and no earlier key has
    /// something for the client.
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

    /// Performs the requested operation, or waits until it is possible; see
    /// [`Store::take_or_wait`].
    pub fn take_or_wait(
        &self,
        wanted: &Wanted<'_>,
        timeout: Option<Duration>,
    ) -> Result<Answer, Error> {
        self.store.take_or_wait(wanted, timeout)
    }
}

impl Store {
    /// Performs the requested operation, or waits until it is possible. Waits indefinitely if there
    /// is no timeout. Clients of all processes are served in the order in which they began to wait.
    /// Must not be called within a transaction.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if a key holds a different type and no earlier key has
    /// something for the client. Returns an error for which [`Error::is_wait`] is true if a signal
    /// handler of the language runtime must run. In that case, no items were removed.
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
            // If constant writes prevent an unlocked read, stop waiting and check under the lock.
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

    /// Returns whether any client that waits at a seat (a futex slot) was answered, or `None` if
    /// the check would have to wait for a lock.
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

    /// Returns whether no clients are waiting.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Performs a client's requested operation, or makes the client wait.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if a key holds a different type and no earlier key has
    /// something for the client. Also fails if the store is read-only, or if this process already
    /// uses 512 seats.
    pub fn begin(&mut self, wanted: &Wanted<'_>) -> Result<WaitOutcome, Error> {
        self.store.settle_waits();
        // A client that wants stream entries has just tried to read them, so do not try again.
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
            // The key has something for the clients ahead in the queue, and possibly for this
            // client, too.
            let keys = sources.iter().map(|key| store.key(key));
            let queues: VecDeque<Queue> =
                keys.map(|key| Queue::of(wanted.database, &key)).collect();
            store.serve(queues);
            let _deferred = defer_signals();
            // If a lock delays reading the answer, a later check finds it.
            if let Ok(Some(answer)) = self.finish(ticket) {
                return Ok(WaitOutcome::Answered(answer));
            }
        }
        Ok(WaitOutcome::Waiting(ticket))
    }

    /// Returns the tickets (ids of the waits) of up to 256 clients whose wait is over, for
    /// [`finish`](Self::finish) to read their answers. If the store's file is gone, returns the
    /// clients that are still waiting. If no client is returned and a
    /// [`descriptor`](Self::descriptor) was requested, the descriptor becomes readable at the next
    /// answer. `rung` is whether the descriptor was readable.
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

    /// Informs the handle that the thread is awake and will call [`answered`](Self::answered)
    /// before it sleeps. Until then, the descriptor need not become readable.
    pub fn awake(&self) {
        self.seating.disarm(&self.store.segment);
    }

    /// Returns the answer of a client whose wait is over, and ends the wait.
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired now. The answer then stays in the client's record.
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

    /// Ends a client's wait. Returns the answer if the client was already answered.
    ///
    /// # Errors
    /// Returns the errors of [`finish`](Self::finish).
    pub fn leave(&mut self, ticket: Ticket) -> Result<Option<Answer>, Error> {
        let answer = self.store.end(ticket, Ending::Leave)?;
        self.waiting.remove(&ticket);
        Ok(answer)
    }

    /// Ends the wait of a client that has disconnected, and returns the items in its record to
    /// their key. Does nothing in a forked child, because the client belongs to the parent.
    pub fn give_up(&mut self, ticket: Ticket) {
        if self.waiting.remove(&ticket).is_some()
            && self.seating.name(&self.store.segment).is_some()
        {
            self.store.give_back(ticket);
        }
    }

    /// Tends the keys of the waiting clients. Serves queues that a killed writer left unserved, and
    /// removes dead waiters that are ahead in a queue. Call this ten times a second. O(keys).
    pub fn tend(&mut self) {
        let _deferred = defer_signals();
        self.store.upkeep_while_waiting();
        self.store.settle_waits();
        let mut seen = HashMap::new();
        for (ticket, (database, keys)) in &self.waiting {
            // Ignore errors, because clients whose shard is locked are checked again on the next
            // pass.
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

    /// Returns a descriptor for event loops. The descriptor is readable when a client's wait may be
    /// over, and also ten times a second, when [`tend`](Self::tend) is due.
    pub fn descriptor(&mut self) -> Result<BorrowedFd<'_>, Error> {
        self.seated()?;
        self.seating.descriptor(&self.store.segment)
    }

    pub(super) fn seated(&mut self) -> Result<SeatName, Error> {
        let (seat, is_new) = self.seating.take(&self.store.segment)?;
        if is_new {
            // The remaining clients belong to the parent of this forked process.
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
            // A stopped process holds a lock, so some waits have not ended and still need the seat
            // (the futex slot).
            return;
        }
        self.seating.leave(&self.store.segment);
    }
}
