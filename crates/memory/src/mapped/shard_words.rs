//! The words of shards and transaction records that every transaction uses, located and checked
//! once.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapped::layout::{SLOTS, shard, slot};
use crate::mapped::mapping::Mapping;
use crate::mapped::words::Lock;

/// The maximum length in bytes of an undo log that counts as short. This part of the log is backed
/// by memory in every store, and a short log is not searched for words that it already contains.
pub(crate) const SHORT_LOG: u64 = 4096;
const _: () = assert!(SHORT_LOG <= shard::LOG_RESERVED_MIN);
/// The number of words after an entry's body that describe the entry.
pub(crate) const DESCRIPTION: u64 = 2;

/// The words of a shard that precede its hint table, and the short part of its undo log.
#[derive(Clone, Copy)]
pub(crate) struct ShardWords<'m> {
    start: NonNull<u8>,
    mapping: PhantomData<&'m Mapping>,
}

impl Mapping {
    /// Returns the words of a shard.
    ///
    /// # Panics
    /// Panics if there is no shard with this index.
    #[inline(always)]
    pub(crate) fn shard_words(&self, index: usize) -> ShardWords<'_> {
        assert!(index < self.layout().shards);
        // SAFETY: the index is below the number of shards (asserted).
        unsafe { self.shard_words_unchecked(index) }
    }

    /// Returns the words of a shard without checking the index.
    ///
    /// # Safety
    /// `index` must be below the number of shards.
    #[inline(always)]
    unsafe fn shard_words_unchecked(&self, index: usize) -> ShardWords<'_> {
        // SAFETY: the layout contains each shard, and the length of the mapping matches the layout.
        let start = unsafe { self.start().add(self.layout().shard(index) as usize) };
        ShardWords {
            // SAFETY: a shard never starts at the beginning of the mapping, and a mapping never
            // starts at address 0.
            start: unsafe { NonNull::new_unchecked(start) },
            mapping: PhantomData,
        }
    }

    /// Returns a word of a shard's roots, read through the overlay if this mapping has one.
    ///
    /// # Panics
    /// Panics if `word` or `index` is out of range.
    #[inline(always)]
    pub(crate) fn root(&self, index: usize, word: usize) -> u64 {
        if index >= self.direct_shards {
            return self.root_under_overlay(index, word);
        }
        // SAFETY: `index` is below `direct_shards`, which is at most the number of shards.
        let shard = unsafe { self.shard_words_unchecked(index) };
        shard.root(word).load(Ordering::Relaxed)
    }

    /// Returns `N` consecutive words of a shard's roots, or `None` if they cannot be read directly.
    ///
    /// # Panics
    /// Panics if the range extends past the end of the roots.
    #[inline(always)]
    pub(crate) fn roots<const N: usize>(
        &self,
        index: usize,
        first: usize,
    ) -> Option<&[AtomicU64; N]> {
        assert!(first as u64 + N as u64 <= shard::ROOT_WORDS);
        if index >= self.direct_shards {
            return None;
        }
        // SAFETY: `index` is below `direct_shards`, which is at most the number of shards.
        let shard = unsafe { self.shard_words_unchecked(index) };
        // SAFETY: the words are aligned, are in the shard (asserted), and live as long as the
        // mapping; all access to them is atomic.
        Some(unsafe { &*std::ptr::from_ref(shard.root(first)).cast::<[AtomicU64; N]>() })
    }

    #[cold]
    fn root_under_overlay(&self, index: usize, word: usize) -> u64 {
        assert!(index < self.layout().shards && (word as u64) < shard::ROOT_WORDS);
        self.load(self.layout().shard(index) + shard::ROOTS + word as u64 * 8)
    }

    /// Returns the words of a transaction record in a process table entry.
    #[inline(always)]
    pub(crate) fn record_words(&self, slot_index: u64, record: u64) -> RecordWords<'_> {
        assert!(slot_index < SLOTS && record < slot::RECORD_COUNT);
        let at = self.layout().record(slot_index, record);
        // SAFETY: every layout contains the process table and thus the record; its words are
        // aligned and live as long as the mapping; all access to them is atomic.
        let words = unsafe { &*self.start().add(at as usize).cast() };
        RecordWords(words)
    }
}

