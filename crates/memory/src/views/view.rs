//! Views for reading shards, either under locks or optimistically (R1 to R5).
//!
//! All reading code uses [`View`]. Under a lock, the data is stable. Without a lock it may be torn,
//! and [`Segment::read`](crate::Segment::read) then discards the result and retries.

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
use crate::views::through_log::{Interference, OldStateView};

/// Read access to a set of shards.
pub struct View<'a> {
    pub(crate) mapping: &'a Mapping,
    pub(crate) notes: Notes<'a>,
    /// The approximate number of bytes that traversals and long copies have read through this view.
    done: Cell<u64>,
}

/// Copies of more bytes than this first check the version counters (R3).
const LONG: u64 = 4096;
/// Long copies check the version counters again each time this many bytes have been copied (R10).
const CHUNK: u64 = 64 * 1024;
/// Each step of a traversal counts as this number of bytes.
const STEP: u64 = 512;

/// The version counters when the view was created.
pub(crate) enum Notes<'a> {
    /// The shards are locked and do not change.
    Locked,
    /// The offset and the value of one shard's counter.
    One(u64, u64),
    /// Several shards and the values of their counters.
    Many(ShardSet, &'a [u64]),
    /// Shards that are being changed, shown as they were before the changes (R9).
    Back(&'a OldStateView<'a>),
}

/// A block of the heap that is being read. See [`View::block`].
#[derive(Clone, Copy)]
pub struct Block<'a> {
    place: CheckedPlace<'a>,
    watch: ReadWatch<'a>,
}

impl Block<'_> {
    /// Prefetches the block's second cache line.
    #[inline(always)]
    pub fn prefetch_next_line(&self) {
        self.place.prefetch_next_line();
    }

    /// Returns the word `behind` bytes after the block's start; `behind` must be a multiple of 8.
    #[inline(always)]
    pub fn word(&self, behind: u64) -> Result<u64, Fault> {
        self.watch.looking();
        self.place.word(behind)
    }

    /// Returns true if the bytes starting `behind` bytes after the block's start equal `bytes`;
    /// `behind` must be a multiple of 8.
    #[inline(always)]
    pub fn equals(&self, behind: u64, bytes: &[u8]) -> Result<bool, Fault> {
        self.watch.looking();
        self.place.equals(behind, bytes)
    }
}

/// Consecutive root words of a shard. See [`View::roots`].
#[derive(Clone, Copy)]
pub struct Roots<'a, const N: usize> {
    words: Option<&'a [AtomicU64; N]>,
    mapping: &'a Mapping,
    index: usize,
    first: usize,
    watch: ReadWatch<'a>,
}

