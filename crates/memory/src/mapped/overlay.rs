//! Overlays: the old values of words that unfinished changes have modified, for readers of the
//! mapped file (R9).
//!
//! An overlay contains a copy of the old words found in the undo logs. A mapping *under* an overlay
//! reads those words from the overlay and all other words from the file. The overlay also records
//! every range that is read: if the log later turns out to cover such a range, the read may have
//! seen an unfinished change and is discarded.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapped::blocks;
use crate::mapped::fork_mutex::{ForkGuard, ForkMutex};
use crate::mapped::map::Map;

/// The size of a chunk in bytes. Each chunk is copied first, and then its changed words are
/// replaced by their old values.
const CHUNK: u64 = 64 * 1024;

/// Maps the offset of a range's first word to the end offset of the range and the index of the
/// range's first value in the contents.
type Ranges = BTreeMap<u64, (u64, usize)>;

/// Words saved by undo log entries.
#[derive(Default)]
pub(crate) struct SavedWords {
    /// For each entry, newest first: the start and end offset of its words, and the index of the
    /// first of their values in `contents`.
    pub(crate) entries: Vec<((u64, u64), usize)>,
    /// The values that the words had when they were saved.
    pub(crate) contents: Vec<u64>,
}

/// Words that were changed, with their previous values.
#[derive(Default)]
pub(crate) struct Changed {
    ranges: Ranges,
    contents: Vec<u64>,
}

/// The overlay built from a long log, cached for the next reader of the shard. As long as a writer
/// is stopped in the middle of a long change, every reader of the shard needs this overlay.
pub(crate) struct LoggedChanges {
    /// The shard's version counter when the log was read. As long as this value is unchanged, the
    /// log either only grows or only shrinks.
    pub(crate) counter: u64,
    /// The number of bytes of the log that `changed` covers.
    pub(crate) tail: u64,
    pub(crate) changed: Changed,
}

/// The values of words before unfinished changes, plus the file ranges that were read. Grows while
/// a reader uses it.
pub(crate) struct Overlay(ForkMutex<Inner>);

#[derive(Default)]
struct Inner {
    changed: Changed,
    /// The ranges that were read, as pairs of start and end offset.
    read: Vec<(u64, u64)>,
}

impl Overlay {
    /// Creates an overlay from the changes known so far.
    pub(crate) fn of(changed: Changed) -> Overlay {
        let inner = Inner {
            changed,
            read: Vec::new(),
        };
        Overlay(ForkMutex::new(inner, Inner::default))
    }

    fn inner(&self) -> ForkGuard<'_, Inner> {
        self.0.lock()
    }

    /// Adds the words that log entries saved, oldest first. A word that is already present keeps
    /// its value, because the value saved first is the original. Returns true if a newly added word
    /// had already been read.
    pub(super) fn add(&self, saved: &SavedWords) -> bool {
        let mut inner = self.inner();
        inner.sort_reads();
        let Inner { changed, read } = &mut *inner;
        let known = changed.contents.len();
        changed.contents.extend_from_slice(&saved.contents);
        let mut was_read = false;
        for &(range, first) in saved.entries.iter().rev() {
            add(&mut changed.ranges, range, known + first, |start, end| {
                was_read |= have(read, start, end);
            });
        }
        was_read
    }
}

/// Adds a range whose first value is at index `first`, and calls `added` with each subrange that
/// was not yet present.
fn add(ranges: &mut Ranges, (at, end): (u64, u64), first: usize, mut added: impl FnMut(u64, u64)) {
    let mut start = at;
    while start < end {
        let before = ranges.range(..=start).next_back();
        if let Some((_, &(stop, _))) = before
            && stop > start
        {
            start = stop;
            continue;
        }
        let next = ranges.range(start..end).next();
        let stop = next.map_or(end, |(&next, _)| next);
        ranges.insert(start, (stop, first + ((start - at) / 8) as usize));
        added(start, stop);
        start = stop;
    }
}