impl<'m> ShardWords<'m> {
    /// Returns the word `AT` bytes after the start of the shard. The word must precede the hint
    /// table.
    #[inline(always)]
    pub(crate) fn word<const AT: u64>(self) -> &'m AtomicU64 {
        const { assert!(AT.is_multiple_of(8) && AT < shard::HINTS) };
        // SAFETY: the word is aligned and in the shard (asserted), and lives as long as the
        // mapping; all access to it is atomic.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(AT as usize).cast()) }
    }

    /// Returns a word of the roots.
    ///
    /// # Panics
    /// Panics if `word` is not less than the number of words in the roots.
    #[inline(always)]
    pub(crate) fn root(self, word: usize) -> &'m AtomicU64 {
        assert!((word as u64) < shard::ROOT_WORDS);
        const { assert!(shard::ROOTS + shard::ROOT_WORDS * 8 <= shard::HINTS) };
        // SAFETY: the word is aligned and within the shard's roots (asserted), and lives as long as
        // the mapping; all access to it is atomic.
        unsafe {
            let roots = self.start.as_ptr().add(shard::ROOTS as usize);
            AtomicU64::from_ptr(roots.cast::<u64>().add(word))
        }
    }

    /// Returns the shard's lock.
    #[inline(always)]
    pub(crate) fn lock(self) -> &'m Lock {
        // SAFETY: the lock consists of two atomic half words in an aligned word of the shard, which
        // lives as long as the mapping.
        unsafe { &*self.start.as_ptr().add(shard::LOCK as usize).cast::<Lock>() }
    }

    /// Returns the words of the short part of the undo log.
    #[inline(always)]
    pub(crate) fn short_log(self) -> &'m [AtomicU64; (SHORT_LOG / 8) as usize] {
        // SAFETY: the log starts at a page boundary `shard::LOG` bytes into the shard, and its short
        // part is backed by memory and lives as long as the mapping; all access to it is atomic.
        unsafe { &*self.start.as_ptr().add(shard::LOG as usize).cast() }
    }

    #[inline(always)]
    pub(crate) fn load<const AT: u64>(self) -> u64 {
        self.word::<AT>().load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn store<const AT: u64>(self, value: u64) {
        self.word::<AT>().store(value, Ordering::Relaxed);
    }

    /// Appends an entry to the undo log, which is `tail` bytes long: `words` words of the store,
    /// then a description. Returns the new length of the log, or `None` if it would exceed the
    /// short part.
    #[inline(always)]
    pub(crate) fn copy_to_log(
        self,
        mapping: &Mapping,
        tail: u64,
        (at, words): (u64, u64),
        description: [u64; DESCRIPTION as usize],
    ) -> Option<u64> {
        const ROOM: u64 = SHORT_LOG / 8 - DESCRIPTION;
        // Round down, because a damaged tail need not be a multiple of 8.
        let first = tail / 8;
        if words > ROOM || first > ROOM - words {
            return None;
        }
        // SAFETY: the log starts at a page boundary `shard::LOG` bytes into the shard, and the body
        // and the description are in its short part (checked above).
        unsafe {
            let body = self.start.as_ptr().add(shard::LOG as usize).cast::<u64>();
            let body = body.add(first as usize);
            mapping.copy_words_out(at, words, body);
            for (word, value) in description.into_iter().enumerate() {
                let place = AtomicU64::from_ptr(body.add(words as usize + word));
                place.store(value, Ordering::Relaxed);
            }
        }
        Some((first + words + DESCRIPTION) * 8)
    }
}

/// The words of a transaction record: the current transaction and the most recently committed one
/// (W6).
#[derive(Clone, Copy)]
pub(crate) struct RecordWords<'m>(&'m [AtomicU64; (slot::RECORD_STRIDE / 8) as usize]);

impl<'m> RecordWords<'m> {
    /// Returns the word `AT` bytes after the start of the record.
    #[inline(always)]
    pub(crate) fn word<const AT: u64>(self) -> &'m AtomicU64 {
        const { assert!(AT.is_multiple_of(8) && AT < slot::RECORD_STRIDE) };
        &self.0[(AT / 8) as usize]
    }

    #[inline(always)]
    pub(crate) fn load<const AT: u64>(self) -> u64 {
        self.word::<AT>().load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn store<const AT: u64>(self, value: u64) {
        self.word::<AT>().store(value, Ordering::Relaxed);
    }
}
