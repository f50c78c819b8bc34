//! Items in the mailboxes of clients that died are put back: until a living client
//! has taken an item, it belongs to its key (M5).
//!
//! For each database each shard has a list of the mailboxes that hold something
//! of its keys, in the order in which they were filled: a ticket and the seat of
//! its owner each. While there is one the shard has a mark, a bit for each such
//! database, and nobody reads or changes the shard, for whatever purpose, before
//! he has [looked after](Store::look_after) these mailboxes: what is in those of
//! the dead goes back first. So no command has to know of them.

use std::collections::VecDeque;

use undercroft_memory::{SeatName, ShardSet, coarse_milliseconds};

use super::record::{Ticket, TicketRecord};
use super::{Answer, Take};
use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{DATABASES, QUEUES};
use crate::transaction::writer::Writer;
use crate::types::limits::PackedLimits;
use crate::types::list::End;
use crate::types::sorted::AddRule;

/// In a name among those of the queues, beside the database: a list of
/// mailboxes.
const MAILBOXES: u64 = 1 << 32;
/// Mailboxes looked at at once.
const LOOK: usize = 256;

fn name_of(database: usize) -> [u8; 16] {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&(database as u64 | MAILBOXES).to_le_bytes());
    name
}

fn packed(ticket: Ticket, seat: SeatName) -> [u8; 16] {
    let mut item = [0; 16];
    item[..8].copy_from_slice(&ticket.0.to_le_bytes());
    item[8..].copy_from_slice(&seat.bits().to_le_bytes());
    item
}

fn unpacked(item: &[u8]) -> Option<(Ticket, SeatName)> {
    let (ticket, seat) = item.split_first_chunk::<8>()?;
    let seat = u64::from_le_bytes(seat.try_into().ok()?);
    Some((
        Ticket(u64::from_le_bytes(*ticket)),
        SeatName::from_bits(seat),
    ))
}

impl Reader<'_, '_> {
    /// The filled mailboxes of a shard's keys in one database, from a position
    /// on, up to so many.
    fn mailboxes(
        &self,
        shard: usize,
        database: usize,
        from: usize,
    ) -> Result<Vec<(Ticket, SeatName)>, Error> {
        let name = name_of(database);
        let key = self.store.hidden_key(shard, &name);
        let (mut items, from) = (Ranges::new(), from as i64);
        self.list_range(QUEUES, &key, (from, from + LOOK as i64 - 1), &mut items)?;
        Ok(items.iter().filter_map(unpacked).collect())
    }

    /// All filled mailboxes of a shard's keys; of one database in the order in
    /// which they were filled.
    pub(super) fn all_mailboxes(&self, shard: usize) -> Result<Vec<(Ticket, SeatName)>, Error> {
        let mark = self.view().mark(shard);
        let mut all = Vec::new();
        for database in (0..DATABASES).filter(|database| mark >> database & 1 != 0) {
            let mut from = 0;
            loop {
                let some = self.mailboxes(shard, database, from)?;
                from += some.len();
                all.extend_from_slice(&some);
                // R3: a torn list may seem to have no end.
                self.view().recheck()?;
                if some.len() < LOOK {
                    break;
                }
            }
        }
        Ok(all)
    }
}

impl Writer<'_, '_> {
    fn mailboxes_key<'k>(&self, record: &TicketRecord, name: &'k [u8]) -> Option<Key<'k>> {
        let shard = self.store.key(record.source()?).shard;
        Some(self.store.hidden_key(shard, name))
    }

    /// Notes that a client was given something of a key, which is marked so.
    pub(super) fn note_mailbox(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
    ) -> Result<(), Error> {
        let name = name_of(record.database);
        let Some(key) = self.mailboxes_key(record, &name) else {
            return Ok(());
        };
        let item = packed(ticket, record.seat);
        self.list_push(QUEUES, &key, End::Right, &[&item], false)?;
        let mark = self.view().mark(key.shard);
        let with = mark | 1 << record.database;
        if with != mark {
            self.transaction.set_mark(key.shard, with)?;
        }
        Ok(())
    }

    /// What is in a mailbox does not belong to its key any more.
    pub(super) fn forget_mailbox(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
    ) -> Result<(), Error> {
        let name = name_of(record.database);
        let Some(key) = self.mailboxes_key(record, &name) else {
            return Ok(());
        };
        self.list_remove(QUEUES, &key, 1, &packed(ticket, record.seat))?;
        if self.find(QUEUES, &key)?.is_none() {
            self.clear_mark(key.shard, record.database)?;
        }
        Ok(())
    }

    fn clear_mark(&mut self, shard: usize, database: usize) -> Result<(), Error> {
        let mark = self.view().mark(shard);
        let without = mark & !(1 << database);
        if without != mark {
            self.transaction.set_mark(shard, without)?;
        }
        Ok(())
    }

    /// The place of a mailbox among those of its shard, if what is in it still
    /// belongs to its key.
    pub(super) fn mailbox(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
    ) -> Result<Option<usize>, Error> {
        let Some(source) = record.source() else {
            return Ok(None);
        };
        let shard = self.store.key(source).shard;
        let mut from = 0;
        loop {
            let some = self.reader().mailboxes(shard, record.database, from)?;
            if let Some(place) = some.iter().position(|(other, _)| *other == ticket) {
                return Ok(Some(from + place));
            }
            if some.len() < LOOK {
                return Ok(None);
            }
            from += some.len();
        }
    }

    /// Makes a mailbox one of nobody, in its place.
    pub(super) fn disown_mailbox(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
    ) -> Result<(), Error> {
        let name = name_of(record.database);
        if let Some(place) = self.mailbox(ticket, record)?
            && let Some(key) = self.mailboxes_key(record, &name)
        {
            let item = packed(ticket, SeatName::NOBODY);
            self.list_set(QUEUES, &key, place as i64, &item)?;
        }
        Ok(())
    }

    /// A database was flushed: what is in mailboxes does not belong to its keys
    /// any more.
    pub(crate) fn forget_mailboxes(&mut self, shard: usize, database: usize) -> Result<(), Error> {
        if self.view().mark(shard) >> database & 1 == 0 {
            return Ok(());
        }
        let name = name_of(database);
        let key = self.store.hidden_key(shard, &name);
        self.remove(QUEUES, &key)?;
        self.clear_mark(shard, database)
    }
}

