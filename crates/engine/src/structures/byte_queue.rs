//! A queue of bytes in a shard, in a chain of blocks. Bytes are appended at the end and dropped from
//! the start, and each byte keeps its position: the number of bytes that were appended before it.
//!
//! ```text
//! root words   | first block | last block | position of the end | position of the start |
//!
//! block        | next block, or 0 | position of the first byte | size in bytes | bytes ... |
//! ```
//!
//! The bytes before the start that are still in the first block, and the space after the end of the
//! last block, are unused. A queue exists if it has a first block.

use undercroft_memory::{Fault, Offset, Transaction, View};

use crate::error::Error;
use crate::structures::check::Check;
use crate::structures::roots::BACKLOG;

/// The number of root words of a queue.
pub(crate) const QUEUE_WORDS: usize = 4;
const FIRST: usize = 0;
const LAST: usize = 1;
const END: usize = 2;
const START: usize = 3;

const NEXT: u64 = 0;
const POSITION: u64 = 8;
const SIZE: u64 = 16;
/// The number of bytes before the bytes of the queue in a block.
const HEADER: u64 = 24;

/// The maximum number of blocks that one call of [`ByteQueue::drop_before`] frees.
const FREED_AT_ONCE: usize = 256;
/// The maximum number of blocks that a walk visits. A torn chain can have a cycle (R3).
const VISITED_MAX: usize = 1 << 22;

/// Identifies a queue by its shard and its first root word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteQueue {
    pub(crate) shard: usize,
    /// The index of the first of the queue's root words.
    pub(crate) root: usize,
    /// The size of a block, unless the appended bytes need a larger one.
    pub(crate) block: u64,
}

/// The backlog: the stream of changes that was most recently sent to replicas.
pub(crate) const BACKLOG_QUEUE: ByteQueue = ByteQueue {
    shard: 0,
    root: BACKLOG,
    block: 16384,
};

impl ByteQueue {
    #[inline(always)]
    fn word(self, view: &View<'_>, word: usize) -> u64 {
        view.root(self.shard, self.root + word)
    }

    fn set(self, transaction: &mut Transaction<'_>, word: usize, value: u64) -> Result<(), Error> {
        Ok(transaction.set_root(self.shard, self.root + word, value)?)
    }

    /// Returns the number of bytes for which an ordinary block has space.
    pub(crate) fn capacity(self) -> usize {
        (self.block - HEADER) as usize
    }

    /// Returns whether the queue exists.
    #[inline(always)]
    pub(crate) fn exists(self, view: &View<'_>) -> bool {
        self.word(view, FIRST) != 0
    }

    /// Returns the position after the last byte.
    pub(crate) fn end(self, view: &View<'_>) -> u64 {
        self.word(view, END)
    }

    /// Returns the position of the first byte.
    pub(crate) fn start(self, view: &View<'_>) -> u64 {
        self.word(view, START)
    }

    /// Creates the queue, empty, with its first byte at a position. The queue must not exist.
    pub(crate) fn create(
        self,
        transaction: &mut Transaction<'_>,
        position: u64,
    ) -> Result<(), Error> {
        let block = self.new_block(transaction, position, 0)?;
        self.set(transaction, FIRST, block)?;
        self.set(transaction, LAST, block)?;
        self.set(transaction, END, position)?;
        self.set(transaction, START, position)
    }

    fn new_block(
        self,
        transaction: &mut Transaction<'_>,
        position: u64,
        length: u64,
    ) -> Result<Offset, Error> {
        let size = self.block.max(HEADER + length.next_multiple_of(8));
        let block = transaction.allocate(self.shard, size)?;
        transaction.fill_word(block + NEXT, 0)?;
        transaction.fill_word(block + POSITION, position)?;
        transaction.fill_word(block + SIZE, size - HEADER)?;
        Ok(block)
    }

