//! Groups and their consumers: what has been delivered, and to whom.
//!
//! ```text
//! the record of a group:
//! | the last delivered id, 2 words | entries read, or -1 | pending entries: root, rows, levels |
//! | consumers: root, rows, levels | length of its name | name |
//! the record of a consumer:
//! | when it was seen | when it was given something | its pending entries: root, rows, levels |
//! | length of its name | name |
//! ```
//!
//! A pending entry is a row of its group, which leads to its consumer, and a row of that.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::id::StreamId;
use super::rows::{self, FoundRow, Kind, Row, Rows, append_name, name_row, order_of_name};
use crate::error::Error;

const READ: u64 = 16;
const PENDING: u64 = 24;
const CONSUMERS: u64 = 48;
const OWN: u64 = 16;
/// Entries read, where nobody knows.
pub(super) const UNKNOWN: i64 = -1;

/// Bits of a consumer's offset in units of 8 bytes, and of a time.
const LOW_BITS: u32 = 44;
const LOW: u64 = (1 << LOW_BITS) - 1;
/// The most deliveries that are counted.
const DELIVERIES_MAX: u64 = (1 << 40) - 1;

/// A pending entry: delivered, and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) id: StreamId,
    /// Its consumer's record.
    pub(super) consumer: Offset,
    /// When it was delivered last, Unix milliseconds.
    pub(super) time: u64,
    /// How often it was.
    pub(super) deliveries: u64,
}

impl Pending {
    pub(super) fn of([ms, seq, one, other]: Row) -> Pending {
        Pending {
            id: StreamId { ms, seq },
            consumer: (one & LOW) * 8,
            time: other & LOW,
            deliveries: one >> LOW_BITS << 20 | other >> LOW_BITS,
        }
    }

    pub(super) fn row(&self) -> Row {
        let deliveries = self.deliveries.min(DELIVERIES_MAX);
        let [ms, seq] = self.id.words();
        [
            ms,
            seq,
            (self.consumer / 8) & LOW | deliveries >> 20 << LOW_BITS,
            self.time.min(LOW) | deliveries << LOW_BITS,
        ]
    }
}

/// A group whose record was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) at: Offset,
    pub(super) last: StreamId,
    /// Entries that were read since the stream's beginning, or [`UNKNOWN`].
    pub(super) read: i64,
    pub(super) pool: Pool,
}

/// A consumer whose record was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consumer {
    pub(super) at: Offset,
    /// When it was seen last, Unix milliseconds.
    pub(super) seen: u64,
    pub(super) pool: Pool,
}

/// Makes a record with a name behind its words.
pub(super) fn create_record(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    words: &[u64],
    name: &[u8],
) -> Result<Offset, Error> {
    let length = words.len() as u64 * 8 + 8 + name.len() as u64;
    let at = transaction.allocate(pool, length)?;
    let mut bytes = Vec::with_capacity(length as usize);
    for word in words.iter().chain([&(name.len() as u64)]) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(name);
    transaction.fill(at, &bytes)?;
    Ok(at)
}

impl Group {
    pub(super) fn load(view: &View<'_>, at: Offset, pool: Pool) -> Result<Group, Error> {
        let [ms, seq, read] = view.words::<3>(at)?;
        Ok(Group {
            at,
            last: StreamId { ms, seq },
            read: read as i64,
            pool,
        })
    }

    /// The words of the record of a group without consumers.
    pub(super) fn words(
        last: StreamId,
        read: i64,
        pending: [u64; 3],
        consumers: [u64; 3],
    ) -> [u64; 9] {
        let [one, two, three] = pending;
        let [four, five, six] = consumers;
        [
            last.ms,
            last.seq,
            read as u64,
            one,
            two,
            three,
            four,
            five,
            six,
        ]
    }

    /// Notes up to where entries were delivered.
    pub(super) fn set_last(
        &mut self,
        transaction: &mut Transaction<'_>,
        last: StreamId,
        read: i64,
    ) -> Result<(), Error> {
        let shard = self.pool.shard();
        for (at, old, new) in [
            (0, self.last.ms, last.ms),
            (8, self.last.seq, last.seq),
            (READ, self.read as u64, read as u64),
        ] {
            if old != new {
                transaction.store(shard, self.at + at, new)?;
            }
        }
        (self.last, self.read) = (last, read);
        Ok(())
    }

    pub(super) fn pending(&self, view: &View<'_>) -> Result<Rows, Error> {
        Rows::load(
            view,
            self.at.wrapping_add(PENDING),
            Kind::Pending,
            self.pool,
        )
    }

