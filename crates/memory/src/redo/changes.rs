//! The ranges of words that a record contains, collected from undo logs and from fills.

use std::sync::atomic::Ordering;

use crate::mapped::mapping::Mapping;
use crate::mapped::shard_words::ShardWords;
use crate::redo::record::{self, ENTRY_WORDS};
use crate::redo::ring::RingWriter;
use crate::undo::log::Log;

/// Returns whether no word from `at` on, up to the end of its structure, is ever changed without being
/// logged first. This is true of the shards' words, but not of the heap: a transaction that failed or
/// died may have filled free memory there, and its contents are in no record. A later transaction
/// that logs such a word and stores the same contents has changed it, as far as the journal knows.
#[inline(always)]
fn is_always_logged(mapping: &Mapping, at: u64) -> bool {
    at < mapping.layout().reserved_map
}

/// The ranges that a step changed, and the runs that it granted.
#[derive(Default)]
pub(crate) struct Changes {
    /// Ranges as offsets and numbers of words.
    ranges: Vec<(u64, u64)>,
    /// The first pages of granted runs.
    grants: Vec<u64>,
    /// Words whose new values differ from their current ones.
    values: Vec<(u64, u64)>,
}

impl Changes {
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.grants.clear();
        self.values.clear();
    }

    /// Returns whether the buffers are so small that they may be kept for the next transaction.
    pub(crate) fn is_small(&self) -> bool {
        /// The maximum number of ranges in a buffer that is kept.
        const KEPT: usize = 1 << 16;
        self.ranges.capacity() <= KEPT
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, at: u64, words: u64) {
        if words > 0 {
            self.ranges.push((at, words));
        }
    }

    /// Returns the number of ranges.
    pub(crate) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// Forgets all ranges but the first `ranges` ones.
    pub(crate) fn truncate(&mut self, ranges: usize) {
        self.ranges.truncate(ranges);
    }

    /// Adds the ranges of all entries in a shard's undo log. See [`add_log`](Self::add_log).
    #[inline(always)]
    pub(crate) fn add_shard(
        &mut self,
        mapping: &Mapping,
        shard: ShardWords<'_>,
        index: usize,
        unchanged_words: bool,
    ) {
        let is_short = shard.for_each_short_entry(|at, saved| {
            let may_leave_out = !unchanged_words && is_always_logged(mapping, at);
            self.add_changed(at, saved.len() as u64, |word| {
                let old = saved[word as usize].load(Ordering::Relaxed);
                may_leave_out && mapping.load(at + word * 8) == old
            });
        });
        if !is_short {
            self.add_log(&mapping.shard_log(index), unchanged_words);
        }
    }

    /// Adds the ranges of all entries in an undo log. Leaves out words at both ends of a range that
    /// have their old contents, unless `unchanged_words` is true or they may have been filled.
    ///
    /// A word that has been logged repeatedly is left out only if it has its oldest contents.
    pub(crate) fn add_log(&mut self, log: &Log<'_>, unchanged_words: bool) {
        let mapping = log.mapping;
        log.for_each_entry(0, |at, words, saved| {
            let may_leave_out = !unchanged_words && is_always_logged(mapping, at);
            self.add_changed(at, words, |word| {
                may_leave_out && mapping.load(at + word * 8) == mapping.load(saved + word * 8)
            });
        });
    }

    /// Adds a range without the words at both ends for which `is_left_out` is true.
    #[inline(always)]
    fn add_changed(&mut self, at: u64, words: u64, is_left_out: impl Fn(u64) -> bool) {
        let (mut start, mut end) = (0, words);
        while start < end && is_left_out(start) {
            start += 1;
        }
        while start < end && is_left_out(end - 1) {
            end -= 1;
        }
        self.add(at + start * 8, end - start);
    }

    pub(crate) fn add_grant(&mut self, page: u64) {
        self.grants.push(page);
    }

    /// Adds a word that will have another value once the step has taken effect.
    pub(crate) fn add_value(&mut self, at: u64, value: u64) {
        self.values.push((at, value));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.values.is_empty() && self.grants.is_empty()
    }

    /// Sorts and merges the ranges. Returns the number of words in the record's body.
    pub(crate) fn finish(&mut self) -> u64 {
        let ranges = &mut self.ranges;
        if ranges.len() > 1 {
            ranges.sort_unstable();
            let mut last = 0;
            for next in 1..ranges.len() {
                let (at, words) = ranges[next];
                let (start, length) = ranges[last];
                if at <= start + length * 8 {
                    ranges[last].1 = length.max((at - start) / 8 + words);
                } else {
                    last += 1;
                    ranges[last] = (at, words);
                }
            }
            ranges.truncate(last + 1);
        }
        let words = |&(_, words): &(u64, u64)| words + words.div_ceil(ENTRY_WORDS);
        ranges.iter().map(words).sum::<u64>()
            + self.grants.len() as u64
            + self.values.len() as u64 * 2
    }

    /// Writes the body of the record: the current contents of the ranges.
    pub(crate) fn write(&self, writer: &mut RingWriter<'_>) {
        for &(at, words) in &self.ranges {
            let mut done = 0;
            while done < words {
                let some = (words - done).min(ENTRY_WORDS);
                writer.put(record::entry(at + done * 8, some));
                writer.copy(at + done * 8, some);
                done += some;
            }
        }
        for &page in &self.grants {
            writer.put(record::grant(page));
        }
        for &(at, value) in &self.values {
            writer.put(record::entry(at, 1));
            writer.put(value);
        }
    }
}
