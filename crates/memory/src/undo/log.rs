//! The undo log (W4, W5): the old contents of memory, saved before they change.
//!
//! Each shard has a log, and the heap has one. A log is a stack of entries in a separate area. An
//! entry ends with its description, so that the stack can be read from its top:
//!
//! ```text
//! | old words ... | offset | kind and number of words |
//!                                                      ^ tail
//! ```
//!
//! The entry's body is written first, then the tail is moved, and then the change is made. A
//! process that dies between any two of these steps leaves a log that undoes exactly the changes
//! made. A rollback moves the tail down entry by entry, so it may be interrupted at any point.

use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

use crate::error::{Error, Fault};
use crate::mapped::layout::shard;
use crate::mapped::mapping::Mapping;
use crate::mapped::overlay::SavedWords;
use crate::mapped::shard_words::{self, ShardWords};
use crate::probes::{fault, work};

/// Orders stores to the log and to the data.
///
/// A killed process leaves its stores in program order, for which a compiler fence is enough (S4).
/// A concurrent reader that goes through the log (R9) must not see a change before its log entry,
/// which requires the release fence. Neither fence emits an instruction on x86-64.
#[inline(always)]
pub(crate) fn in_order() {
    compiler_fence(Ordering::SeqCst);
    fence(Ordering::Release);
}

const KIND_SHIFT: u32 = 56;
const WORDS: u64 = 0;
const GRANT: u64 = 1;
const DESCRIPTION: u64 = shard_words::DESCRIPTION * 8;

/// An undo log, either of a shard or of the heap.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    pub(crate) mapping: &'a Mapping,
    /// The offset of the word that contains the log's length in bytes.
    pub(crate) tail: u64,
    /// The offset of the log's area.
    pub(crate) area: u64,
    /// The number of bytes of the area that are backed with memory.
    pub(crate) limit: u64,
}

impl ShardWords<'_> {
    /// Saves `words` words at `at`. If that would make the shard's log long, saves nothing and
    /// returns false.
    #[inline(always)]
    pub(crate) fn save(self, mapping: &Mapping, at: u64, words: u64) -> bool {
        let tail = self.load::<{ shard::LOG_TAIL }>();
        let description = [at, words | WORDS << KIND_SHIFT];
        let Some(next) = self.copy_to_log(mapping, tail, (at, words), description) else {
            return false;
        };
        work::logged(words + shard_words::DESCRIPTION);
        in_order();
        fault::step();
        self.store::<{ shard::LOG_TAIL }>(next);
        in_order();
        fault::step();
        true
    }

    /// Calls `each` with the offset of each entry and its saved words, newest first, if the shard's log
    /// is short. Otherwise returns false. Stops at an invalid entry.
    #[inline(always)]
    pub(crate) fn for_each_short_entry(self, mut each: impl FnMut(u64, &[AtomicU64])) -> bool {
        let log = self.short_log();
        let mut tail = (self.load::<{ shard::LOG_TAIL }>() / 8) as usize;
        if tail > log.len() {
            return false;
        }
        while tail >= shard_words::DESCRIPTION as usize {
            let kind = log[tail - 1].load(Ordering::Relaxed);
            let at = log[tail - 2].load(Ordering::Relaxed);
            tail -= shard_words::DESCRIPTION as usize;
            if kind >> KIND_SHIFT == WORDS {
                let Some(start) = tail.checked_sub(kind as usize) else {
                    return true;
                };
                each(at, &log[start..tail]);
                tail = start;
            }
        }
        true
    }

    /// Discards all entries of the shard's log, which makes the changes permanent.
    #[inline(always)]
    pub(crate) fn forget_log(self) {
        in_order();
        self.store::<{ shard::LOG_TAIL }>(0);
        in_order();
    }
}

impl Mapping {
    /// Returns the undo log of a shard.
    pub(crate) fn shard_log(&self, index: usize) -> Log<'_> {
        let layout = self.layout();
        let base = layout.shard(index);
        let reserved = self.load(base + shard::LOG_RESERVED);
        Log {
            mapping: self,
            tail: base + shard::LOG_TAIL,
            area: base + shard::LOG,
            limit: reserved.min(layout.log_capacity),
        }
    }
}

/// The log's area is too short for the next entry.
pub(crate) struct Full {
    /// The required length of the area in bytes.
    pub(crate) needed: u64,
}

