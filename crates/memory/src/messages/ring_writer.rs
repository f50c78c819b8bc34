//! Appends to the message ring (M3), under the ring's own lock. If a writer dies, the next owner of
//! the lock finishes counting for it.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::Error;
use crate::mapped::futex;
use crate::mapped::layout::{record, ring as field};
use crate::mapped::thread_cached::ThreadCached;
use crate::messages::ring::{self, announce, counter, move_tail, padded};
use crate::messages::ring_reader::{Look, RingReader};
use crate::probes::fault;
use crate::processes::lock;
use crate::segment::waiting::{WaitedLock, Waiter};
use crate::segment::{Segment, durability, membership, place};

/// The number of data bytes that are initially backed with memory.
const FIRST_BYTES: u64 = 64 * 1024;
/// The maximum number of attempts to reserve memory for one append. One is enough unless the store
/// is damaged.
const ROOM_ATTEMPTS: u32 = 8;
/// The maximum number of records in a batch, and the maximum number of bytes in a batch before its
/// last record. Both limit the work done under the lock (W9).
const BATCH: usize = 256;
const BATCH_BYTES: usize = 32 * 1024;
/// The maximum size in bytes of a buffer that is retained for reuse.
const KEPT: usize = 1 << 20;

thread_local! {
    /// A buffer in which records are built before the lock is acquired.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The ring's counts, read while no record is being appended.
pub struct RingCounts<'a> {
    segment: &'a Segment,
    /// The position after the last record in the ring.
    pub tail: u64,
    /// The number of records ever appended.
    pub records: u64,
}

impl RingCounts<'_> {
    /// Returns the number of records ever appended whose names share the counter of this hash. Two
    /// names share one of the 4,096 counters with a probability of 1 in 4,096.
    pub fn count(&self, hash: u64) -> u64 {
        if ring::word(self.segment, field::RESERVED) == 0 {
            return 0;
        }
        ring::word(self.segment, counter(hash))
    }
}

impl Segment {
    /// Appends a record, which readers see completely or not at all. The call may wait for other
    /// writers, but never for readers.
    ///
    /// # Errors
    /// Returns [`Error::MessageTooLong`] if the name and body are longer than
    /// [`record_max`](Self::record_max).
    pub fn append(&self, kind: u8, hash: u64, name: &[u8], body: &[u8]) -> Result<(), Error> {
        self.append_all(kind, hash, name, &[body])
    }

    /// Appends records that share a name, in order and in batches.
    ///
    /// # Errors
    /// Fails like [`append`](Self::append), without appending any record. If the lock cannot be
    /// acquired or memory runs out, the first batches may already have been appended.
    pub fn append_all(
        &self,
        kind: u8,
        hash: u64,
        name: &[u8],
        bodies: &[&[u8]],
    ) -> Result<(), Error> {
        let most = self.record_max();
        let parts = |body: &&[u8]| name.len() as u64 + body.len() as u64;
        if let Some(length) = bodies.iter().map(parts).find(|&length| length > most) {
            return Err(Error::MessageTooLong { length, most });
        }
        place::prepare_to_write(self)?;
        let mut records = BUFFER.take_cached();
        let mut left = bodies;
        let mut done = Ok(());
        while !left.is_empty() && done.is_ok() {
            records.clear();
            let taken = build(kind, hash, name, left, &mut records);
            left = &left[taken..];
            done = append_built(self, hash, &mut records);
        }
        if records.capacity() <= KEPT {
            BUFFER.put_back(records);
        }
        done
    }