/// Returns true if any of the sorted, disjoint `ranges` overlaps the range from `start` to `end`.
fn have(ranges: &[(u64, u64)], start: u64, end: u64) -> bool {
    let next = ranges.partition_point(|range| range.1 <= start);
    ranges.get(next).is_some_and(|range| range.0 < end)
}

impl Inner {
    /// Sorts the ranges that were read and merges adjacent and overlapping ranges.
    fn sort_reads(&mut self) {
        self.read.sort_unstable();
        self.read.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
    }

    fn note(&mut self, start: u64, end: u64) {
        match self.read.last_mut() {
            Some(last) if (last.0..=last.1).contains(&start) => last.1 = last.1.max(end),
            _ => self.read.push((start, end)),
        }
    }
}

impl Changed {
    /// Returns the old value of a word, if the word was changed.
    fn find(&self, at: u64) -> Option<u64> {
        let (&start, &(end, first)) = self.ranges.range(..=at).next_back()?;
        let index = first + (at.wrapping_sub(start) / 8) as usize;
        (at < end).then(|| self.contents[index])
    }

    /// Iterates over the changed subranges of a range, yielding the offset and the old values of
    /// each.
    fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &[u64])> {
        let first = self.ranges.range(..start).next_back();
        let parts = first.into_iter().chain(self.ranges.range(start..end));
        parts.filter_map(move |(&at, &(stop, first))| {
            let (from, to) = (at.max(start), stop.min(end));
            let index = |offset: u64| first + ((offset - at) / 8) as usize;
            (from < to).then(|| (from, &self.contents[index(from)..index(to)]))
        })
    }
}

/// Reads the mapped file through an overlay.
impl Overlay {
    /// Records that a range was read and returns the locked overlay.
    fn over(&self, file: &Map, at: u64, length: u64) -> ForkGuard<'_, Inner> {
        let end = at.saturating_add(length);
        if !at.is_multiple_of(8) || end > file.length() {
            outside(at, length);
        }
        let mut inner = self.inner();
        inner.note(at, end.next_multiple_of(8));
        inner
    }

    /// Returns the word at an offset.
    pub(super) fn load(&self, file: &Map, at: u64) -> u64 {
        let old = self.over(file, at, 8).changed.find(at);
        // SAFETY: `over` checked that the word is aligned and inside the mapping; every access to
        // it is atomic.
        let word = unsafe { AtomicU64::from_ptr(file.start().add(at as usize).cast()) };
        old.unwrap_or_else(|| word.load(Ordering::Relaxed))
    }

    /// Calls `each` with successive chunks of a range until `each` returns false. The first
    /// argument is the chunk's distance in bytes from the start of the range.
    fn each_chunk(
        &self,
        file: &Map,
        at: u64,
        length: u64,
        mut each: impl FnMut(usize, &[u8]) -> bool,
    ) {
        let inner = self.over(file, at, length);
        let whole = length.next_multiple_of(8);
        let mut words = vec![0_u64; (whole.min(CHUNK) / 8) as usize];
        let mut done = 0;
        while done < length {
            let (start, size) = (at + done, (whole - done).min(CHUNK));
            let words = &mut words[..(size / 8) as usize];
            // SAFETY: `over` checked that the source is aligned and inside the mapping; the target
            // is a slice.
            unsafe {
                let source = file.start().add(start as usize).cast::<u64>();
                blocks::copy_out(source, words.as_mut_ptr(), words.len());
            }
            for (from, old) in inner.changed.within(start, start + size) {
                let first = ((from - start) / 8) as usize;
                words[first..first + old.len()].copy_from_slice(old);
            }
            // SAFETY: the byte slice covers exactly the words of `words`, which stays borrowed as
            // long as the slice is in use.
            let bytes = unsafe {
                std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words))
            };
            let used = (length - done).min(size) as usize;
            if !each(done as usize, &bytes[..used]) {
                return;
            }
            done += size;
        }
    }

    /// Appends `length` bytes to `out`, starting `skip` bytes after the offset `at`.
    pub(super) fn append(
        &self,
        file: &Map,
        at: u64,
        skip: usize,
        length: usize,
        out: &mut Vec<u8>,
    ) {
        out.reserve(length);
        self.each_chunk(file, at, (skip + length) as u64, |start, bytes| {
            out.extend_from_slice(&bytes[skip.saturating_sub(start).min(bytes.len())..]);
            true
        });
    }

    /// Fills `out` with the bytes starting at an offset.
    pub(super) fn copy(&self, file: &Map, at: u64, out: &mut [MaybeUninit<u8>]) {
        self.each_chunk(file, at, out.len() as u64, |start, bytes| {
            let target = &mut out[start..start + bytes.len()];
            for (target, &byte) in target.iter_mut().zip(bytes) {
                target.write(byte);
            }
            true
        });
    }

    /// Returns true if the bytes starting at an offset equal `expected`.
    pub(super) fn equals(&self, file: &Map, at: u64, expected: &[u8]) -> bool {
        let mut equal = true;
        self.each_chunk(file, at, expected.len() as u64, |start, bytes| {
            equal = expected[start..start + bytes.len()] == *bytes;
            equal
        });
        equal
    }

    /// Removes the changed words from the overlay and returns them.
    pub(super) fn take_changed(&self) -> Changed {
        std::mem::take(&mut self.inner().changed)
    }

    /// Clears the list of ranges that have been read.
    pub(super) fn forget_reads(&self) {
        self.inner().read.clear();
    }
}

