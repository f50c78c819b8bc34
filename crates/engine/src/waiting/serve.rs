//! Serves queues by giving waiters the items that arrived for them, in queue order.

use std::collections::VecDeque;

use undercroft_memory::{Fault, ShardSet, defer_signals};

use super::looking::Found;
use super::record::{FOR_ROOM, TAKES, Ticket, TicketRecord};
use super::table::Offer;
use super::{Answer, Look, Take, Wanted};
use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::roots::{QUEUES, WAITERS};
use crate::transaction::notice::{NoticedQueues, Queue};
use crate::waiting::postponed::Task;

/// The maximum number of tickets (ids of waits) that one read of a queue returns.
const LOOK: usize = 64;

/// The items in a mailbox (the record of an answered client).
type Items = Vec<Vec<u8>>;

/// The outcome for one waiting client when the queue of a key is served.
enum Progress {
    /// The client was answered and its ticket was removed from the queue.
    Answered,
    /// The ticket (the id of a wait) is no longer in the queue.
    Gone,
    /// The key has nothing for this client, but may have something for the next client.
    Passed,
    /// The key does not exist.
    Nothing,
    /// The client waits for a condition and was woken. When it calls again, it wakes the next
    /// client of its kind.
    Woken,
    /// The client waits for a condition that does not hold yet.
    Waits,
    /// The client reads a stream and is answered together with other readers.
    Reads(TicketRecord),
}

/// How a waiting client ends its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// End the wait only if it was answered, and return the answer.
    Collect,
    /// End the wait, and return its answer if there is one.
    Leave,
    /// End the wait and return the items in the client's record to their key.
    GiveBack,
}

impl Store {
    /// Serves the queues of the keys that a transaction changed. The transaction has already
    /// committed, so failures are not reported to the writer.
    #[cold]
    pub(crate) fn serve_noticed(&self, noticed: NoticedQueues) {
        let _deferred = defer_signals();
        let mut queues: VecDeque<Queue> = noticed.queues.into();
        if noticed.all {
            queues.extend(self.queues().unwrap_or_default());
        }
        self.serve(queues);
    }

    /// Returns all queues, in sorted order. O(queues).
    fn queues(&self) -> Result<Vec<Queue>, Error> {
        let names = self.keys_where(QUEUES, |_| Ok(true))?;
        let queues = names.iter().filter_map(|name| Queue::from_name(self, name));
        let mut queues: Vec<Queue> = queues.collect();
        queues.sort_unstable();
        queues.dedup();
        Ok(queues)
    }

    /// Returns the tickets (ids of waits) of all waiting clients, in sorted order. O(waiting
    /// clients).
    fn tickets(&self) -> Result<Vec<Ticket>, Error> {
        let names = self.keys_where(WAITERS, |_| Ok(true))?;
        let tickets = names.iter().filter_map(Ticket::from_bytes);
        let mut tickets: Vec<Ticket> = tickets.collect();
        tickets.sort_unstable();
        Ok(tickets)
    }

    /// Serves the given queues, and the queues of keys that change as a result.
    pub(super) fn serve(&self, mut queues: VecDeque<Queue>) {
        let _deferred = defer_signals();
        while let Some(queue) = queues.pop_front() {
            if let Err(error) = self.serve_queue(queue, &mut queues) {
                self.do_later(Task::Serve(queue), &error);
            }
        }
    }

    /// Retries serving a queue after a failed attempt.
    pub(crate) fn serve_again(&self, queue: Queue) -> Result<(), Error> {
        let mut more = VecDeque::new();
        let served = self.serve_queue(queue, &mut more);
        self.serve(more);
        served
    }