    /// Appends bytes, in one block. O(length).
    pub(crate) fn append(
        self,
        transaction: &mut Transaction<'_>,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let (mut last, end) = {
            let view = transaction.view();
            (self.word(view, LAST), self.word(view, END))
        };
        let length = bytes.len() as u64;
        let [position, size] = transaction.view().words(last + POSITION)?;
        let mut used = end.wrapping_sub(position);
        if used.saturating_add(length) > size {
            let block = self.new_block(transaction, end, length)?;
            transaction.store(self.shard, last + NEXT, block)?;
            self.set(transaction, LAST, block)?;
            (last, used) = (block, 0);
        }
        let at = last + HEADER + used;
        let misfit = at % 8;
        if misfit == 0 {
            transaction.fill_slack(self.shard, at, bytes)?;
        } else {
            // The word that contains the last byte has old bytes in front of the new ones.
            let room = (8 - misfit) as usize;
            let (here, rest) = bytes.split_at(room.min(bytes.len()));
            let mut word = transaction.view().word(at - misfit)?.to_le_bytes();
            word[misfit as usize..misfit as usize + here.len()].copy_from_slice(here);
            transaction.store(self.shard, at - misfit, u64::from_le_bytes(word))?;
            transaction.fill_slack(self.shard, at - misfit + 8, rest)?;
        }
        // The next append writes there, probably soon.
        transaction.view().prefetch(at + length + 64);
        self.set(transaction, END, end + length)
    }

    /// Drops the bytes before a position, which must not be after the end. Returns whether blocks
    /// remain to be freed by another call. O(freed blocks).
    pub(crate) fn drop_before(
        self,
        transaction: &mut Transaction<'_>,
        position: u64,
    ) -> Result<bool, Error> {
        self.set(transaction, START, position)?;
        for _ in 0..FREED_AT_ONCE {
            let first = self.word(transaction.view(), FIRST);
            let [next, start] = transaction.view().words(first + NEXT)?;
            if next == 0 {
                if start != position && position == self.end(transaction.view()) {
                    // The only block is empty, so it is used from its beginning again.
                    transaction.note_cut();
                    transaction.store(self.shard, first + POSITION, position)?;
                }
                return Ok(false);
            }
            if transaction.view().word(next + POSITION)? > position {
                return Ok(false);
            }
            self.set(transaction, FIRST, next)?;
            transaction.free(self.shard, first);
        }
        Ok(true)
    }

    /// Drops the bytes after a position, which must not be before the start.
    pub(crate) fn drop_after(
        self,
        transaction: &mut Transaction<'_>,
        position: u64,
    ) -> Result<(), Error> {
        let mut block = self.word(transaction.view(), FIRST);
        loop {
            let next = transaction.view().word(block + NEXT)?;
            if next == 0 || transaction.view().word(next + POSITION)? > position {
                break;
            }
            block = next;
        }
        transaction.note_cut();
        let mut rest = transaction.view().word(block + NEXT)?;
        transaction.store(self.shard, block + NEXT, 0)?;
        self.set(transaction, LAST, block)?;
        self.set(transaction, END, position)?;
        while rest != 0 {
            let next = transaction.view().word(rest + NEXT)?;
            transaction.free(self.shard, rest);
            rest = next;
        }
        Ok(())
    }

    /// Removes the queue, whose blocks are freed. O(blocks).
    pub(crate) fn remove(self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let mut block = self.word(transaction.view(), FIRST);
        while block != 0 {
            let next = transaction.view().word(block + NEXT)?;
            transaction.free(self.shard, block);
            block = next;
        }
        for word in 0..QUEUE_WORDS {
            self.set(transaction, word, 0)?;
        }
        Ok(())
    }

    /// Appends the bytes from `position` on to `out`, at most `most` bytes. The position must not be
    /// outside the queue. O(blocks before the position + bytes).
    pub(crate) fn read(
        self,
        view: &View<'_>,
        position: u64,
        most: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let until = self.end(view).min(position.saturating_add(most));
        let mut position = position;
        let mut block = self.word(view, FIRST);
        for _ in 0..VISITED_MAX {
            if position >= until {
                return Ok(());
            }
            let [next, start, size] = view.words(block)?;
            let skipped = position.checked_sub(start);
            if let Some(skipped) = skipped.filter(|skipped| *skipped < size) {
                // A block whose size did not suffice for the next bytes has unused space at its end.
                let following = match next {
                    0 => until,
                    // A torn word can contain any number (R3).
                    next => view.word(next.wrapping_add(POSITION))?,
                };
                let count = following
                    .min(until)
                    .saturating_sub(position)
                    .min(size - skipped);
                let at = (block + HEADER).wrapping_add(skipped);
                append_range(view, at, count, out)?;
                position += count;
            }
            block = next;
        }
        let what = "a complete chain of blocks";
        Err(Fault { at: block, what }.into())
    }

    /// Checks the chain of blocks.
    pub(crate) fn check(self, check: &mut Check<'_>, name: &str) {
        let mut block = self.word(check.view, FIRST);
        let (mut last, mut blocks) = (0, 0);
        while block != 0 && blocks < VISITED_MAX {
            (check.reach)(block);
            let words = check.view.words(block).map_err(Error::from);
            let next = words.and_then(|[next, _, size]: [u64; 3]| {
                check.view.check(block, HEADER.saturating_add(size))?;
                Ok(next)
            });
            match next {
                Ok(next) => (last, block) = (block, next),
                Err(error) => return check.problem(|| format!("{name}: {error}")),
            }
            blocks += 1;
        }
        if block != 0 || last != self.word(check.view, LAST) {
            check.problem(|| format!("{name} does not end at its last block"));
        }
    }
}

/// Appends bytes from any offset, which need not be a multiple of 8.
fn append_range(view: &View<'_>, at: Offset, length: u64, out: &mut Vec<u8>) -> Result<(), Error> {
    let misfit = at % 8;
    let before = out.len();
    view.append_to(at - misfit, length + misfit, out)?;
    out.drain(before..before + misfit as usize);
    Ok(())
}