    pub(super) fn consumers(&self, view: &View<'_>) -> Result<Rows, Error> {
        Rows::load(
            view,
            self.at.wrapping_add(CONSUMERS),
            Kind::Consumers,
            self.pool,
        )
    }

    /// The consumer with a name, and its row.
    pub(super) fn find_consumer(
        &self,
        view: &View<'_>,
        name: &[u8],
    ) -> Result<Option<FoundRow>, Error> {
        self.consumers(view)?
            .find(view, |key| order_of_name(view, Kind::Consumers, key, name))
    }

    /// The consumer with a name.
    pub(super) fn consumer(&self, view: &View<'_>, name: &[u8]) -> Result<Option<Consumer>, Error> {
        match self.find_consumer(view, name)? {
            Some(found) => Consumer::load(view, found.row[1], self.pool).map(Some),
            None => Ok(None),
        }
    }

    /// Makes a consumer, which is not there yet.
    pub(super) fn create_consumer(
        &self,
        transaction: &mut Transaction<'_>,
        name: &[u8],
        (seen, active): (u64, u64),
    ) -> Result<Consumer, Error> {
        let words = Consumer::words(seen, active, [0; 3]);
        let at = create_record(transaction, self.pool, &words, name)?;
        let mut consumers = self.consumers(transaction.view())?;
        consumers.insert(transaction, &name_row(name, at), |view, key| {
            Ok(order_of_name(view, Kind::Consumers, key, name)?.is_lt())
        })?;
        let pool = self.pool;
        Ok(Consumer { at, seen, pool })
    }

    /// Takes a pending entry from the group and from its consumer. Returns whether it was there.
    pub(super) fn acknowledge(
        &self,
        transaction: &mut Transaction<'_>,
        id: StreamId,
    ) -> Result<bool, Error> {
        let mut pending = self.pending(transaction.view())?;
        let Some(found) = pending.find_key(transaction.view(), id.words())? else {
            return Ok(false);
        };
        let consumer = Pending::of(found.row).consumer;
        pending.remove(transaction, found)?;
        Consumer::load(transaction.view(), consumer, self.pool)?.forget(transaction, id)?;
        Ok(true)
    }

    /// Lets an entry be pending at a consumer, wherever it was before.
    pub(super) fn assign(
        &self,
        transaction: &mut Transaction<'_>,
        entry: &Pending,
    ) -> Result<(), Error> {
        let mut pending = self.pending(transaction.view())?;
        match pending.find_key(transaction.view(), entry.id.words())? {
            None => pending.insert_key(transaction, &entry.row())?,
            Some(found) => {
                let old = Pending::of(found.row).consumer;
                pending.set(transaction, &found, &entry.row())?;
                if old == entry.consumer {
                    return Ok(());
                }
                Consumer::load(transaction.view(), old, self.pool)?
                    .forget(transaction, entry.id)?;
            }
        }
        let consumer = Consumer::load(transaction.view(), entry.consumer, self.pool)?;
        let [ms, seq] = entry.id.words();
        consumer
            .own(transaction.view())?
            .insert_key(transaction, &[ms, seq, 0, 0])
    }
}

impl Consumer {
    pub(super) fn load(view: &View<'_>, at: Offset, pool: Pool) -> Result<Consumer, Error> {
        let seen = view.word(at)?;
        Ok(Consumer { at, seen, pool })
    }

    /// The words of a consumer's record.
    pub(super) fn words(seen: u64, active: u64, own: [u64; 3]) -> [u64; 5] {
        [seen, active, own[0], own[1], own[2]]
    }

    /// When it was given something last.
    pub(super) fn active(&self, view: &View<'_>) -> Result<u64, Error> {
        Ok(view.word(self.at.wrapping_add(8))?)
    }

    pub(super) fn own(&self, view: &View<'_>) -> Result<Rows, Error> {
        Rows::load(view, self.at.wrapping_add(OWN), Kind::Own, self.pool)
    }

    /// Notes that it was seen.
    pub(super) fn see(&mut self, transaction: &mut Transaction<'_>, now: u64) -> Result<(), Error> {
        if self.seen != now {
            self.seen = now;
            transaction.store(self.pool.shard(), self.at, now)?;
        }
        Ok(())
    }

    /// Takes an entry out of its own.
    pub(super) fn forget(
        &self,
        transaction: &mut Transaction<'_>,
        id: StreamId,
    ) -> Result<(), Error> {
        let mut own = self.own(transaction.view())?;
        match own.find_key(transaction.view(), id.words())? {
            Some(found) => own.remove(transaction, found),
            None => Err(rows::fault(self.at)),
        }
    }

    pub(super) fn append_name(&self, view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        append_name(view, Kind::Consumers, self.at, out)
    }
}