    /// Calls `body` with the ring's counts, while no record is being appended.
    pub fn ring_counts<R>(&self, body: impl FnOnce(&RingCounts<'_>) -> R) -> Result<R, Error> {
        place::prepare_to_write(self)?;
        let _guard = take_lock(self)?;
        Ok(body(&RingCounts {
            segment: self,
            tail: ring::word(self, field::TAIL),
            records: ring::word(self, field::RECORDS),
        }))
    }
}

/// Builds as many records as fit in a batch, complete except for their numbers. Returns the number
/// of bodies used.
fn build(kind: u8, hash: u64, name: &[u8], bodies: &[&[u8]], out: &mut Vec<u8>) -> usize {
    for (built, body) in bodies.iter().enumerate() {
        if built == BATCH || out.len() >= BATCH_BYTES {
            return built;
        }
        let length = record::NAME + padded(name.len()) + padded(body.len());
        let parts = name.len() as u64 | (body.len() as u64) << 32;
        let header = [length | u64::from(kind) << 32, hash, 0, 0, parts];
        out.reserve(length as usize);
        for word in header {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for part in [name, body] {
            out.extend_from_slice(part);
            out.resize(out.len().next_multiple_of(8), 0);
        }
    }
    bodies.len()
}

/// Numbers the built records. Returns the number of records.
fn number(records: &mut [u8], before: u64, counted: u64) -> u64 {
    const NUMBER: usize = record::NUMBER as usize;
    const COUNT: usize = record::COUNT as usize;
    let (mut start, mut added) = (0, 0);
    while let Some(&length) = records[start..].first_chunk() {
        added += 1;
        let header = &mut records[start..start + record::NAME as usize];
        start += (u64::from_le_bytes(length) & 0xffff_ffff) as usize;
        header[NUMBER..NUMBER + 8].copy_from_slice(&(before + added).to_le_bytes());
        header[COUNT..COUNT + 8].copy_from_slice(&(counted + added).to_le_bytes());
    }
    added
}

/// A guard that holds the ring's lock until it is dropped.
struct RingGuard<'a> {
    segment: &'a Segment,
}

impl Drop for RingGuard<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        let lock = self
            .segment
            .mapping
            .lock(ring::at(self.segment, field::LOCK));
        if lock::release(lock) {
            futex::wake_one(lock.word());
        }
        fault::step();
    }
}

/// Appends built records atomically: readers see all of them as soon as the tail moves.
fn append_built(segment: &Segment, hash: u64, records: &mut [u8]) -> Result<(), Error> {
    let size = segment.ring_size();
    for _ in 0..ROOM_ATTEMPTS {
        let guard = take_lock(segment)?;
        durability::begin_writing(segment)?;
        let tail = ring::word(segment, field::TAIL);
        let end = tail + records.len() as u64;
        if ring::word(segment, field::RESERVED) < end.min(size) {
            drop(guard);
            back(segment, end.min(size))?;
            continue;
        }
        write_records(segment, tail, hash, records, end);
        return Ok(());
    }
    Err(Error::OutOfMemory)
}

/// Writes records after the tail and then moves the tail. The caller must hold the lock.
#[inline]
fn write_records(segment: &Segment, tail: u64, hash: u64, records: &mut [u8], end: u64) {
    let mapping = &segment.mapping;
    let (before, counted) = (
        ring::word(segment, field::RECORDS),
        ring::word(segment, counter(hash)),
    );
    let added = number(records, before, counted);
    ring::set_word(segment, field::UNCOUNTED, tail + 1);
    announce(mapping.word(ring::at(segment, field::ANNOUNCED)), end);
    compiler_fence(Ordering::SeqCst);
    fault::step();
    copy_in(segment, tail, records);
    compiler_fence(Ordering::SeqCst);
    move_tail(mapping.word(ring::at(segment, field::TAIL)), end);
    fault::step();
    count(segment, hash, before + added, counted + added);
}

/// Sets the counters to the values in the last record. The operation is idempotent.
fn count(segment: &Segment, hash: u64, number: u64, count: u64) {
    ring::set_word(segment, counter(hash), count);
    ring::set_word(segment, field::RECORDS, number);
    ring::set_word(segment, field::UNCOUNTED, 0);
}

/// Copies bytes into the ring, wrapping around at its end.
fn copy_in(segment: &Segment, position: u64, bytes: &[u8]) {
    let (at, left) = ring::place(segment, position);
    let first = bytes.len().min(left as usize);
    segment.mapping.copy_from(at, &bytes[..first]);
    fault::step();
    if first < bytes.len() {
        let start = ring::at(segment, field::DATA);
        segment.mapping.copy_from(start, &bytes[first..]);
        fault::step();
    }
}

/// Calls `body` while no record is being appended.
pub(crate) fn with_locked<R>(segment: &Segment, body: impl FnOnce() -> R) -> Result<R, Error> {
    let _guard = take_lock(segment)?;
    Ok(body())
}