impl<const N: usize> Roots<'_, N> {
    /// Returns one of the words.
    ///
    /// # Panics
    /// Panics if `place` is not less than `N`.
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

    /// Returns the approximate number of bytes read by traversals and long copies.
    pub(crate) fn done(&self) -> u64 {
        self.done.get()
    }

    #[inline(always)]
    fn watch(&self) -> ReadWatch<'a> {
        let is_locked = matches!(self.notes, Notes::Locked);
        ReadWatch::new(self.mapping.race(), is_locked)
    }

    /// Returns true if nothing changed since the view was created. Call it before allocating or
    /// copying a large amount of memory whose size was read from the store (R3).
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

    /// Returns true if a counter still has the recorded value.
    #[inline(always)]
    fn holds(&self, counter: u64, noted: u64) -> bool {
        counter::unchanged(self.mapping.word(counter), noted)
    }

    /// Returns an error if anything changed since the view was created. Traversals must call it at
    /// each step, at least every few hundred bytes, so that the cost of failed attempts is known
    /// (R10).
    #[inline(always)]
    pub fn recheck(&self) -> Result<(), Fault> {
        self.done.set(self.done.get() + STEP);
        if self.unchanged() {
            Ok(())
        } else {
            // Callers of `read` never see this error, because `read` retries.
            Err(Fault {
                at: 0,
                what: "an unchanged shard",
            })
        }
    }

    /// Returns the block at an offset in the heap. Reading several words through the block is
    /// cheaper than calling [`word`](Self::word) for each.
    #[inline(always)]
    pub fn block(&self, at: Offset) -> Result<Block<'a>, Fault> {
        let watch = self.watch();
        watch.looking();
        let place = self.mapping.place_at(at)?;
        Ok(Block { place, watch })
    }

    /// Returns the size of the allocated block at an offset, which is at least the requested size.
    /// O(1).
    pub fn block_bytes(&self, at: Offset) -> Result<u64, Fault> {
        self.mapping.block_bytes(at)
    }

    /// Returns the word at an offset in the heap.
    #[inline(always)]
    pub fn word(&self, at: Offset) -> Result<u64, Fault> {
        self.watch().looking();
        self.mapping.place_at(at)?.word(0)
    }

    /// Prefetches the cache line at an offset. The offset need not be valid.
    #[inline(always)]
    pub fn prefetch(&self, at: Offset) {
        self.mapping.prefetch(at);
    }

    /// Prefetches the cache lines of a range. The range need not be valid.
    #[inline(always)]
    pub fn prefetch_range(&self, at: Offset, length: u64) {
        for line in 0..length.div_ceil(64) {
            self.mapping.prefetch(at.wrapping_add(line * 64));
        }
    }

    /// Checks that a range is aligned and backed by memory.
    #[inline(always)]
    pub fn check(&self, at: Offset, length: u64) -> Result<(), Fault> {
        self.mapping.check(at, length)
    }

    /// Returns the `N` words at an offset.
    #[inline(always)]
    pub fn words<const N: usize>(&self, at: Offset) -> Result<[u64; N], Fault> {
        self.watch().looking();
        self.mapping.check(at, N as u64 * 8)?;
        Ok(std::array::from_fn(|index| {
            self.mapping.load(at + index as u64 * 8)
        }))
    }

    /// Returns true if the bytes at an offset equal `bytes`.
    #[inline(always)]
    pub fn equals(&self, at: Offset, bytes: &[u8]) -> Result<bool, Fault> {
        self.watch().looking();
        self.mapping.place_at(at)?.equals(0, bytes)
    }

    /// Appends `length` bytes to `out`. A long copy fails if the shard changes (R3, R10).
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

    /// Performs a long copy, checking the version counters along the way (R10).
    #[cold]
    #[inline(never)]
    fn append_long(
        &self,
        at: Offset,
        skip: u64,
        length: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        // Allocate only after rechecking the counters, because the length may have been torn.
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

    /// Adds `bytes` copied bytes, at most [`CHUNK`], to the number of bytes read. Fails if the
    /// shard has changed.
    fn copied(&self, bytes: u64) -> Result<(), Fault> {
        self.done.set(self.done.get() + bytes);
        self.watch().looking();
        self.recheck()
    }

    /// Appends bytes `start..end` of the content at an offset to `out`. Appends nothing if the
    /// range is empty. `start` need not be aligned. A long copy fails if the shard changes (R3).
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

    /// Fills `out` with the bytes at an offset.
    #[inline(always)]
    pub fn copy_to(&self, at: Offset, out: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: an initialized byte is a valid `MaybeUninit<u8>`, and only initialized bytes are
        // written to the slice.
        let out = unsafe { &mut *(std::ptr::from_mut(out) as *mut [MaybeUninit<u8>]) };
        self.copy_into(at, out)
    }

    /// Fills `out` with the words at an offset.
    #[inline]
    pub fn copy_words_to(&self, at: Offset, out: &mut [u64]) -> Result<(), Fault> {
        // SAFETY: the byte slice covers exactly the words of `out`, which stays borrowed. All byte
        // values form valid words.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), size_of_val(out))
        };
        self.copy_to(at, bytes)
    }

    /// Fills `out`, which may be uninitialized, with the bytes at an offset. A long copy fails if
    /// the shard changes (R3).
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

    /// Returns the mark word of a shard, which describes pending cleanup. See
    /// [`Transaction::set_mark`](crate::Transaction::set_mark).
    #[inline]
    pub fn mark(&self, index: usize) -> u64 {
        self.mapping
            .load(self.mapping.layout().shard(index) + shard::MARK)
    }

    /// Returns the store's secret hash key, which is in the header and never changes.
    #[inline]
    pub fn hash_key(&self) -> [u64; 2] {
        [header::HASH_KEY, header::HASH_KEY + 8].map(|at| self.mapping.load(at))
    }

    /// Returns `N` consecutive words of a shard's roots. Cheaper than calling [`root`](Self::root)
    /// for each word.
    ///
    /// # Panics
    /// Panics if the range extends past the end of the roots.
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

    /// Returns a word of a shard's roots.
    ///
    /// # Panics
    /// Panics if `word` is not less than [`ROOT_WORDS`](crate::ROOT_WORDS).
    #[inline(always)]
    pub fn root(&self, index: usize, word: usize) -> u64 {
        self.watch().looking();
        self.mapping.root(index, word)
    }
}

/// Reserves capacity for `bytes` more bytes, or fails if this process is out of memory.
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
