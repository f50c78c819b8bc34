//! Changes the queues, the records and the lists of answers.

use undercroft_memory::SeatName;

use super::record::{Ticket, TicketRecord};
use super::{Answer, Take, Taken, Wanted};
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{ANSWERED, QUEUES, TICKETS, WAITERS};
use crate::transaction::notice::Queue;
use crate::transaction::writer::{Expiry, Writer};
use crate::types::list::End;
use crate::types::sorted::Scored;

/// The outcome of trying one key for a waiting client.
pub(super) enum Offer {
    /// The key does not exist.
    Nothing,
    /// The key holds a different type than the client requested.
    OtherType,
    /// The key has nothing for this client, but may have something for another client.
    NotYet,
    /// The client's wait is over.
    Answer(Answer),
}

impl Store {
    /// Returns the shard that contains the records of the clients that wait at a seat (a process's
    /// futex slot).
    pub(super) fn home_of(&self, seat: SeatName) -> usize {
        self.key(&seat.bits().to_le_bytes()).shard
    }
}

impl Reader<'_, '_> {
    pub(super) fn waiter(&self, ticket: Ticket) -> Result<Option<TicketRecord>, Error> {
        let name = ticket.0.to_le_bytes();
        let key = self.store.hidden_key(ticket.home(), &name);
        match self.find(WAITERS, &key)? {
            None => Ok(None),
            Some(entry) => TicketRecord::load(self.view(), &entry).map(Some),
        }
    }

    /// Returns up to `most` tickets (ids of waits) from a queue, starting at position `from`.
    pub(super) fn queue(
        &self,
        queue: Queue,
        from: usize,
        most: usize,
    ) -> Result<Vec<Ticket>, Error> {
        let name = queue.name();
        let key = self.store.hidden_key(queue.shard, &name);
        let (mut items, from) = (Ranges::new(), from as i64);
        self.list_range(QUEUES, &key, (from, from + most as i64 - 1), &mut items)?;
        Ok(items.iter().filter_map(Ticket::from_bytes).collect())
    }

    /// Returns the tickets (ids of waits) of the first `most` answered clients of a seat.
    pub(super) fn answered(&self, seat: SeatName, most: usize) -> Result<Vec<Ticket>, Error> {
        let mut items = Ranges::new();
        let name = seat.bits().to_le_bytes();
        let key = self.store.key(&name);
        self.list_range(ANSWERED, &key, (0, most as i64 - 1), &mut items)?;
        Ok(items.iter().filter_map(Ticket::from_bytes).collect())
    }

    pub(super) fn has_answers(&self, seat: SeatName) -> Result<bool, Error> {
        let name = seat.bits().to_le_bytes();
        Ok(self.find(ANSWERED, &self.store.key(&name))?.is_some())
    }
}

impl Writer<'_, '_> {
    pub(super) fn waiter(&mut self, ticket: Ticket) -> Result<Option<TicketRecord>, Error> {
        let name = ticket.0.to_le_bytes();
        let key = self.store.hidden_key(ticket.home(), &name);
        match self.find(WAITERS, &key)? {
            None => Ok(None),
            Some(entry) => TicketRecord::load(self.view(), &entry).map(Some),
        }
    }

    /// Returns whether a client has no answer yet. A record changes only when it is answered.
    pub(super) fn still_waits(&mut self, ticket: Ticket) -> Result<bool, Error> {
        let name = ticket.0.to_le_bytes();
        let key = self.store.hidden_key(ticket.home(), &name);
        match self.find(WAITERS, &key)? {
            None => Ok(false),
            Some(entry) => TicketRecord::is_waiting(self.view(), &entry),
        }
    }

    /// Stores a client's encoded record under its ticket (the id of its wait).
    fn put_waiter(&mut self, ticket: Ticket, encoded: &[u8]) -> Result<(), Error> {
        let name = ticket.0.to_le_bytes();
        let key = self.store.hidden_key(ticket.home(), &name);
        self.set_text(WAITERS, &key, encoded, Expiry::Never)
            .map(drop)
    }

    /// Returns whether any client is waiting for a key.
    pub(super) fn has_queue(&mut self, database: usize, key: &Key<'_>) -> Result<bool, Error> {
        let queue = Queue::of(database, key);
        let name = queue.name();
        let key = self.store.hidden_key(queue.shard, &name);
        Ok(self.has_queues(queue.shard) && self.find(QUEUES, &key)?.is_some())
    }

    /// Adds a client to the end of its keys' queues. The shards of the keys and of the client's
    /// seat (its process's futex slot) must be locked.
    pub(super) fn enqueue(&mut self, seat: SeatName, wanted: &Wanted<'_>) -> Result<Ticket, Error> {
        let home = self.store.home_of(seat);
        let number = self.view().root(home, TICKETS).wrapping_add(1);
        self.transaction.set_root(home, TICKETS, number)?;
        let ticket = Ticket::new(home, number, wanted.take);
        let record = TicketRecord::new(seat, wanted.database, wanted.take, wanted.keys);
        self.put_waiter(ticket, &record.encode())?;
        for key in record.queued() {
            let queue = Queue::of(wanted.database, &self.store.key(key));
            let name = queue.name();
            let key = self.store.hidden_key(queue.shard, &name);
            self.list_push(QUEUES, &key, End::Right, &[&ticket.0.to_le_bytes()], false)?;
        }
        Ok(ticket)
    }

