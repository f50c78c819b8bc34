//! Implements groups and their consumers, which record the entries that were delivered to each
//! consumer.
//!
//! ```text
//! the record of a group:
//! | the last delivered ID, 2 words | entries read, or -1 | pending entries: root, rows, levels |
//! | consumers: root, rows, levels | length of its name | name |
//! the record of a consumer:
//! | when it was last seen | when it last received an entry | its pending entries: root, rows, levels |
//! | length of its name | name |
//! ```
//!
//! A pending entry has two rows: one in the tree of its group, which refers to the consumer, and
//! one in the tree of the consumer.

use undercroft_memory::{Offset, Pool, Transaction, View};

use super::id::StreamId;
use super::rows::{self, FoundRow, Kind, Row, Rows, append_name, name_row, order_of_name};
use crate::error::Error;

const READ: u64 = 16;
const PENDING: u64 = 24;
const CONSUMERS: u64 = 48;
const OWN: u64 = 16;
/// The value of a group's `read` field if the number of entries read is unknown.
pub(super) const UNKNOWN: i64 = -1;

/// The number of bits in a time, and also in a consumer's offset, which is stored in units of 8
/// bytes.
const LOW_BITS: u32 = 44;
const LOW: u64 = (1 << LOW_BITS) - 1;
/// The maximum delivery count. The count stops increasing at this value.
const DELIVERIES_MAX: u64 = (1 << 40) - 1;

/// A pending entry, which was delivered but has not been acknowledged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) id: StreamId,
    /// The offset of the consumer's record.
    pub(super) consumer: Offset,
    /// The time of the entry's last delivery, in Unix milliseconds.
    pub(super) time: u64,
    /// The number of times that the entry was delivered.
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

/// A group with its decoded record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) at: Offset,
    pub(super) last: StreamId,
    /// The number of entries read since the start of the stream, or [`UNKNOWN`].
    pub(super) read: i64,
    pub(super) pool: Pool,
}

/// A consumer with its decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Consumer {
    pub(super) at: Offset,
    /// The time at which the consumer was last seen, in Unix milliseconds.
    pub(super) seen: u64,
    pub(super) pool: Pool,
}

/// Creates a record that consists of `words`, followed by a name.
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

    /// Returns the words of a group's record, given the root words of its two trees.
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

    /// Sets the last delivered ID and the number of entries read.
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

    /// Returns the row of the consumer with this name, or `None` if it does not exist.
    pub(super) fn find_consumer(
        &self,
        view: &View<'_>,
        name: &[u8],
    ) -> Result<Option<FoundRow>, Error> {
        self.consumers(view)?
            .find(view, |key| order_of_name(view, Kind::Consumers, key, name))
    }

    /// Returns the consumer with this name, or `None` if it does not exist.
    pub(super) fn consumer(&self, view: &View<'_>, name: &[u8]) -> Result<Option<Consumer>, Error> {
        match self.find_consumer(view, name)? {
            Some(found) => Consumer::load(view, found.row[1], self.pool).map(Some),
            None => Ok(None),
        }
    }

    /// Creates a consumer. The group must not have a consumer with this name.
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

    /// Removes a pending entry from the group and from its consumer. Returns whether the entry was
    /// pending.
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

    /// Makes an entry pending for a consumer, and removes it from the previous consumer's pending
    /// entries.
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

    /// Returns the words of a consumer's record.
    pub(super) fn words(seen: u64, active: u64, own: [u64; 3]) -> [u64; 5] {
        [seen, active, own[0], own[1], own[2]]
    }

    /// Returns the time at which the consumer last received an entry, in Unix milliseconds.
    pub(super) fn active(&self, view: &View<'_>) -> Result<u64, Error> {
        Ok(view.word(self.at.wrapping_add(8))?)
    }

    pub(super) fn own(&self, view: &View<'_>) -> Result<Rows, Error> {
        Rows::load(view, self.at.wrapping_add(OWN), Kind::Own, self.pool)
    }

    /// Records that the consumer was last seen at `now`.
    pub(super) fn see(&mut self, transaction: &mut Transaction<'_>, now: u64) -> Result<(), Error> {
        if self.seen != now {
            self.seen = now;
            transaction.store(self.pool.shard(), self.at, now)?;
        }
        Ok(())
    }

    /// Removes an entry from the consumer's pending entries.
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