    /// Serves the clients in a queue one after another, as long as the key has something for them.
    /// Adds the queues of other keys that changed to `more`.
    fn serve_queue(&self, queue: Queue, more: &mut VecDeque<Queue>) -> Result<(), Error> {
        let mut passed = 0;
        let mut last = Vec::new();
        // For each kind of client, whether the key has nothing left for it.
        let mut settled = [false; 4];
        loop {
            let tickets = self.read_marked(ShardSet::one(queue.shard), |reader| {
                reader.queue(queue, passed, LOOK)
            })?;
            // Every ticket is either passed or removed from the queue, so reading the same tickets
            // again means that the queue is damaged.
            if tickets.is_empty() || tickets == last {
                return Ok(());
            }
            last.clone_from(&tickets);
            let mut readers = Vec::new();
            for ticket in tickets {
                if settled[ticket.kind()] {
                    passed += 1;
                    continue;
                }
                match self.serve_one(queue, ticket, more)? {
                    Progress::Passed => passed += 1,
                    Progress::Answered | Progress::Gone => {}
                    Progress::Woken => settled[ticket.kind()] = true,
                    Progress::Nothing | Progress::Waits => {
                        passed += 1;
                        // Each client that waits for room has its own limit, so the next client may
                        // have room even if this client has none.
                        settled[ticket.kind()] = ticket.kind() != FOR_ROOM;
                    }
                    Progress::Reads(record) => readers.push((ticket, record)),
                }
            }
            passed += self.serve_readers(queue, &readers, more)?;
            if settled[TAKES] || settled != [false; 4] && last.iter().all(|ticket| ticket.looks()) {
                // Clients of other kinds later in the queue check for themselves when they tend
                // their keys.
                return Ok(());
            }
        }
    }

    fn serve_one(
        &self,
        queue: Queue,
        ticket: Ticket,
        more: &mut VecDeque<Queue>,
    ) -> Result<Progress, Error> {
        let Some(record) = self.waiter(ticket)? else {
            // The client has just ended its wait.
            return Ok(Progress::Gone);
        };
        // Entries remain in their stream, so giving them to a dead process is harmless and costs
        // less than checking liveness.
        let reads = matches!(record.take, Take::Entries { .. });
        // Check liveness before acquiring the lock (W9): a dead process stays dead.
        let lives = match reads {
            true => !self.segment.seat_is_stale(record.seat),
            false => self.segment.seat_lives(record.seat),
        };
        if !lives {
            let noticed = self.end_dead(ticket)?;
            more.extend(noticed.queues.into_iter().filter(|other| *other != queue));
            return Ok(Progress::Gone);
        }
        if !record.waits() {
            // The client was answered a moment ago, and later tickets have moved up in the queue.
            return Ok(Progress::Gone);
        }
        if record.database != queue.database {
            return Ok(Progress::Passed);
        }
        if reads {
            return Ok(Progress::Reads(record));
        }
        if let Some(look) = record.look() {
            return self.serve_look(ticket, &record, look);
        }
        let keys = record.queued();
        let Some(key) = queue.key_among(self, &keys) else {
            return Ok(Progress::Passed);
        };
        let there = self.read_marked(ShardSet::one(queue.shard), |reader| {
            match reader.find(queue.database, &self.key(key))? {
                Some(entry) => entry.value_type().map(Some),
                None => Ok(None),
            }
        })?;
        match there {
            // A client that reads with a consumer group must learn that the stream is gone.
            _ if matches!(record.take, Take::Deliver { .. }) => {}
            None => return Ok(Progress::Nothing),
            // The client wants a different type, so skip it without acquiring a lock.
            Some(there) if there != record.take.value_type() => return Ok(Progress::Passed),
            Some(_) => {}
        }
        if record.take.is_of_stream() {
            // Many clients may wait for entries that do not exist yet, so check before acquiring a
            // lock.
            let texts = record.texts();
            let wanted = record.wanted(&texts);
            let has = self.read_marked(ShardSet::one(queue.shard), |reader| {
                reader.has_entries(&wanted, key)
            })?;
            if !has {
                return Ok(Progress::Passed);
            }
        }
        let served = self.write_marked(record.shards(self, ticket), |writer| {
            let Some(record) = writer.waiter(ticket)? else {
                return Ok(Progress::Gone);
            };
            if !record.waits() {
                return Ok(Progress::Gone);
            }
            let texts = record.texts();
            let wanted = record.wanted(&texts);
            let destination = match record.take {
                Take::Move { .. } => record.keys().get(1).copied(),
                _ => None,
            };
            let offer = match record.take.is_of_stream() {
                true => writer.offer_entries(&wanted, key)?,
                false => writer.offer(record.database, key, destination, record.take)?,
            };
            match offer {
                Offer::Nothing => Ok(Progress::Nothing),
                Offer::OtherType | Offer::NotYet => Ok(Progress::Passed),
                Offer::Answer(answer) => {
                    writer.answer(ticket, &record, &answer)?;
                    Ok::<_, Error>(Progress::Answered)
                }
            }
        });
        let (progress, noticed) = served?;
        more.extend(noticed.queues.into_iter().filter(|other| *other != queue));
        if matches!(progress, Progress::Answered) {
            self.segment.wake_seat(record.seat);
        }
        Ok(progress)
    }