    /// Removes the tickets (ids of waits) of several clients from a queue, in a single operation if
    /// they are at the front.
    pub(super) fn leave_queue(&mut self, queue: Queue, tickets: &[Ticket]) -> Result<(), Error> {
        let name = queue.name();
        let key = self.store.hidden_key(queue.shard, &name);
        let (mut first, last) = (Ranges::new(), tickets.len() as i64 - 1);
        if tickets.len() > 1 {
            self.reader()
                .list_range(QUEUES, &key, (0, last), &mut first)?;
        }
        if first
            .iter()
            .map(Ticket::from_bytes)
            .eq(tickets.iter().copied().map(Some))
        {
            let count = tickets.len() as u64;
            self.list_pop(QUEUES, &key, End::Left, count, &mut Ranges::new())?;
            return Ok(());
        }
        for ticket in tickets {
            self.list_remove(QUEUES, &key, 1, &ticket.0.to_le_bytes())?;
        }
        Ok(())
    }

    /// Removes a client's ticket (the id of its wait) from all queues that contain it.
    pub(super) fn leave_queues(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
    ) -> Result<(), Error> {
        for key in record.queued() {
            let queue = Queue::of(record.database, &self.store.key(key));
            let name = queue.name();
            let key = self.store.hidden_key(queue.shard, &name);
            self.list_remove(QUEUES, &key, 1, &ticket.0.to_le_bytes())?;
        }
        Ok(())
    }

    /// Performs a client's operation on one of its keys, if the key has something for it.
    pub(super) fn offer(
        &mut self,
        database: usize,
        key: &[u8],
        destination: Option<&[u8]>,
        take: Take,
    ) -> Result<Offer, Error> {
        let hashed = self.store.key(key);
        let Some(entry) = self.find(database, &hashed)? else {
            return Ok(Offer::Nothing);
        };
        if entry.value_type()? != take.value_type() {
            return Ok(Offer::OtherType);
        }
        let mut taken = Taken {
            key: key.to_vec(),
            ..Taken::default()
        };
        match take {
            Take::Items { end, count } => {
                self.list_pop(database, &hashed, end, count, &mut taken.items)?;
            }
            Take::Scored { highest, count } => {
                let mut members = Scored::new();
                self.sorted_pop(database, &hashed, highest, count, &mut members)?;
                taken.scores = members.iter().map(|(_, score)| score).collect();
                taken.items = members.members().clone();
            }
            Take::Move { from, to } => {
                let destination = self.store.key(destination.unwrap_or(key));
                let (from, to) = ((&hashed, from), (&destination, to));
                match self.list_move(database, from, to, &mut taken.items) {
                    // The type is checked before anything changes, so this answer requires no
                    // rollback.
                    Err(Error::WrongType) => return Ok(Offer::Answer(Answer::WrongType)),
                    moved => moved?,
                };
            }
            // Clients that wait for a condition get no offer, and `offer_entries` handles streams.
            Take::Look(_) | Take::Entries { .. } | Take::Deliver { .. } => {
                return Ok(Offer::Nothing);
            }
        }
        Ok(Offer::Answer(Answer::Taken(taken)))
    }

    /// Ends a wait by storing an answer for the client to read. Removes the client's ticket from
    /// its queues, and records the mailbox if items were removed from a key.
    pub(super) fn answer(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
        answer: &Answer,
    ) -> Result<(), Error> {
        self.leave_queues(ticket, record)?;
        let answered = record.answered(answer);
        self.note_mailbox(ticket, &answered)?;
        self.put_answer(ticket, record.seat, &answered.encode())
    }

    /// Stores the encoded record of an answered client, and adds the client's ticket to the list of
    /// answered tickets of its seat (its process's futex slot).
    pub(super) fn put_answer(
        &mut self,
        ticket: Ticket,
        seat: SeatName,
        encoded: &[u8],
    ) -> Result<(), Error> {
        self.put_waiter(ticket, encoded)?;
        let name = seat.bits().to_le_bytes();
        let key = self.store.key(&name);
        let ticket = ticket.0.to_le_bytes();
        self.list_push(ANSWERED, &key, End::Right, &[&ticket], false)
            .map(drop)
    }

    /// Removes the record of a client's wait and all references to it.
    pub(super) fn forget_waiter(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
    ) -> Result<(), Error> {
        match record.waits() {
            true => self.leave_queues(ticket, record)?,
            false => self.forget_mailbox(ticket, record)?,
        }
        self.leave_answered(ticket, record)?;
        let name = ticket.0.to_le_bytes();
        let key = self.store.hidden_key(ticket.home(), &name);
        self.remove(WAITERS, &key)?;
        Ok(())
    }

    /// Removes a client's ticket from the list of answered tickets of its seat (its process's futex
    /// slot).
    fn leave_answered(&mut self, ticket: Ticket, record: &TicketRecord) -> Result<(), Error> {
        if !record.waits() && record.seat != SeatName::NOBODY {
            let name = record.seat.bits().to_le_bytes();
            let key = self.store.key(&name);
            self.list_remove(ANSWERED, &key, 1, &ticket.0.to_le_bytes())?;
        }
        Ok(())
    }

    /// Removes the owner of an answered client's record, so that any process can recover the record
    /// as if the owner had died.
    pub(super) fn disown(&mut self, ticket: Ticket, record: &TicketRecord) -> Result<(), Error> {
        if record.seat == SeatName::NOBODY {
            return Ok(());
        }
        self.leave_answered(ticket, record)?;
        self.disown_mailbox(ticket, record)?;
        self.put_waiter(ticket, &record.disowned().encode())
    }
}
