//! Ways to read: locked, or optimistic (R1 to R5).
//!
//! Reading code is written once against [`View`]. Under a lock what it reads is
//! stable; without one it may be torn, and [`Segment::read`](crate::Segment::read)
//! throws the result away and tries again.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Fault;
use crate::mapped::checked_place::CheckedPlace;
use crate::mapped::layout::{Offset, header, shard};
use crate::mapped::mapping::Mapping;
use crate::probes::race::ReadWatch;
use crate::segment::counter;
use crate::segment::shard_set::ShardSet;
use crate::views::through_log::{Interference, LookBack};

/// Read access to some shards.
pub struct View<'a> {
    pub(crate) mapping: &'a Mapping,
    pub(crate) notes: Notes<'a>,
    /// About how many bytes were looked at through this view, by walks and long copies.
    done: Cell<u64>,
}

/// Longer copies look at the counters (R3).
const LONG: u64 = 4096;
/// And after so many bytes again (R10).
const CHUNK: u64 = 64 * 1024;
/// Bytes that a step of a walk counts as.
const STEP: u64 = 512;

/// The version counters at the time the view was made.
pub(crate) enum Notes<'a> {
    /// The shards are locked: nothing changes.
    Locked,
    /// One shard's counter: its offset, and its value.
    One(u64, u64),
    /// Several shards and their counters.
    Many(ShardSet, &'a [u64]),
    /// Shards in the midst of changes, as they were before (R9).
    Back(&'a LookBack<'a>),
}

/// A block of the heap that is being read; see [`View::block`].
#[derive(Clone, Copy)]
pub struct Block<'a> {
    place: CheckedPlace<'a>,
    watch: ReadWatch<'a>,
}

impl Block<'_> {
    /// Asks for the block's second cache line ahead of its use.
    #[inline(always)]
    pub fn prefetch_next_line(&self) {
        self.place.prefetch_next_line();
    }

    /// The word so many bytes behind the block's start, a multiple of 8.
    #[inline(always)]
    pub fn word(&self, behind: u64) -> Result<u64, Fault> {
        self.watch.looking();
        self.place.word(behind)
    }

    /// Whether the bytes behind the block's start are the given ones; `behind`
    /// is a multiple of 8.
    #[inline(always)]
    pub fn equals(&self, behind: u64, bytes: &[u8]) -> Result<bool, Fault> {
        self.watch.looking();
        self.place.equals(behind, bytes)
    }
}

/// Root words of a shard in a row, for reading some of them; see [`View::roots`].
#[derive(Clone, Copy)]
pub struct Roots<'a, const N: usize> {
    words: Option<&'a [AtomicU64; N]>,
    mapping: &'a Mapping,
    index: usize,
    first: usize,
    watch: ReadWatch<'a>,
}

impl<const N: usize> Roots<'_, N> {
    /// One of them.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline(always)]
    pub fn word(&self, place: usize) -> u64 {
        self.watch.looking();
        match self.words {
            Some(words) => words[place].load(Ordering::Relaxed),
            None => self.mapping.root(self.index, self.first + place),
        }
    }
}