/// Panics because a read used an offset that is misaligned or outside the file.
#[cold]
pub(super) fn outside(at: u64, length: u64) -> ! {
    panic!("offset {at:#x} with {length} bytes is outside the file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_saved_content_of_each_word_wins() {
        let mut ranges = Ranges::new();
        let mut insert = |range, first| {
            let mut added = Vec::new();
            add(&mut ranges, range, first, |start, end| {
                added.push((start, end));
            });
            added
        };
        assert_eq!(insert((64, 96), 100), [(64, 96)]);
        assert_eq!(insert((64, 96), 200), []);
        assert_eq!(insert((120, 128), 300), [(120, 128)]);
        let gaps = [(40, 64), (96, 120), (128, 136)];
        assert_eq!(insert((40, 136), 400), gaps);
        let changed = Changed {
            ranges,
            contents: (0..500).collect(),
        };
        let old = |at| changed.find(at);
        assert_eq!([old(32), old(136)], [None, None]);
        assert_eq!([old(40), old(56)], [Some(400), Some(402)]);
        assert_eq!([old(64), old(88)], [Some(100), Some(103)]);
        assert_eq!([old(96), old(112)], [Some(407), Some(409)]);
        assert_eq!([old(120), old(128)], [Some(300), Some(411)]);
        let within: Vec<_> = changed.within(48, 104).collect();
        let parts: [(u64, &[u64]); 3] =
            [(48, &[401, 402]), (64, &[100, 101, 102, 103]), (96, &[407])];
        assert_eq!(within, parts);
    }

    #[test]
    fn a_range_counts_as_read_if_any_of_its_words_was() {
        let mut inner = Inner {
            changed: Changed::default(),
            read: Vec::new(),
        };
        for (start, end) in [(80, 96), (96, 104), (8, 16), (40, 80), (12, 16)] {
            inner.note(start, end);
        }
        inner.sort_reads();
        assert_eq!(inner.read, [(8, 16), (40, 104)]);
        for (start, end, read) in [
            (0, 8, false),
            (0, 9, true),
            (16, 40, false),
            (16, 48, true),
            (96, 200, true),
            (104, 112, false),
        ] {
            assert_eq!(have(&inner.read, start, end), read, "{start} to {end}");
        }
    }
}