impl Store {
    /// Looks after the marked shards: gives what is in the mailboxes of the dead
    /// back to its keys, or to who waits for it. To be called where a read or a
    /// write was refused for a mark, before it is tried again.
    ///
    /// # Errors
    /// A lock that cannot be had.
    #[cold]
    pub(crate) fn look_after(&self) -> Result<(), Error> {
        let began = coarse_milliseconds();
        let marked = (0..self.shards()).filter(|&shard| self.segment.needs_look(shard));
        let marked: Vec<usize> = marked.collect();
        let looked = marked
            .iter()
            .try_for_each(|&shard| self.look_after_shard(shard, began));
        if looked.is_ok() {
            // The looks at all of them took their time.
            for &shard in &marked {
                self.segment.looked_after(shard, began);
            }
        }
        looked
    }

    fn look_after_shard(&self, shard: usize, began: u64) -> Result<(), Error> {
        let mut served = VecDeque::new();
        if self.writable() {
            let filled =
                self.read_marked(ShardSet::one(shard), |reader| reader.all_mailboxes(shard));
            // A damaged list keeps nobody from the keys.
            let filled = match filled {
                Err(error) if error.is_wait() => return Err(error),
                filled => filled.unwrap_or_default(),
            };
            let mut asked: Vec<(SeatName, bool)> = Vec::new();
            let mut lives = |seat: SeatName| match asked.iter().find(|(known, _)| *known == seat) {
                Some((_, lives)) => *lives,
                None => {
                    // Without a lock (W9); who is dead stays so.
                    let lives = self.segment.seat_lives_now(seat);
                    asked.push((seat, lives));
                    lives
                }
            };
            let dead = filled.into_iter().filter(|(_, seat)| !lives(*seat));
            let dead: Vec<Ticket> = dead.map(|(ticket, _)| ticket).collect();
            // What was given last goes back first: all is in its order again.
            for ticket in dead.into_iter().rev() {
                match self.end_dead(ticket) {
                    Ok(noticed) => served.extend(noticed.queues),
                    Err(error) if error.is_wait() => return Err(error),
                    // Damage, or no memory: it stays where it is.
                    Err(_) => {}
                }
            }
        }
        self.segment.looked_after(shard, began);
        self.serve(served);
        Ok(())
    }
}

impl Writer<'_, '_> {
    /// Puts what was taken for a client back to where it was, unless it was
    /// flushed since. Returns false where that cannot be, as the key holds
    /// another type now.
    pub(super) fn put_back(
        &mut self,
        ticket: Ticket,
        record: &TicketRecord,
    ) -> Result<bool, Error> {
        let Some(Answer::Taken(taken)) = record.answer() else {
            return Ok(true);
        };
        if self.mailbox(ticket, record)?.is_none() {
            return Ok(true);
        }
        let key = self.store.key(&taken.key);
        let result = match record.take {
            // What was moved is where it was to go, who looks was given nothing, and entries stay in their stream.
            Take::Move { .. } | Take::Look(_) | Take::Entries { .. } | Take::Deliver { .. } => {
                return Ok(true);
            }
            Take::Items { end, .. } => {
                // The item that was taken last goes back first.
                let mut items: Vec<&[u8]> = taken.items.iter().collect();
                items.reverse();
                self.list_push(record.database, &key, end, &items, false)
                    .map(drop)
            }
            Take::Scored { .. } => {
                let scores = taken.scores.iter().copied();
                let members: Vec<(&[u8], f64)> = taken.items.iter().zip(scores).collect();
                // A member that was added meanwhile is the newer one.
                let rule = AddRule {
                    only_new: true,
                    ..AddRule::default()
                };
                let limits = PackedLimits::SORTED_SET;
                self.sorted_add(record.database, &key, &members, rule, &limits)
                    .map(drop)
            }
        };
        match result {
            Ok(()) => Ok(true),
            Err(Error::WrongType) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