impl<'a> View<'a> {
    #[inline(always)]
    pub(crate) fn new(mapping: &'a Mapping, notes: Notes<'a>) -> View<'a> {
        View {
            mapping,
            notes,
            done: Cell::new(0),
        }
    }

    /// About how many bytes were looked at, where these are many.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    #[inline(always)]
    fn watch(&self) -> ReadWatch<'a> {
        let is_locked = matches!(self.notes, Notes::Locked);
        ReadWatch::new(self.mapping.race(), is_locked)
    }

    /// Whether nothing changed since the view was made. To be asked before a
    /// length that was read makes the caller allocate or copy much (R3).
    #[inline(always)]
    pub fn unchanged(&self) -> bool {
        let layout = self.mapping.layout();
        match self.notes {
            Notes::Locked => true,
            Notes::One(at, noted) => {
                counter::end_of_reading::<AtomicU64>();
                self.holds(at, noted)
            }
            Notes::Many(shards, noted) => {
                counter::end_of_reading::<AtomicU64>();
                shards
                    .iter()
                    .zip(noted)
                    .all(|(index, &noted)| self.holds(layout.shard(index) + shard::COUNTER, noted))
            }
            Notes::Back(back) => back.interference() == Interference::Nothing,
        }
    }

    /// Whether a counter has the value that was noted.
    #[inline(always)]
    fn holds(&self, counter: u64, noted: u64) -> bool {
        counter::unchanged(self.mapping.word(counter), noted)
    }

    /// An error where something changed since the view was made. To be asked by walks at each step of some hundred bytes
    /// at least, so that what a try that fails has done is known (R10).
    #[inline(always)]
    pub fn recheck(&self) -> Result<(), Fault> {
        self.done.set(self.done.get() + STEP);
        if self.unchanged() {
            Ok(())
        } else {
            // Never seen by a caller of `read`, which retries.
            Err(Fault {
                at: 0,
                what: "an unchanged shard",
            })
        }
    }

    /// A block at an offset in the heap, for reading words of it: cheaper than
    /// a [`word`](Self::word) at a time.
    #[inline(always)]
    pub fn block(&self, at: Offset) -> Result<Block<'a>, Fault> {
        let watch = self.watch();
        watch.looking();
        let place = self.mapping.place_at(at)?;
        Ok(Block { place, watch })
    }

    /// Bytes that the allocated block at an offset takes: at least what was
    /// asked for. O(1).
    pub fn block_bytes(&self, at: Offset) -> Result<u64, Fault> {
        self.mapping.block_bytes(at)
    }

    /// The word at an offset in the heap.
    #[inline(always)]
    pub fn word(&self, at: Offset) -> Result<u64, Fault> {
        self.watch().looking();
        self.mapping.place_at(at)?.word(0)
    }

    /// Asks for the cache line at an offset ahead of its use. The offset may be
    /// any number.
    #[inline(always)]
    pub fn prefetch(&self, at: Offset) {
        self.mapping.prefetch(at);
    }

    /// Asks for the cache lines of a range ahead of its use. Any range will do.
    #[inline(always)]
    pub fn prefetch_range(&self, at: Offset, length: u64) {
        for line in 0..length.div_ceil(64) {
            self.mapping.prefetch(at.wrapping_add(line * 64));
        }
    }

    /// Checks that a range lies in reserved memory, for the accessors below.
    #[inline(always)]
    pub fn check(&self, at: Offset, length: u64) -> Result<(), Fault> {
        self.mapping.check(at, length)
    }

    /// `N` words from an offset on.
    #[inline(always)]
    pub fn words<const N: usize>(&self, at: Offset) -> Result<[u64; N], Fault> {
        self.watch().looking();
        self.mapping.check(at, N as u64 * 8)?;
        Ok(std::array::from_fn(|index| {
            self.mapping.load(at + index as u64 * 8)
        }))
    }

    /// Whether the bytes at an offset are the given ones.
    #[inline(always)]
    pub fn equals(&self, at: Offset, bytes: &[u8]) -> Result<bool, Fault> {
        self.watch().looking();
        self.mapping.place_at(at)?.equals(0, bytes)
    }

    /// Appends `length` bytes to `out`. Long copies are made only while the
    /// shard is unchanged (R3, R10).
    #[inline(always)]
    pub fn append_to(&self, at: Offset, length: u64, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.mapping.check(at, length)?;
        if length > LONG {
            return self.append_long(at, 0, length, out);
        }
        make_room(out, length as usize + 8)?;
        self.watch().looking();
        self.mapping.append_to(at, length as usize, out);
        Ok(())
    }

    /// A long copy, looking at the counters on its way (R10).
    #[cold]
    #[inline(never)]
    fn append_long(
        &self,
        at: Offset,
        skip: u64,
        length: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        // Not before: the length may be a torn one.
        self.recheck()?;
        make_room(out, length as usize + 8)?;
        self.watch().looking();
        let (mut from, end) = (skip, skip + length);
        while from < end {
            let to = end.min((from & !7) + CHUNK);
            let (first, skip) = (at + (from & !7), from & 7);
            self.mapping
                .append_from(first, skip as usize, (to - from) as usize, out);
            self.copied(to - from)?;
            from = to;
        }
        Ok(())
    }

    /// Counts bytes that were copied, at most [`CHUNK`], and looks whether they count.
    fn copied(&self, bytes: u64) -> Result<(), Fault> {
        self.done.set(self.done.get() + bytes);
        self.watch().looking();
        self.recheck()
    }

    /// Appends bytes `start..end` of what lies at an offset to `out`; none where the end is not behind the start, which
    /// need not be aligned. Long copies are made only while the shard is unchanged (R3).
    #[inline]
    pub fn append_part(
        &self,
        at: Offset,
        start: u64,
        end: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let (first, skip) = (at.wrapping_add(start & !7), start & 7);
        let length = end.saturating_sub(start);
        self.mapping.check(first, length.saturating_add(skip))?;
        if length > LONG {
            return self.append_long(first, skip, length, out);
        }
        make_room(out, length as usize + 8)?;
        self.watch().looking();
        self.mapping
            .append_from(first, skip as usize, length as usize, out);
        Ok(())
    }

    /// Fills all of `out` from an offset on.
    #[inline(always)]
    pub fn copy_to(&self, at: Offset, out: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: a byte may be what may be none yet, and nothing but bytes is written to it.
        let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<u8>]) };
        self.copy_into(at, out)
    }

    /// Fills all of `out` with the words from an offset on.
    #[inline]
    pub fn copy_words_to(&self, at: Offset, out: &mut [u64]) -> Result<(), Fault> {
        // SAFETY: the bytes of words, for as long as these are borrowed; any bytes are words.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), size_of_val(out))
        };
        self.copy_to(at, bytes)
    }

    /// [`copy_to`](Self::copy_to) memory that holds nothing yet; all of it does then. Long copies are made only while the
    /// shard is unchanged (R3).
    #[inline(always)]
    pub fn copy_into(&self, at: Offset, out: &mut [MaybeUninit<u8>]) -> Result<(), Fault> {
        self.mapping.check(at, out.len() as u64)?;
        if out.len() as u64 > LONG {
            return self.copy_long(at, out);
        }
        self.watch().looking();
        self.mapping.copy_into(at, out);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn copy_long(&self, at: Offset, out: &mut [MaybeUninit<u8>]) -> Result<(), Fault> {
        self.recheck()?;
        self.watch().looking();
        for (index, chunk) in out.chunks_mut(CHUNK as usize).enumerate() {
            self.mapping.copy_into(at + index as u64 * CHUNK, chunk);
            self.copied(chunk.len() as u64)?;
        }
        Ok(())
    }

    /// What has to be looked after before a shard is read or changed; see
    /// [`Transaction::set_mark`](crate::Transaction::set_mark).
    #[inline]
    pub fn mark(&self, index: usize) -> u64 {
        self.mapping
            .load(self.mapping.layout().shard(index) + shard::MARK)
    }

    /// The store's secret key for hashing, which lies in the header and never changes.
    #[inline]
    pub fn hash_key(&self) -> [u64; 2] {
        [header::HASH_KEY, header::HASH_KEY + 8].map(|at| self.mapping.load(at))
    }

    /// Words of a shard's roots, from one of them on: cheaper than a [`root`](Self::root) at a time.
    ///
    /// # Panics
    /// If the roots end before.
    #[inline(always)]
    pub fn roots<const N: usize>(&self, index: usize, first: usize) -> Roots<'a, N> {
        Roots {
            words: self.mapping.roots(index, first),
            mapping: self.mapping,
            index,
            first,
            watch: self.watch(),
        }
    }

    /// A word of a shard's roots.
    ///
    /// # Panics
    /// If the index is not below [`ROOT_WORDS`](crate::ROOT_WORDS).
    #[inline(always)]
    pub fn root(&self, index: usize, word: usize) -> u64 {
        self.watch().looking();
        self.mapping.root(index, word)
    }
}

/// Makes room for so many more bytes, or says that this process has no memory.
#[inline(always)]
fn make_room(out: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
    #[cold]
    #[inline(never)]
    fn grow(out: &mut Vec<u8>, bytes: usize) -> Result<(), Fault> {
        out.try_reserve(bytes).map_err(|_| Fault::no_memory(bytes))
    }
    match out.capacity() - out.len() >= bytes {
        true => Ok(()),
        false => grow(out, bytes),
    }
}
