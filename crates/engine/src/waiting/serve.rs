//! Serving queues: giving those who wait what came for them, in their order.

use std::collections::VecDeque;

use undercroft_memory::{Fault, ShardSet, defer_signals};

use super::looking::Found;
use super::record::{FOR_ROOM, TAKES, Ticket, TicketRecord};
use super::table::Offer;
use super::{Answer, Look, Take, Wanted};
use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::roots::{QUEUES, WAITERS};
use crate::transaction::notice::{Noticed, Queue};
use crate::waiting::postponed::Task;

/// Tickets of a queue looked at at once.
const LOOK: usize = 64;

/// What is in a mailbox.
type Items = Vec<Vec<u8>>;

/// What became of a ticket when its queue was served.
enum Progress {
    /// It was answered, and left the queue.
    Answered,
    /// It is not in the queue any more.
    Gone,
    /// There is nothing for it, but there may be for the next one.
    Passed,
    /// The key is not there.
    Nothing,
    /// It looks, and was woken: the others of its kind are woken by what it does.
    Woken,
    /// It looks, and there is nothing for it.
    Waits,
    /// It reads a stream, and is answered with the others that do.
    Reads(TicketRecord),
}

/// How a wait is ended from the waiter's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Only if it was answered.
    Collect,
    /// With the answer, if there is one.
    Leave,
    /// What was taken goes back.
    GiveBack,
}

impl Store {
    /// Serves the queues of the keys that a transaction changed. What it did is
    /// committed, so nothing here is an error of the writer's.
    #[cold]
    pub(crate) fn serve_noticed(&self, noticed: Noticed) {
        let _deferred = defer_signals();
        let mut queues: VecDeque<Queue> = noticed.queues.into();
        if noticed.all {
            queues.extend(self.queues().unwrap_or_default());
        }
        self.serve(queues);
    }

    /// All queues. O(queues).
    fn queues(&self) -> Result<Vec<Queue>, Error> {
        let names = self.keys_where(QUEUES, |_| Ok(true))?;
        let queues = names.iter().filter_map(|name| Queue::from_name(self, name));
        let mut queues: Vec<Queue> = queues.collect();
        queues.sort_unstable();
        queues.dedup();
        Ok(queues)
    }

    /// All tickets, in some order that is always the same. O(waiting clients).
    fn tickets(&self) -> Result<Vec<Ticket>, Error> {
        let names = self.keys_where(WAITERS, |_| Ok(true))?;
        let tickets = names.iter().filter_map(Ticket::from_bytes);
        let mut tickets: Vec<Ticket> = tickets.collect();
        tickets.sort_unstable();
        Ok(tickets)
    }

    /// Serves queues, and those of the keys that change by it.
    pub(super) fn serve(&self, mut queues: VecDeque<Queue>) {
        let _deferred = defer_signals();
        while let Some(queue) = queues.pop_front() {
            if let Err(error) = self.serve_queue(queue, &mut queues) {
                self.do_later(Task::Serve(queue), &error);
            }
        }
    }

    /// Serves a queue that something stood in the way of.
    pub(crate) fn serve_again(&self, queue: Queue) -> Result<(), Error> {
        let mut more = VecDeque::new();
        let served = self.serve_queue(queue, &mut more);
        self.serve(more);
        served
    }

