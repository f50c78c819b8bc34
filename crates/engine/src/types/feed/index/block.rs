//! Defines the layout of an index block, and reads and creates index blocks.

use undercroft_memory::{Fault, Offset, Pool, Transaction, View};

use crate::error::Error;
use crate::structures::tree::Child;
use crate::types::feed::leaves::summary::NOTE_WORDS;

/// The possible sizes of a block in bytes. A small index consists of one small block.
const SIZES: [u64; 3] = [256, 1024, BLOCK];
pub(super) const BLOCK: u64 = 4096;
const HEADER: u64 = 8;
const MAGIC: u64 = 0x401;
/// The number of words in each block when many blocks are created together. The rest of the block
/// is reserved for later words.
pub(super) const FILL: usize = room(BLOCK) / 8 * 7;

/// Returns the number of words that fit in a block of `size` bytes.
pub(super) const fn room(size: u64) -> usize {
    ((size - HEADER) / 8) as usize
}

/// A block whose header has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) at: Offset,
    pub(super) size: u64,
    pub(super) count: usize,
}

impl Block {
    pub(super) fn load(view: &View<'_>, at: Offset, expected: u64) -> Result<Block, Error> {
        let header = view.word(at)?;
        let (size, count) = (header >> 16 & 0xffff, header >> 32);
        if header & 0xffff != MAGIC || !SIZES.contains(&size) || count != expected {
            return Err(fault(at));
        }
        let count = count as usize;
        if count == 0 || count > room(size) {
            return Err(fault(at));
        }
        view.check(at, size)?;
        Ok(Block { at, size, count })
    }

    pub(super) fn header(size: u64, count: usize) -> u64 {
        MAGIC | size << 16 | (count as u64) << 32
    }

    pub(super) fn word_at(&self, index: usize) -> Offset {
        self.at + HEADER + index as u64 * 8
    }

    pub(super) fn word(&self, view: &View<'_>, index: usize) -> Result<u64, Error> {
        Ok(view.word(self.word_at(index))?)
    }

    /// Returns the words of the block, starting at index `from`.
    pub(super) fn words(&self, view: &View<'_>, from: usize) -> Result<Vec<u64>, Error> {
        let mut bytes = vec![0; (self.count - from) * 8];
        view.copy_to(self.word_at(from), &mut bytes)?;
        let words = bytes.as_chunks::<8>().0.iter();
        Ok(words.map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Returns the number of words that are less than `word`. The search starts at an interpolated
    /// index, which is a good first guess because hashes are evenly distributed.
    pub(super) fn lower_bound(&self, view: &View<'_>, word: u64) -> Result<usize, Error> {
        let (first, last) = (self.word(view, 0)?, self.word(view, self.count - 1)?);
        if word <= first {
            return Ok(0);
        }
        if word > last {
            return Ok(self.count);
        }
        let (mut low, mut high) = (1, self.count - 1);
        let share = u128::from(word - first) * self.count as u128 / u128::from(last - first);
        let mut middle = (share as usize).clamp(low, high);
        // Words before `low` are less than `word`, and words from `high` onwards are not. The
        // stride doubles at each step.
        let mut stride = 8;
        while low < high {
            if self.word(view, middle.min(high - 1))? < word {
                low = middle.min(high - 1) + 1;
                middle = low + stride;
            } else {
                high = middle.min(high - 1);
                middle = high.saturating_sub(stride).max(low);
            }
            stride *= 2;
            if stride > 64 {
                middle = (low + high) / 2;
            }
        }
        Ok(low)
    }

    /// Creates a block that contains `words`. The block has the smallest size that fits, or full
    /// size if `full` is set.
    pub(super) fn create(
        transaction: &mut Transaction<'_>,
        pool: Pool,
        words: &[u64],
        full: bool,
    ) -> Result<Child<NOTE_WORDS>, Error> {
        let mut sizes = SIZES.into_iter().filter(|&size| !full || size == BLOCK);
        let size = sizes.find(|&size| room(size) >= words.len());
        let (Some(size), Some(&least)) = (size, words.first()) else {
            return Err(fault(0));
        };
        let at = transaction.allocate(pool, size)?;
        transaction.fill_word(at, Block::header(size, words.len()))?;
        transaction.fill(at + HEADER, &bytes(words))?;
        Ok(Child {
            at,
            count: words.len() as u64,
            note: note(least),
        })
    }
}

pub(super) fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn note(least: u64) -> [u64; NOTE_WORDS] {
    let mut note = [0; NOTE_WORDS];
    note[0] = least;
    note
}

/// Returns the error for an index that is damaged at the given offset.
pub(super) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "an index that holds every item of its feed",
    }
    .into()
}