    /// Wakes a client that waits for a condition without removing items, if the condition holds.
    fn serve_look(
        &self,
        ticket: Ticket,
        record: &TicketRecord,
        look: Look,
    ) -> Result<Progress, Error> {
        let keys = record.keys();
        let hashed: Vec<_> = keys.iter().map(|key| self.key(key)).collect();
        let found = self.read_marked(self.shards_of(&hashed), |reader| {
            reader.look(record.database, &keys, look)
        });
        let found = match found {
            // The key holds a different type, so wake the client, whose next call reports the
            // error.
            Err(Error::WrongType) => Found::Closed,
            found => found?,
        };
        if found == Found::Nothing {
            return Ok(Progress::Waits);
        }
        let (answered, _) =
            self.write_marked(record.shards(self, ticket), |writer| {
                match writer.waiter(ticket)? {
                    Some(record) if record.waits() => {
                        writer.answer(ticket, &record, &Answer::Ready)?;
                        Ok::<_, Error>(true)
                    }
                    _ => Ok(false),
                }
            })?;
        if !answered {
            return Ok(Progress::Gone);
        }
        self.segment.wake_seat(record.seat);
        Ok(match found {
            Found::Closed => Progress::Answered,
            _ => Progress::Woken,
        })
    }

    pub(super) fn waiter(&self, ticket: Ticket) -> Result<Option<TicketRecord>, Error> {
        if ticket.home() >= self.shards() {
            // The ticket (the id of a wait) was read from a list and has not been validated yet.
            return Err(Error::from(Fault {
                at: 0,
                what: "tickets of waiting clients in existing shards",
            }));
        }
        self.read_marked(ShardSet::one(ticket.home()), |reader| reader.waiter(ticket))
    }

    /// Ends the wait of a dead process. If the items in its record cannot be returned to their key,
    /// keeps the record without an owner instead.
    pub(super) fn end_dead(&self, ticket: Ticket) -> Result<NoticedQueues, Error> {
        let (_, noticed) = self.end_noticing(ticket, Ending::GiveBack)?;
        Ok(noticed)
    }

    /// Ends a wait on behalf of the waiting client.
    pub(super) fn end(&self, ticket: Ticket, ending: Ending) -> Result<Option<Answer>, Error> {
        let (answer, noticed) = self.end_noticing(ticket, ending)?;
        if ending == Ending::GiveBack {
            self.serve_noticed(noticed);
        }
        Ok(answer)
    }

    fn end_noticing(
        &self,
        ticket: Ticket,
        ending: Ending,
    ) -> Result<(Option<Answer>, NoticedQueues), Error> {
        let Some(record) = self.waiter(ticket)? else {
            return Ok((None, NoticedQueues::default()));
        };
        if record.waits() && ending == Ending::Collect {
            return Ok((None, NoticedQueues::default()));
        }
        // Answering a record adds no keys to it, so these shards suffice.
        let (answer, mut noticed) = self.write_marked(record.shards(self, ticket), |writer| {
            let Some(record) = writer.waiter(ticket)? else {
                return Ok(None);
            };
            if ending == Ending::GiveBack && !writer.put_back(ticket, &record)? {
                // The key now holds a different type. Any process that finds this record once the
                // type matches again returns the items, even if this process is still alive.
                writer.disown(ticket, &record)?;
                return Ok(None);
            }
            writer.forget_waiter(ticket, &record)?;
            Ok(record.answer())
        })?;
        if ending == Ending::GiveBack && answer == Some(Answer::Ready) {
            // The client was woken but will not act on it, so wake the next client.
            let keys = record.queued().into_iter().map(|key| self.key(key));
            keys.for_each(|key| noticed.add(Queue::of(record.database, &key)));
        }
        Ok((answer, noticed))
    }

