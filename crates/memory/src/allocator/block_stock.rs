//! Blocks for what is made whole (W10): how many of each size are needed is
//! known before the first is taken, so that up to 64 of them come from a slab
//! with one entry in the log.

use crate::error::Error;
use crate::heap::pool::Pool;
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Missing;

/// Blocks of a pool that one transaction is about to need. Say of all of them
/// what they are to [hold](Stock::expect), [take](Stock::take) them, and then
/// [close](Stock::close) it.
pub struct Stock {
    pool: Pool,
    shelves: [Shelf; classes::COUNT],
    /// Bytes that are still to be taken in blocks that need pages of their own.
    large: u64,
}

/// Blocks of one size.
#[derive(Clone, Copy, Default)]
struct Shelf {
    /// Those that are still to be taken from slabs.
    wanted: u64,
    ready: TakenBlocks,
}

/// Blocks of a slab that one word of its bit map stands for.
#[derive(Clone, Copy, Default)]
pub(crate) struct TakenBlocks {
    /// Where the word's first block lies.
    pub(crate) first: Offset,
    /// Bytes of each.
    pub(crate) size: u64,
    /// Which of them were taken.
    pub(crate) bits: u64,
}

impl TakenBlocks {
    /// The next of the blocks.
    #[inline]
    fn next(&mut self) -> Option<Offset> {
        if self.bits == 0 {
            return None;
        }
        let block = u64::from(self.bits.trailing_zeros());
        self.bits &= self.bits - 1;
        Some(self.first + block * self.size)
    }
}

impl Stock {
    /// No blocks of a pool yet.
    pub fn new(pool: impl Into<Pool>) -> Stock {
        Stock {
            pool: pool.into(),
            shelves: [Shelf::default(); classes::COUNT],
            large: 0,
        }
    }

    /// The pool that the blocks belong to.
    pub fn pool(&self) -> Pool {
        self.pool
    }

    /// Counts on a block of at least so many bytes.
    #[inline]
    pub fn expect(&mut self, bytes: u64) {
        self.expect_many(bytes, 1);
    }

    /// Counts on so many blocks.
    pub fn expect_many(&mut self, bytes: u64, blocks: u64) {
        match classes::class_of(bytes) {
            Some(class) => self.shelves[class].wanted += blocks,
            None => self.large += bytes.next_multiple_of(PAGE) * blocks,
        }
    }

    /// Bytes of all that was expected and not taken.
    fn wanted(&self) -> u64 {
        let sizes = classes::SIZES.iter().map(|&size| u64::from(size));
        let slabs = self.shelves.iter().zip(sizes);
        let slabs = slabs.map(|(shelf, size)| shelf.wanted * size);
        slabs.sum::<u64>() + self.large
    }

    /// Has the transaction that ran short run again with room for all that is
    /// still wanted.
    #[cold]
    fn say_what_is_missing(&self, transaction: &mut Transaction<'_>) {
        transaction.rare().missing = Missing {
            shard: self.pool.shard(),
            bytes: self.wanted(),
        };
    }

    /// A block of at least so many bytes. One that was not expected, and one
    /// that needs pages of its own, is allocated by itself. O(1).
    #[inline]
    pub fn take(&mut self, transaction: &mut Transaction<'_>, bytes: u64) -> Result<Offset, Error> {
        let Some(class) = classes::class_of(bytes) else {
            let block = transaction
                .allocate(self.pool, bytes)
                .inspect_err(|_| self.say_what_is_missing(transaction))?;
            self.large = self.large.saturating_sub(bytes.next_multiple_of(PAGE));
            return Ok(block);
        };
        loop {
            let shelf = &mut self.shelves[class];
            if let Some(at) = shelf.ready.next() {
                return Ok(at);
            }
            let wanted = shelf.wanted;
            if wanted == 0 {
                return transaction.allocate(self.pool, bytes);
            }
            let ready = transaction
                .allocate_some(self.pool, bytes, wanted)
                .inspect_err(|_| self.say_what_is_missing(transaction))?;
            let taken = u64::from(ready.bits.count_ones());
            self.shelves[class] = Shelf {
                wanted: wanted.saturating_sub(taken),
                ready,
            };
        }
    }

    /// Gives back what was expected and not taken.
    pub fn close(mut self, transaction: &mut Transaction<'_>) {
        for shelf in &mut self.shelves {
            while let Some(at) = shelf.ready.next() {
                transaction.free(self.pool, at);
            }
        }
    }
}
