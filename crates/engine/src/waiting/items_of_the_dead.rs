//! Recovers items from the mailboxes of dead clients. A mailbox is a waiting client's record in the
//! store. An item in a mailbox belongs to its key until the client, while alive, has removed it
//! from the mailbox (M5).
//!
//! For each database, each shard has a list of the mailboxes that contain items of its keys, in the
//! order in which they were filled. A list entry consists of a ticket (the id of a wait) and its
//! owner's seat (its process's futex slot). While any mailbox is filled, the shard has a mark with
//! one bit for each such database. Before a process reads or changes a marked shard, it
//! [checks](Store::look_after) these mailboxes and returns the items of dead clients to their keys.
//! Commands therefore need no code for dead clients.

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

/// The flag that is added to the database number in the name of a hidden queue that lists mailboxes
/// (records of answered clients).
const MAILBOXES: u64 = 1 << 32;
/// The maximum number of mailboxes that one read returns.
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
    /// Returns up to `LOOK` filled mailboxes of a shard's keys in one database, starting at
    /// position `from` in the list.
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

    /// Returns all filled mailboxes (records with items for clients) of a shard's keys. Within each
    /// database, mailboxes are in the order in which they were filled.
    pub(super) fn all_mailboxes(&self, shard: usize) -> Result<Vec<(Ticket, SeatName)>, Error> {
        let mark = self.view().mark(shard);
        let mut all = Vec::new();
        for database in (0..DATABASES).filter(|database| mark >> database & 1 != 0) {
            let mut from = 0;
            loop {
                let some = self.mailboxes(shard, database, from)?;
                from += some.len();
                all.extend_from_slice(&some);
                // A torn list can appear endless, so revalidate the view (R3).
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

    /// Records that a client's mailbox (its record in the store) now contains items of a key, and
    /// marks the key's shard.
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

    /// Records that the items in a mailbox no longer belong to their key.
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

    /// Returns the position of a mailbox (the record of an answered client) in its shard's list, or
    /// `None` if its items no longer belong to their key.
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

    /// Removes the owner of a mailbox (the record of an answered client), but keeps the mailbox at
    /// its position in the list.
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

    /// Records that a database was flushed, so that items in mailboxes no longer belong to the keys
    /// of that database.
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
    /// Recovers the mailboxes (records of answered clients) of dead clients in marked shards.
    /// Returns the items to their keys, or gives them to the next waiters. Call this after a mark
    /// prevents a read or write, and before retrying it.
    ///
    /// # Errors
    /// Fails if a lock cannot be acquired.
    #[cold]
    pub(crate) fn look_after(&self) -> Result<(), Error> {
        let began = coarse_milliseconds();
        let marked = (0..self.shards()).filter(|&shard| self.segment.needs_look(shard));
        let marked: Vec<usize> = marked.collect();
        let looked = marked
            .iter()
            .try_for_each(|&shard| self.look_after_shard(shard, began));
        if looked.is_ok() {
            // Record the check of all shards again, because checking later shards may have taken so
            // long that the earlier records are stale.
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
            // A damaged list must not block access to the shard's keys.
            let filled = match filled {
                Err(error) if error.is_wait() => return Err(error),
                filled => filled.unwrap_or_default(),
            };
            let mut asked: Vec<(SeatName, bool)> = Vec::new();
            let mut lives = |seat: SeatName| match asked.iter().find(|(known, _)| *known == seat) {
                Some((_, lives)) => *lives,
                None => {
                    // Check liveness without a lock (W9): a dead process stays dead.
                    let lives = self.segment.seat_lives_now(seat);
                    asked.push((seat, lives));
                    lives
                }
            };
            let dead = filled.into_iter().filter(|(_, seat)| !lives(*seat));
            let dead: Vec<Ticket> = dead.map(|(ticket, _)| ticket).collect();
            // Process the newest mailbox first, so that the returned items restore the order of the
            // list.
            for ticket in dead.into_iter().rev() {
                match self.end_dead(ticket) {
                    Ok(noticed) => served.extend(noticed.queues),
                    Err(error) if error.is_wait() => return Err(error),
                    // The store is damaged or full, so leave the items in the client's record.
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
    /// Returns the items in a client's mailbox (its record) to their key, unless the key's database
    /// was flushed in the meantime. Returns false if the key now holds a different type.
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
            // A moved item is already at its destination, `Look` removes nothing, and entries
            // remain in their stream.
            Take::Move { .. } | Take::Look(_) | Take::Entries { .. } | Take::Deliver { .. } => {
                return Ok(true);
            }
            Take::Items { end, .. } => {
                // Push the last removed item first, to restore the order.
                let mut items: Vec<&[u8]> = taken.items.iter().collect();
                items.reverse();
                self.list_push(record.database, &key, end, &items, false)
                    .map(drop)
            }
            Take::Scored { .. } => {
                let scores = taken.scores.iter().copied();
                let members: Vec<(&[u8], f64)> = taken.items.iter().zip(scores).collect();
                // A member that was added in the meantime is newer, so it keeps its score.
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