    /// Ends the wait of another client (CLIENT UNBLOCK), as a timeout or with an error. Returns
    /// whether the client was still waiting.
    pub fn unblock(&self, ticket: Ticket, with_error: bool) -> Result<bool, Error> {
        let Some(record) = self.waiter(ticket)? else {
            return Ok(false);
        };
        let answer = if with_error {
            Answer::Unblocked
        } else {
            Answer::TimedOut
        };
        let (ended, _) = self.write_marked(record.shards(self, ticket), |writer| {
            match writer.waiter(ticket)? {
                Some(record) if record.waits() => {
                    writer.answer(ticket, &record, &answer)?;
                    Ok::<_, Error>(true)
                }
                _ => Ok(false),
            }
        })?;
        if ended {
            self.segment.wake_seat(record.seat);
        }
        Ok(ended)
    }

    /// Performs the requested operation if a key has something for it and no other client is
    /// waiting for that key.
    pub(super) fn take_at_once(&self, wanted: &Wanted<'_>) -> Result<Option<Answer>, Error> {
        let keys: Vec<_> = wanted.named().iter().map(|key| self.key(key)).collect();
        self.write(self.shards_of(&keys), |writer| {
            writer.take_unless_queued(wanted).map(|(answer, _)| answer)
        })
    }

    /// Serves the queue of a key, in case a writer died before serving it. Reading the key also
    /// returns items that dead clients had not read yet. Returns whether the key exists.
    pub(super) fn tend(&self, database: usize, key: &[u8]) -> Result<bool, Error> {
        let key = self.key(key);
        let there = self.read(ShardSet::one(key.shard), |reader| {
            Ok::<_, Error>(reader.find(database, &key)?.is_some())
        })?;
        if there {
            self.serve(VecDeque::from([Queue::of(database, &key)]));
        }
        Ok(there)
    }

    /// Notifies a client that reads with a consumer group if the key is gone, regardless of the
    /// client's position in the queue. This covers keys that expired, because expiry does not serve
    /// queues, and keys whose remover died before serving the queue.
    pub(super) fn tend_gone(
        &self,
        ticket: Ticket,
        database: usize,
        key: &[u8],
    ) -> Result<(), Error> {
        let queue = Queue::of(database, &self.key(key));
        let mut more = VecDeque::new();
        let served = self.serve_one(queue, ticket, &mut more);
        self.serve(more);
        served.map(drop)
    }

    /// Checks the condition of a client that waits with [`Look`], regardless of the client's
    /// position in the queue.
    pub(super) fn tend_look(&self, ticket: Ticket) -> Result<(), Error> {
        if let Some(record) = self.waiter(ticket)?
            && let Some(look) = record.look()
            && record.waits()
        {
            self.serve_look(ticket, &record, look)?;
        }
        Ok(())
    }

    /// Ends the wait of a client that has disconnected, or postpones this task if it fails now.
    /// Returns whether the wait has ended.
    pub(super) fn give_back(&self, ticket: Ticket) -> bool {
        let _deferred = defer_signals();
        let ended = self.end_for_good(ticket);
        if let Err(error) = &ended {
            self.do_later(Task::End(ticket), error);
        }
        ended.is_ok()
    }

    pub(crate) fn end_for_good(&self, ticket: Ticket) -> Result<(), Error> {
        self.end(ticket, Ending::GiveBack).map(drop)
    }

    /// Returns the keys, the outcome and the recorded items of every wait, including the waits of
    /// dead processes. For tests only.
    #[doc(hidden)]
    pub fn waits(&self) -> Result<Vec<(String, Items)>, Error> {
        let mut waits = Vec::new();
        for ticket in self.tickets()? {
            let Some(record) = self.waiter(ticket)? else {
                continue;
            };
            let given = match (record.answer(), record.take) {
                // A moved item is already at its destination rather than in the client's record.
                (Some(Answer::Taken(taken)), Take::Items { .. } | Take::Scored { .. }) => {
                    taken.items.iter().map(<[u8]>::to_vec).collect()
                }
                _ => Vec::new(),
            };
            let keys = record.keys().join(&b' ');
            let keys = String::from_utf8_lossy(&keys).into_owned();
            waits.push((format!("{keys}: {:?}", record.answer()), given));
        }
        waits.sort_unstable();
        Ok(waits)
    }
}
