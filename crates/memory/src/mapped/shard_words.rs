//! Words that every transaction looks at: those of its shards and of its record, found and checked once.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapped::layout::{SLOTS, shard, slot};
use crate::mapped::mapping::Mapping;
use crate::mapped::words::Lock;

/// Bytes of an undo log that are backed by memory in every store. Up to there nobody looks whether the log holds a word
/// already.
pub(crate) const SHORT_LOG: u64 = 4096;
const _: () = assert!(SHORT_LOG <= shard::LOG_RESERVED_MIN);
/// Words that describe an entry of a log, behind its body.
pub(crate) const DESCRIPTION: u64 = 2;

/// A shard: the words before its hints, and the short part of its undo log.
#[derive(Clone, Copy)]
pub(crate) struct ShardWords<'m> {
    start: NonNull<u8>,
    mapping: PhantomData<&'m Mapping>,
}

impl Mapping {
    /// The words of a shard.
    #[inline(always)]
    pub(crate) fn shard_words(&self, index: usize) -> ShardWords<'_> {
        assert!(index < self.layout().shards);
        // SAFETY: asserted.
        unsafe { self.shard_words_unchecked(index) }
    }

    /// The words of a shard.
    ///
    /// # Safety
    /// `index` is below the number of shards.
    #[inline(always)]
    unsafe fn shard_words_unchecked(&self, index: usize) -> ShardWords<'_> {
        // SAFETY: the layout has a place for each of its shards, and the mapping is as long as the layout says.
        let start = unsafe { self.start().add(self.layout().shard(index) as usize) };
        ShardWords {
            // SAFETY: a shard does not lie where the mapping starts, nor does a mapping at no address.
            start: unsafe { NonNull::new_unchecked(start) },
            mapping: PhantomData,
        }
    }

    /// A word of a shard's roots, as this mapping shows it.
    ///
    /// # Panics
    /// If there is none of this number, or no such shard.
    #[inline(always)]
    pub(crate) fn root(&self, index: usize, word: usize) -> u64 {
        if index >= self.direct_shards {
            return self.root_under_overlay(index, word);
        }
        // SAFETY: no more shards are read directly than there are.
        let shard = unsafe { self.shard_words_unchecked(index) };
        shard.root(word).load(Ordering::Relaxed)
    }

    /// Words of a shard's roots in a row; none where they are not read directly.
    ///
    /// # Panics
    /// If the roots end before.
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
        // SAFETY: no more shards are read directly than there are.
        let shard = unsafe { self.shard_words_unchecked(index) };
        // SAFETY: the words are aligned, lie in the shard (asserted), and live as long as the mapping; all access to them
        // is atomic.
        Some(unsafe { &*std::ptr::from_ref(shard.root(first)).cast::<[AtomicU64; N]>() })
    }

    #[cold]
    fn root_under_overlay(&self, index: usize, word: usize) -> u64 {
        assert!(index < self.layout().shards && (word as u64) < shard::ROOT_WORDS);
        self.load(self.layout().shard(index) + shard::ROOTS + word as u64 * 8)
    }

    /// The words of a record in an entry of the process table.
    #[inline(always)]
    pub(crate) fn record_words(&self, slot_index: u64, record: u64) -> RecordWords<'_> {
        assert!(slot_index < SLOTS && record < slot::RECORD_COUNT);
        let at = self.layout().record(slot_index, record);
        // SAFETY: the process table, of which the record is one, is in every layout; its words are aligned, and live as
        // long as the mapping; all access to them is atomic.
        let words = unsafe { &*self.start().add(at as usize).cast() };
        RecordWords(words)
    }
}

impl<'m> ShardWords<'m> {
    /// One of the words before the hints.
    #[inline(always)]
    pub(crate) fn word<const AT: u64>(self) -> &'m AtomicU64 {
        const { assert!(AT.is_multiple_of(8) && AT < shard::HINTS) };
        // SAFETY: aligned and in the shard (asserted), whose words live as long as the mapping; all access is atomic.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(AT as usize).cast()) }
    }

    /// A word of the roots.
    ///
    /// # Panics
    /// If there is none of this number.
    #[inline(always)]
    pub(crate) fn root(self, word: usize) -> &'m AtomicU64 {
        assert!((word as u64) < shard::ROOT_WORDS);
        const { assert!(shard::ROOTS + shard::ROOT_WORDS * 8 <= shard::HINTS) };
        // SAFETY: as in `word`, with the end of the roots (asserted).
        unsafe {
            let roots = self.start.as_ptr().add(shard::ROOTS as usize);
            AtomicU64::from_ptr(roots.cast::<u64>().add(word))
        }
    }

    /// The lock.
    #[inline(always)]
    pub(crate) fn lock(self) -> &'m Lock {
        // SAFETY: as in `word`; a lock is the two halves of one word, both atomic.
        unsafe { &*self.start.as_ptr().add(shard::LOCK as usize).cast::<Lock>() }
    }

    #[inline(always)]
    pub(crate) fn load<const AT: u64>(self) -> u64 {
        self.word::<AT>().load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn store<const AT: u64>(self, value: u64) {
        self.word::<AT>().store(value, Ordering::Relaxed);
    }

    /// Copies words of the store into the undo log behind its first `tail` bytes, and a description behind them. Returns
    /// how long the log is then; none where that is beyond its short part.
    #[inline(always)]
    pub(crate) fn copy_to_log(
        self,
        mapping: &Mapping,
        tail: u64,
        (at, words): (u64, u64),
        description: [u64; DESCRIPTION as usize],
    ) -> Option<u64> {
        const ROOM: u64 = SHORT_LOG / 8 - DESCRIPTION;
        // A tail that is damaged may be no multiple of 8.
        let first = tail / 8;
        if words > ROOM || first > ROOM - words {
            return None;
        }
        // SAFETY: the log begins so many bytes behind the shard's start, at a page, and the words up to `ROOM` and the
        // description lie in its short part (looked at just now).
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

/// A record of a process: what its transaction is, and which one was committed last (W6).
#[derive(Clone, Copy)]
pub(crate) struct RecordWords<'m>(&'m [AtomicU64; (slot::RECORD_STRIDE / 8) as usize]);

impl<'m> RecordWords<'m> {
    /// One of its words.
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
