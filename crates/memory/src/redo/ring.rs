//! The ring of records that are not in a journal file yet (J2).
//!
//! A record takes its place while the locks of its step are held, so the records of the same words
//! are in the order of their changes. The ring has a lock of its own, which is held only while a
//! header is written. A record is *open* until its step has taken effect. Whether an open record of
//! a dead process counts is decided by the process's transaction record (W6), or by the heap's undo
//! log.
//!
//! Journal positions are numbers of bytes that only increase. The ring contains the positions from
//! `REDO_WRITTEN` to `REDO_HEAD`, each at the position modulo the ring's length.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::error::Error;
use crate::mapped::futex;
use crate::mapped::layout::{control, redo};
use crate::mapped::mapping::{self, Mapping};
use crate::probes::fault;
use crate::processes::lock;
use crate::redo::record::{self, HEADER, Kind, State};
use crate::segment::Segment;
use crate::segment::waiting::{WaitedLock, Waiter};
use crate::undo::log::in_order;

/// The minimum length of the ring in bytes.
pub(crate) const SIZE_MIN: u64 = 64 << 10;
/// The part of the ring that only heap steps, removals and restored contents may use, as a divisor
/// of its length.
const SPARE_PART: u64 = 8;

/// The number of lines of the ring that are prefetched for the next record.
const LINES: usize = 3;

/// The ring has no space for a record.
pub(crate) struct Full {
    /// The length of the record in bytes.
    pub(crate) needed: u64,
}

/// The reason for which a record was not appended.
pub(crate) enum Refused {
    Full(Full),
    Failed(Error),
}

/// A record to append.
pub(crate) struct Heading {
    pub(crate) kind: Kind,
    /// The index of the transaction record of the appending thread.
    pub(crate) record: u64,
    pub(crate) number: u64,
    /// The changed shards, as bits.
    pub(crate) shards: u64,
    /// Whether the record may use the spare part of the ring.
    pub(crate) may_use_spare: bool,
    pub(crate) state: State,
}

impl Mapping {
    /// Returns true if transactions and heap steps append records. The answer remains valid as long
    /// as the caller holds its lock.
    #[inline(always)]
    pub(crate) fn is_journaled(&self) -> bool {
        self.load_control::<{ control::JOURNALED }>() != 0
    }

    /// Returns the length of the ring in bytes, a power of two. Returns 0 if the store has no ring, or
    /// if the word is damaged.
    #[inline(always)]
    pub(crate) fn redo_size(&self) -> u64 {
        let size = self.load_control::<{ control::REDO_SIZE }>();
        let is_power = size & size.wrapping_sub(1) == 0;
        let is_valid = is_power && size >= SIZE_MIN && size <= self.layout().redo_capacity;
        if is_valid { size } else { 0 }
    }

    /// Returns the offset of the ring's word at a journal position.
    #[inline(always)]
    pub(crate) fn redo_word(&self, position: u64) -> u64 {
        let size = self.redo_size().max(SIZE_MIN);
        self.layout().redo + redo::DATA + (position & size.wrapping_sub(1) & !7)
    }
}

/// Writes a record's words into the ring.
pub(crate) struct RingWriter<'a> {
    mapping: &'a Mapping,
    words: &'a [AtomicU64],
    /// The number of words in the ring, minus 1.
    mask: usize,
    /// The journal position of the next word, in words.
    next: usize,
}

impl<'a> RingWriter<'a> {
    #[inline(always)]
    fn new(mapping: &'a Mapping, size: u64, position: u64) -> RingWriter<'a> {
        let words = mapping.redo_words(size);
        RingWriter {
            mapping,
            words,
            mask: words.len().wrapping_sub(1),
            next: (position / 8) as usize,
        }
    }

    /// Writes a word.
    #[inline(always)]
    pub(crate) fn put(&mut self, word: u64) {
        self.words[self.next & self.mask].store(word, Ordering::Relaxed);
        self.next += 1;
    }

    /// Prefetches the lines of the next record. The process that wrote the records to a file has read
    /// the lines, so the first write to each of them takes as long as a cache miss.
    #[inline(always)]
    fn prefetch_next(&self) {
        const LINE: usize = 8;
        for line in 1..=LINES {
            mapping::prefetch_to_write(&self.words[(self.next + line * LINE) & self.mask]);
        }
    }

    /// Writes several words.
    #[inline(always)]
    fn put_all<const N: usize>(&mut self, values: [u64; N]) {
        let place = self.next & self.mask;
        match self.words.get(place..place + N) {
            Some(words) => {
                for (word, value) in words.iter().zip(values) {
                    word.store(value, Ordering::Relaxed);
                }
                self.next += N;
            }
            None => values.into_iter().for_each(|value| self.put(value)),
        }
    }

    /// Copies words of the store.
    #[inline(always)]
    pub(crate) fn copy(&mut self, from: u64, words: u64) {
        if words == 1 {
            return self.put(self.mapping.load(from));
        }
        let start = self.mapping.layout().redo + redo::DATA;
        let place = self.next & self.mask;
        let first = words.min((self.words.len() - place) as u64);
        self.mapping
            .copy_within(from, start + place as u64 * 8, first);
        if first < words {
            self.mapping
                .copy_within(from + first * 8, start, words - first);
        }
        self.next += words as usize;
    }
}

/// A guard that holds the ring's lock.
pub(crate) struct RedoGuard<'a> {
    segment: &'a Segment,
}

