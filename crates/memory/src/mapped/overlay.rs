//! What words held before changes that are not finished, laid over the mapped file for a reader (R9).
//!
//! An overlay has a copy of what the undo logs say of the words that changed. A mapping *under* an overlay reads those
//! words from there and all others from where they are. It also notes each range that is read: a range that a change
//! reaches later was perhaps read too late.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::mapped::blocks;
use crate::mapped::fork_mutex::{ForkGuard, ForkMutex};
use crate::mapped::map::Map;

/// Bytes that are copied before their changed words are put right.
const CHUNK: u64 = 64 * 1024;

/// By the offset of a range's first word: the offset behind its last one, and which of the contents is its first.
type Ranges = BTreeMap<u64, (u64, usize)>;

/// Words that entries of an undo log saved.
#[derive(Default)]
pub(crate) struct SavedWords {
    /// Of each entry where its words begin and end, and which of the contents is its first. Newest first.
    pub(crate) entries: Vec<((u64, u64), usize)>,
    /// What they held.
    pub(crate) contents: Vec<u64>,
}

/// Words that were changed, and what they held before.
#[derive(Default)]
pub(crate) struct Changed {
    ranges: Ranges,
    contents: Vec<u64>,
}

/// What a long log has laid over a shard, kept for the next reader that looks back at it: a writer that is stopped in the
/// midst of a long change is looked back at time and again.
pub(crate) struct LoggedChanges {
    /// The counter, with which a log only grows, or only shrinks.
    pub(crate) counter: u64,
    /// How much of the log it is.
    pub(crate) tail: u64,
    pub(crate) changed: Changed,
}

/// Words as they were before changes, and what was read of the file under them. It grows while it is read through.
pub(crate) struct Overlay(ForkMutex<Inner>);

#[derive(Default)]
struct Inner {
    changed: Changed,
    /// What was read: starts and ends.
    read: Vec<(u64, u64)>,
}

impl Overlay {
    /// An overlay of what was changed so far.
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

    /// Adds what entries of a log saved, the oldest first. Words that are known already stay: what was saved first counts.
    /// Returns whether a word is among them that was not known, and was read.
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

/// Adds a range whose first word has this content; calls `added` with each part that was not known.
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

/// Whether sorted ranges, which do not touch, have any of a range.
fn have(ranges: &[(u64, u64)], start: u64, end: u64) -> bool {
    let next = ranges.partition_point(|range| range.1 <= start);
    ranges.get(next).is_some_and(|range| range.0 < end)
}

impl Inner {
    /// Sorts what was read into ranges that do not touch.
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
    /// What a word held, if it was changed.
    fn find(&self, at: u64) -> Option<u64> {
        let (&start, &(end, first)) = self.ranges.range(..=at).next_back()?;
        let index = first + (at.wrapping_sub(start) / 8) as usize;
        (at < end).then(|| self.contents[index])
    }

    /// The parts of a range that were changed: where each begins, and what it held.
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

/// Reads of the mapped file under an overlay.
impl Overlay {
    /// What lies over a range, which is noted as read.
    fn over(&self, file: &Map, at: u64, length: u64) -> ForkGuard<'_, Inner> {
        let end = at.saturating_add(length);
        if !at.is_multiple_of(8) || end > file.length() {
            outside(at, length);
        }
        let mut inner = self.inner();
        inner.note(at, end.next_multiple_of(8));
        inner
    }

    /// The word at an offset.
    pub(super) fn load(&self, file: &Map, at: u64) -> u64 {
        let old = self.over(file, at, 8).changed.find(at);
        // SAFETY: aligned and inside the mapping (looked at by `over`); every access to it is atomic.
        let word = unsafe { AtomicU64::from_ptr(file.start().add(at as usize).cast()) };
        old.unwrap_or_else(|| word.load(Ordering::Relaxed))
    }

    /// Calls `each` with the bytes of a range, a chunk at a time, until it says that it has seen enough, and where each
    /// begins, in bytes from the range's start.
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
            // SAFETY: the source is aligned and inside the mapping (looked at by `over`); the target is a slice.
            unsafe {
                let source = file.start().add(start as usize).cast::<u64>();
                blocks::copy_out(source, words.as_mut_ptr(), words.len());
            }
            for (from, old) in inner.changed.within(start, start + size) {
                let first = ((from - start) / 8) as usize;
                words[first..first + old.len()].copy_from_slice(old);
            }
            // SAFETY: the bytes of words, for as long as these are borrowed.
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

    /// Appends `length` bytes to `out`, from `skip` bytes behind an offset on.
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

    /// Fills all of `out` from an offset on.
    pub(super) fn copy(&self, file: &Map, at: u64, out: &mut [MaybeUninit<u8>]) {
        self.each_chunk(file, at, out.len() as u64, |start, bytes| {
            let target = &mut out[start..start + bytes.len()];
            for (target, &byte) in target.iter_mut().zip(bytes) {
                target.write(byte);
            }
            true
        });
    }

    /// Whether the bytes from an offset on are the expected ones.
    pub(super) fn equals(&self, file: &Map, at: u64, expected: &[u8]) -> bool {
        let mut equal = true;
        self.each_chunk(file, at, expected.len() as u64, |start, bytes| {
            equal = expected[start..start + bytes.len()] == *bytes;
            equal
        });
        equal
    }

    /// Takes what was changed off.
    pub(super) fn take_changed(&self) -> Changed {
        std::mem::take(&mut self.inner().changed)
    }

    /// Forgets what was read.
    pub(super) fn forget_reads(&self) {
        self.inner().read.clear();
    }
}

/// Ends a read at an offset that is wrong.
#[cold]
pub(super) fn outside(at: u64, length: u64) -> ! {
    panic!("an offset outside of the file: {at:#x}, {length} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_content_of_each_word_counts() {
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
    fn a_range_is_known_to_have_been_read_by_any_of_its_words() {
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
