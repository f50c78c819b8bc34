//! The undo log (W4, W5): old contents, saved before they are changed.
//!
//! One log a shard and one for the heap, each a stack of entries in an area of
//! its own. An entry ends with its description, so that the stack is read from
//! its top:
//!
//! ```text
//! | old words ... | offset | kind and number of words |
//!                                                      ^ tail
//! ```
//!
//! The entry's body is written first, then the tail, then the change is made:
//! a process that dies between any two of these leaves a log that undoes
//! exactly what was done. Rolling back moves the tail down entry by entry, so
//! that it may itself be interrupted at any point.

use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::{Error, Fault};
use crate::mapped::layout::shard;
use crate::mapped::mapping::Mapping;
use crate::mapped::words::{self, ShardWords};
use crate::probes::fault;
use crate::probes::work;

const KIND_SHIFT: u32 = 56;
const WORDS: u64 = 0;
const GRANT: u64 = 1;
const DESCRIPTION: u64 = words::DESCRIPTION * 8;

/// One undo log.
#[derive(Clone, Copy)]
pub(crate) struct Log<'a> {
    pub(crate) mapping: &'a Mapping,
    /// Offset of the word that holds the bytes in use.
    pub(crate) tail: u64,
    /// Start of the area.
    pub(crate) area: u64,
    /// Bytes of the area that are backed by memory.
    pub(crate) limit: u64,
}

impl ShardWords<'_> {
    /// Saves `words` words from `at` on, while the shard's log is short. Returns whether it was.
    #[inline(always)]
    pub(crate) fn save(self, mapping: &Mapping, at: u64, words: u64) -> bool {
        let tail = self.load::<{ shard::LOG_TAIL }>();
        let description = [at, words | WORDS << KIND_SHIFT];
        let Some(next) = self.copy_to_log(mapping, tail, (at, words), description) else {
            return false;
        };
        work::logged(words + words::DESCRIPTION);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.store::<{ shard::LOG_TAIL }>(next);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        true
    }

    /// Forgets all entries of the shard's log: the changes stay.
    #[inline(always)]
    pub(crate) fn forget_log(self) {
        compiler_fence(Ordering::SeqCst);
        self.store::<{ shard::LOG_TAIL }>(0);
        compiler_fence(Ordering::SeqCst);
    }
}

/// The log's area is too short for the next entry.
pub(crate) struct Full {
    /// Bytes the area must have.
    pub(crate) needed: u64,
}

impl Log<'_> {
    /// Whether nothing is to be undone.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.mapping.load(self.tail) == 0
    }

    /// Saves `words` words from `at` on.
    pub(crate) fn save(&self, at: u64, words: u64) -> Result<(), Full> {
        let tail = self.mapping.load(self.tail);
        let next = tail + words * 8 + DESCRIPTION;
        if next > self.limit {
            return Err(Full { needed: next });
        }
        work::logged(words + words::DESCRIPTION);
        let (top, body) = (self.area + tail, words * 8);
        self.mapping.copy_within(at, top, words);
        self.finish(top + body, at, words | WORDS << KIND_SHIFT, next);
        Ok(())
    }

    /// Notes that the run at `page` is about to be granted.
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
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.mapping.store(self.tail, tail);
        compiler_fence(Ordering::SeqCst);
        fault::step();
    }

    /// Forgets all entries: the changes stay.
    pub(crate) fn clear(&self) {
        compiler_fence(Ordering::SeqCst);
        self.mapping.store(self.tail, 0);
        compiler_fence(Ordering::SeqCst);
    }

    /// Calls `each` with the place and the number of the words of each entry, newest first, down to where the log was
    /// `until` bytes long. What does not hold together ends it.
    pub(crate) fn for_each_saved(&self, until: u64, mut each: impl FnMut(u64, u64)) {
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
                each(self.mapping.load(top - 16), words);
            }
            tail -= size;
        }
    }

    /// Puts the old contents back, newest first, down to where the log was
    /// `until` bytes long. `may_write` says which words a sound log may name;
    /// `give_back` returns a granted run to the heap.
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
                what: "a sound entry on top of the undo log",
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
                    // An empty block may lie where the store ends.
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
            compiler_fence(Ordering::SeqCst);
            fault::step();
            self.mapping.store(self.tail, tail - size);
            compiler_fence(Ordering::SeqCst);
            fault::step();
        }
    }
}