    /// Gives the clients of a queue what its key has for them, one after the
    /// other.
    fn serve_queue(&self, queue: Queue, more: &mut VecDeque<Queue>) -> Result<(), Error> {
        let mut passed = 0;
        let mut last = Vec::new();
        // The kinds of tickets that nothing is left for.
        let mut settled = [false; 4];
        loop {
            let tickets = self.read_marked(ShardSet::one(queue.shard), |reader| {
                reader.queue(queue, passed, LOOK)
            })?;
            // The same again would be damage: each was passed over, or left.
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
                        // Who looks for less room has none, and another may have it.
                        settled[ticket.kind()] = ticket.kind() != FOR_ROOM;
                    }
                    Progress::Reads(record) => readers.push((ticket, record)),
                }
            }
            passed += self.serve_readers(queue, &readers, more)?;
            if settled[TAKES] || settled != [false; 4] && last.iter().all(|ticket| ticket.looks()) {
                // One of another kind that is further behind looks for itself when it tends.
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
            // Its owner has just left.
            return Ok(Progress::Gone);
        };
        // Entries stay in their stream, so it does no harm to give them to a dead process, which costs less than to ask.
        let reads = matches!(record.take, Take::Entries { .. });
        // Who is dead is asked without a lock (W9), and stays so.
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
            // It was answered a moment ago, and those behind it have moved up.
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
            // Who waits with a group is told that the stream is gone.
            _ if matches!(record.take, Take::Deliver { .. }) => {}
            None => return Ok(Progress::Nothing),
            // No lock is taken for it.
            Some(there) if there != record.take.value_type() => return Ok(Progress::Passed),
            Some(_) => {}
        }
        if record.take.is_of_stream() {
            // Many may wait for other entries than there are: no lock is taken for them.
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

    /// Wakes a client that looks, where there is something for it.
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
            // The key holds something else: whoever looks is told so.
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
            // It was read from a list, of which nothing else is known here.
            return Err(Error::from(Fault {
                at: 0,
                what: "tickets of waiting clients in shards that are there",
            }));
        }
        self.read_marked(ShardSet::one(ticket.home()), |reader| reader.waiter(ticket))
    }

    /// Removes the ticket of a dead process, unless what was taken for it has
    /// nowhere to go.
    pub(super) fn end_dead(&self, ticket: Ticket) -> Result<Noticed, Error> {
        let (_, noticed) = self.end_noticing(ticket, Ending::GiveBack)?;
        Ok(noticed)
    }

    /// Ends a wait from the waiter's side.
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
    ) -> Result<(Option<Answer>, Noticed), Error> {
        let Some(record) = self.waiter(ticket)? else {
            return Ok((None, Noticed::default()));
        };
        if record.waits() && ending == Ending::Collect {
            return Ok((None, Noticed::default()));
        }
        // Once it is answered it names no other keys than before.
        let (answer, mut noticed) = self.write_marked(record.shards(self, ticket), |writer| {
            let Some(record) = writer.waiter(ticket)? else {
                return Ok(None);
            };
            if ending == Ending::GiveBack && !writer.put_back(ticket, &record)? {
                // Whoever finds it where the key holds its type again puts it
                // back, though this process may live.
                writer.disown(ticket, &record)?;
                return Ok(None);
            }
            writer.forget_waiter(ticket, &record)?;
            Ok(record.answer())
        })?;
        if ending == Ending::GiveBack && answer == Some(Answer::Ready) {
            // Who was woken does nothing any more: the next one is to be woken.
            let keys = record.queued().into_iter().map(|key| self.key(key));
            keys.for_each(|key| noticed.add(Queue::of(record.database, &key)));
        }
        Ok((answer, noticed))
    }

    /// Ends a wait from outside, as if its time were up, or with an error.
    /// Returns whether it had not ended yet.
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

    /// Takes what is wanted where it is there and nobody waits for it already.
    pub(super) fn take_at_once(&self, wanted: &Wanted<'_>) -> Result<Option<Answer>, Error> {
        let keys: Vec<_> = wanted.named().iter().map(|key| self.key(key)).collect();
        self.write(self.shards_of(&keys), |writer| {
            writer.take_unless_queued(wanted).map(|(answer, _)| answer)
        })
    }

    /// Looks after a queue: whether a writer died before it served it. What is in
    /// the mailboxes of the dead goes back by the look alone. Returns whether the key is there.
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

    /// Tells a client that waits with a group of a key that is not there, whoever stands in front of it: the key has
    /// expired, which is nobody's doing, or whoever removed it died before it served the queue.
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

    /// Looks for a client that looks, whoever stands in front of it.
    pub(super) fn tend_look(&self, ticket: Ticket) -> Result<(), Error> {
        if let Some(record) = self.waiter(ticket)?
            && let Some(look) = record.look()
            && record.waits()
        {
            self.serve_look(ticket, &record, look)?;
        }
        Ok(())
    }

    /// Ends the wait of a client that is gone; later, where something stands in
    /// the way now. Returns whether it has ended.
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

    /// Everybody who waits, the dead included: what for and how it ended, and
    /// what is in the mailbox. For tests.
    #[doc(hidden)]
    pub fn waits(&self) -> Result<Vec<(String, Items)>, Error> {
        let mut waits = Vec::new();
        for ticket in self.tickets()? {
            let Some(record) = self.waiter(ticket)? else {
                continue;
            };
            let given = match (record.answer(), record.take) {
                // What was moved is where it was to go.
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
