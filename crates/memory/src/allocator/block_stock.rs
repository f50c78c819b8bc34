//! Allocates the blocks for a structure that is built in one step (W10). The number of blocks of
//! each size is known in advance, so up to 64 blocks are allocated from a slab with one log entry.

use crate::error::Error;
use crate::heap::pool::Pool;
use crate::mapped::classes;
use crate::mapped::layout::{Offset, PAGE};
use crate::transactions::Transaction;
use crate::transactions::rare_state::Missing;

/// A stock of blocks from one pool that a transaction is about to need. First
/// [announce](BlockStock::expect) the size of every block, then [take](BlockStock::take) the
/// blocks, and finally [close](BlockStock::close) the stock.
pub struct BlockStock {
    pool: Pool,
    class_stocks: [ClassStock; classes::COUNT],
    /// The total size of the announced page-sized and larger blocks that have not been taken yet,
    /// in bytes.
    large: u64,
}

/// The blocks of one size class.
#[derive(Clone, Copy, Default)]
struct ClassStock {
    /// The number of announced blocks that have not been allocated from slabs yet.
    wanted: u64,
    ready: TakenBlocks,
}

/// Blocks allocated from one slab, all covered by one word of its bitmap.
#[derive(Clone, Copy, Default)]
pub(crate) struct TakenBlocks {
    /// The offset of the first block that the bitmap word covers.
    pub(crate) first: Offset,
    /// The size of each block, in bytes.
    pub(crate) size: u64,
    /// One bit for each allocated block that has not been removed yet.
    pub(crate) bits: u64,
}

impl TakenBlocks {
    /// Removes and returns the next block.
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

impl BlockStock {
    /// Creates an empty stock of blocks from a pool.
    pub fn new(pool: impl Into<Pool>) -> BlockStock {
        BlockStock {
            pool: pool.into(),
            class_stocks: [ClassStock::default(); classes::COUNT],
            large: 0,
        }
    }

    /// Returns the pool to which the blocks belong.
    pub fn pool(&self) -> Pool {
        self.pool
    }

    /// Announces one block of at least `bytes` bytes.
    #[inline]
    pub fn expect(&mut self, bytes: u64) {
        self.expect_many(bytes, 1);
    }

    /// Announces `blocks` blocks of at least `bytes` bytes each.
    pub fn expect_many(&mut self, bytes: u64, blocks: u64) {
        match classes::class_of(bytes) {
            Some(class) => self.class_stocks[class].wanted += blocks,
            None => self.large += bytes.next_multiple_of(PAGE) * blocks,
        }
    }

    /// Returns the total size, in bytes, of all blocks that were announced but not yet taken.
    fn wanted(&self) -> u64 {
        let sizes = classes::SIZES.iter().map(|&size| u64::from(size));
        let slabs = self.class_stocks.iter().zip(sizes);
        let slabs = slabs.map(|(shelf, size)| shelf.wanted * size);
        slabs.sum::<u64>() + self.large
    }

    /// Records in a transaction that ran out of memory how much memory its next attempt needs for
    /// all announced blocks.
    #[cold]
    fn say_what_is_missing(&self, transaction: &mut Transaction<'_>) {
        transaction.rare().missing = Missing {
            shard: self.pool.shard(),
            bytes: self.wanted(),
        };
    }

    /// Allocates a block of at least `bytes` bytes. Unannounced blocks and blocks of a page or more
    /// are allocated individually. O(1).
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
            let shelf = &mut self.class_stocks[class];
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
            self.class_stocks[class] = ClassStock {
                wanted: wanted.saturating_sub(taken),
                ready,
            };
        }
    }

    /// Frees the blocks that were allocated but not taken.
    pub fn close(mut self, transaction: &mut Transaction<'_>) {
        for shelf in &mut self.class_stocks {
            while let Some(at) = shelf.ready.next() {
                transaction.free(self.pool, at);
            }
        }
    }
}