/// Acquires the ring's lock, and completes or discards a dead owner's change (W3).
fn take_lock(segment: &Segment) -> Result<RingGuard<'_>, Error> {
    let word = segment.mapping.lock(ring::at(segment, field::LOCK));
    let me = segment.process.owner();
    if !lock::try_acquire(word, me) {
        wait_for_lock(segment)?;
    }
    let guard = RingGuard { segment };
    fault::step();
    settle(segment)?;
    Ok(guard)
}

/// Waits for the ring's lock and acquires it.
#[cold]
fn wait_for_lock(segment: &Segment) -> Result<(), Error> {
    let word = segment.mapping.lock(ring::at(segment, field::LOCK));
    let mut waiter = Waiter::new(segment, WaitedLock::Ring, segment.patience()).free_of_locks();
    lock::acquire(word, segment.process.owner(), &mut waiter)
        .map_err(|refusal| waiter.explain(refusal))?;
    waiter.finish().inspect_err(|_| drop(RingGuard { segment }))
}

/// Finishes counting for a writer that died after moving the tail. Records of a writer that died
/// before moving the tail are discarded.
fn settle(segment: &Segment) -> Result<(), Error> {
    let uncounted = ring::word(segment, field::UNCOUNTED);
    if uncounted == 0 {
        return Ok(());
    }
    let at = uncounted - 1;
    let mut reader = RingReader::at(at);
    let mut last = None;
    for _ in 0..BATCH {
        match reader.look(segment)? {
            Look::End => break,
            Look::Lapped => return Err(ring::damaged(segment, at)),
            Look::Record(found) => {
                reader.pass(&found);
                last = Some(found);
            }
        }
    }
    match last {
        Some(last) => count(segment, last.hash, last.number, last.count),
        None => ring::set_word(segment, field::UNCOUNTED, 0),
    }
    Ok(())
}

/// Completes or discards a dead writer's change immediately, instead of when the next writer
/// acquires the ring's lock.
pub(crate) fn recover(segment: &Segment) -> Result<(), Error> {
    take_lock(segment).map(drop)
}

/// Backs at least `needed` bytes of the ring's data with memory. The caller must hold no lock,
/// because the system call may take a long time (H2, W9).
#[cold]
fn back(segment: &Segment, needed: u64) -> Result<(), Error> {
    let size = segment.ring_size();
    let reserved = segment.mapping.word(ring::at(segment, field::RESERVED));
    let now = reserved.load(Ordering::Relaxed).min(size);
    if now == 0 {
        membership::back_range(segment, ring::at(segment, 0), field::DATA)
            .map_err(|_| Error::OutOfMemory)?;
    }
    let target = needed
        .max(now * 2)
        .max(FIRST_BYTES)
        .next_power_of_two()
        .min(size);
    membership::back_range(segment, ring::at(segment, field::DATA), target)
        .map_err(|_| Error::OutOfMemory)?;
    reserved.fetch_max(target, Ordering::Relaxed);
    fault::step();
    Ok(())
}

/// Checks that the structure of the ring is consistent.
pub(crate) fn check(segment: &Segment, problem: &mut dyn FnMut(String)) -> Result<(), Error> {
    let _guard = take_lock(segment)?;
    let [tail, announced, reserved, records] = [
        field::TAIL,
        field::ANNOUNCED,
        field::RESERVED,
        field::RECORDS,
    ]
    .map(|field| ring::word(segment, field));
    let size = segment.ring_size();
    if announced < tail || reserved > size || reserved < tail.min(size) {
        problem(format!(
            "ring: tail {tail}, announced {announced}, reserved {reserved} of {size}"
        ));
        return Ok(());
    }
    // After the ring has wrapped around, the position of its first record is unknown.
    if announced > size {
        return Ok(());
    }
    let (mut reader, mut found) = (RingReader::at(0), 0);
    while reader.position() < tail {
        match reader.look(segment) {
            Ok(Look::Record(next)) => {
                found += 1;
                reader.pass(&next);
                if next.number != found {
                    problem(format!("ring: record {found} has number {}", next.number));
                }
            }
            _ => {
                let position = reader.position();
                problem(format!("ring: no valid record at position {position}"));
                return Ok(());
            }
        }
    }
    if found != records {
        problem(format!(
            "ring: {records} records are counted, {found} were found"
        ));
    }
    Ok(())
}