impl Log<'_> {
    /// Returns true if the log is empty.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.mapping.load(self.tail) == 0
    }

    /// Returns the log's length in bytes.
    #[inline(always)]
    pub(crate) fn length(&self) -> u64 {
        self.mapping.load(self.tail)
    }

    /// Saves `words` words at `at`.
    pub(crate) fn save(&self, at: u64, words: u64) -> Result<(), Full> {
        let tail = self.mapping.load(self.tail);
        let next = tail + words * 8 + DESCRIPTION;
        if next > self.limit {
            return Err(Full { needed: next });
        }
        work::logged(words + shard_words::DESCRIPTION);
        let (top, body) = (self.area + tail, words * 8);
        self.mapping.copy_within(at, top, words);
        self.finish(top + body, at, words | WORDS << KIND_SHIFT, next);
        Ok(())
    }

    /// Logs that the run at `page` is about to be granted.
    pub(crate) fn save_grant(&self, page: u64) -> Result<(), Full> {
        let tail = self.mapping.load(self.tail);
        let next = tail + DESCRIPTION;
        if next > self.limit {
            return Err(Full { needed: next });
        }
        self.finish(self.area + tail, page, GRANT << KIND_SHIFT, next);
        Ok(())
    }

    fn finish(&self, description: u64, at: u64, kind: u64, tail: u64) {
        self.mapping.store(description, at);
        self.mapping.store(description + 8, kind);
        in_order();
        fault::step();
        self.mapping.store(self.tail, tail);
        in_order();
        fault::step();
    }

    /// Discards all entries, which makes the changes permanent.
    pub(crate) fn clear(&self) {
        in_order();
        self.mapping.store(self.tail, 0);
        in_order();
    }

    /// Returns the words that were saved while the log grew from `from` to `to` bytes, newest
    /// first, for a reader without a lock.
    ///
    /// The log may change during the call, so the result is valid only if the log and the shard's
    /// counter are unchanged afterward. Returns `None` if the log does not consist of valid
    /// entries. Calls `goes_on` occasionally, which must return false if the result is no longer
    /// needed.
    pub(crate) fn saved(
        &self,
        from: u64,
        to: u64,
        goes_on: impl Fn() -> bool,
    ) -> Option<SavedWords> {
        const LOOK_EVERY: usize = 64;
        if to > self.limit || from > to || !to.is_multiple_of(8) {
            return None;
        }
        let mut saved = SavedWords::default();
        let (mut tail, mut looks) = (to, 0_usize);
        while tail > from {
            looks += 1;
            if tail - from < DESCRIPTION || looks.is_multiple_of(LOOK_EVERY) && !goes_on() {
                return None;
            }
            let top = self.area + tail;
            let at = self.mapping.load(top - 16);
            let kind = self.mapping.load(top - 8);
            let words = kind & ((1 << KIND_SHIFT) - 1);
            let size = match kind >> KIND_SHIFT {
                WORDS => words.saturating_mul(8).saturating_add(DESCRIPTION),
                GRANT => DESCRIPTION,
                _ => return None,
            };
            if size > tail - from {
                return None;
            }
            if kind >> KIND_SHIFT == WORDS {
                if !at.is_multiple_of(8) || at.checked_add(words * 8).is_none() {
                    return None;
                }
                let first = saved.contents.len();
                saved.entries.push(((at, at + words * 8), first));
                // Copy the words, because the log's memory may be returned to the system after the
                // change has ended.
                for word in 0..words {
                    if word % 1024 == 1023 && !goes_on() {
                        return None;
                    }
                    saved
                        .contents
                        .push(self.mapping.load(top - size + word * 8));
                }
            }
            tail -= size;
        }
        Some(saved)
    }

    /// Calls `each` with the offset and the number of words of each entry, newest first, down to a
    /// log length of `until` bytes. Stops at an invalid entry.
    pub(crate) fn for_each_saved(&self, until: u64, mut each: impl FnMut(u64, u64)) {
        self.for_each_entry(until, |at, words, _| each(at, words));
    }

    /// Calls `each` like [`for_each_saved`](Self::for_each_saved), also with the offset of the saved
    /// words in the log.
    pub(crate) fn for_each_entry(&self, until: u64, mut each: impl FnMut(u64, u64, u64)) {
        let mut tail = self.mapping.load(self.tail).min(self.limit);
        while tail >= until.saturating_add(DESCRIPTION) && tail.is_multiple_of(8) {
            let top = self.area + tail;
            let kind = self.mapping.load(top - 8);
            let words = match kind >> KIND_SHIFT {
                WORDS => kind & ((1 << KIND_SHIFT) - 1),
                _ => 0,
            };
            let size = words.saturating_mul(8).saturating_add(DESCRIPTION);
            if size > tail - until {
                return;
            }
            if words != 0 {
                each(self.mapping.load(top - 16), words, top - size);
            }
            tail -= size;
        }
    }

    /// Restores the old contents, newest first, down to a log length of `until` bytes. `may_write`
    /// decides which words may occur in a valid log. `give_back` returns a granted run to the heap.
    pub(crate) fn roll_back(
        &self,
        until: u64,
        may_write: impl Fn(u64, u64) -> bool,
        mut give_back: impl FnMut(u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            let tail = self.mapping.load(self.tail);
            if tail == until {
                return Ok(());
            }
            let damaged = Error::Damaged(Fault {
                at: self.tail,
                what: "a valid entry on top of the undo log",
            });
            if tail < until + DESCRIPTION || tail > self.limit || !tail.is_multiple_of(8) {
                return Err(damaged);
            }
            let top = self.area + tail;
            let at = self.mapping.load(top - 16);
            let kind = self.mapping.load(top - 8);
            let size = match kind >> KIND_SHIFT {
                WORDS => {
                    let words = kind & ((1 << KIND_SHIFT) - 1);
                    let size = words.saturating_mul(8).saturating_add(DESCRIPTION);
                    // An empty range is not checked, because it may be at the end of the store.
                    let is_empty = words == 0;
                    if size > tail - until || !is_empty && !may_write(at, words) {
                        return Err(damaged);
                    }
                    if !is_empty {
                        self.mapping.save_for_copy(at, words * 8);
                        self.mapping.copy_within(top - size, at, words);
                    }
                    size
                }
                GRANT if kind == GRANT << KIND_SHIFT => {
                    give_back(at)?;
                    DESCRIPTION
                }
                _ => return Err(damaged),
            };
            in_order();
            fault::step();
            self.mapping.store(self.tail, tail - size);
            in_order();
            fault::step();
        }
    }
}