impl Drop for RedoGuard<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        let lock = self.segment.mapping.lock(control::REDO_LOCK);
        if lock::release(lock) {
            futex::wake_one(lock.word());
        }
        fault::step();
    }
}

/// Acquires the ring's lock. A dead owner leaves nothing to recover: a header counts once
/// `REDO_HEAD` has moved past it.
#[inline(always)]
pub(crate) fn take_lock(segment: &Segment) -> Result<RedoGuard<'_>, Error> {
    let word = segment.mapping.lock(control::REDO_LOCK);
    if !lock::try_acquire(word, segment.process.owner()) {
        wait_for_lock(segment)?;
    }
    fault::step();
    Ok(RedoGuard { segment })
}

#[cold]
fn wait_for_lock(segment: &Segment) -> Result<(), Error> {
    let word = segment.mapping.lock(control::REDO_LOCK);
    let mut waiter = Waiter::new(segment, WaitedLock::Redo, segment.patience());
    lock::acquire(word, segment.process.owner(), &mut waiter)
        .map_err(|refusal| waiter.explain(refusal))
}

/// Appends a record whose body has `words` words, which `write` writes. Returns the record's
/// position. The caller must hold the locks of the record's step.
#[inline]
pub(crate) fn append(
    segment: &Segment,
    heading: &Heading,
    words: u64,
    write: impl FnOnce(&mut RingWriter<'_>),
) -> Result<u64, Refused> {
    let mapping = &segment.mapping;
    let total = (HEADER + words) * 8;
    let guard = take_lock(segment).map_err(Refused::Failed)?;
    let size = mapping.redo_size();
    let head = mapping.load_control::<{ control::REDO_HEAD }>();
    let written = mapping.word(control::REDO_WRITTEN).load(Ordering::Acquire);
    let used = head.wrapping_sub(written);
    let spare = if heading.may_use_spare {
        0
    } else {
        size / SPARE_PART
    };
    if used.saturating_add(total).saturating_add(spare) > size {
        return Err(Refused::Full(Full { needed: total }));
    }
    let mut writer = RingWriter::new(mapping, size, head);
    writer.put_all::<{ HEADER as usize }>([
        head,
        record::length(HEADER + words, heading.kind),
        u64::from(segment.process.owner().bits()) | heading.record << 32,
        heading.number,
        heading.shards,
        // A record that counts from the start must be complete first.
        State::Open as u64,
    ]);
    in_order();
    fault::step();
    mapping
        .word(control::REDO_HEAD)
        .store(head + total, Ordering::Release);
    fault::step();
    drop(guard);
    write(&mut writer);
    debug_assert_eq!(writer.next as u64 * 8, head + total);
    writer.prefetch_next();
    in_order();
    fault::step();
    if heading.state != State::Open {
        settle(mapping, head, heading.state);
    }
    Ok(head)
}

/// Records whether the step of an open record took effect.
#[inline(always)]
pub(crate) fn settle(mapping: &Mapping, position: u64, state: State) {
    let at = mapping.redo_word(position + record::STATE * 8);
    mapping.word(at).store(state as u64, Ordering::Release);
    fault::step();
}

/// The header of a record in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) position: u64,
    /// The length of the record in bytes.
    pub(crate) length: u64,
    pub(crate) kind: Kind,
    /// The process that appended the record, encoded as in a lock word.
    pub(crate) owner: u32,
    /// The index of its transaction record.
    pub(crate) record: u64,
    pub(crate) number: u64,
    pub(crate) state: State,
}

/// Reads the header at a position between `REDO_WRITTEN` and `REDO_HEAD`. Returns `None` if it is
/// not valid, in a damaged store.
pub(crate) fn header(mapping: &Mapping, position: u64) -> Option<Header> {
    let word = |index: u64| mapping.load(mapping.redo_word(position + index * 8));
    let state = mapping
        .word(mapping.redo_word(position + record::STATE * 8))
        .load(Ordering::Acquire);
    fence(Ordering::Acquire);
    let (words, kind) = record::unpack_length(word(record::LENGTH))?;
    let owner = word(record::OWNER);
    (word(record::POSITION) == position).then_some(Header {
        position,
        length: words * 8,
        kind,
        owner: owner as u32,
        record: owner >> 32,
        number: word(record::NUMBER),
        state: State::unpack(state)?,
    })
}

/// Appends the ring's bytes from one position to another to `out`.
pub(crate) fn read(mapping: &Mapping, from: u64, to: u64, out: &mut Vec<u8>) {
    let size = mapping.redo_size().max(SIZE_MIN);
    let start = mapping.layout().redo + redo::DATA;
    let mut position = from;
    while position < to {
        let place = position & (size - 1);
        let some = (size - place).min(to - position);
        mapping.append_to(start + place, some as usize, out);
        position += some;
    }
}
