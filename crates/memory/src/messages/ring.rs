//! The ring of messages (M3): records appended under a lock of its own, read
//! without one.
//!
//! Positions grow for ever; a record lies at its position modulo the ring's
//! size. A writer first announces how far it will overwrite, then writes the
//! record, then moves the tail with one store: a record is there as a whole or
//! not at all, and what a killed writer left behind the tail is overwritten by
//! the next. A reader copies first and looks at the announcement afterwards:
//! if it is more than a ring ahead, what was copied may be torn, and the reader
//! has been lapped. Writers never wait for readers.
//!
//! Counters tell readers that were lapped how much they missed. A record holds
//! the values they get by it, so that whoever has the lock next can finish the
//! counting of a writer that died. Records of one name may be appended many at
//! once, which moves the tail and the counters once.

use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::Error;
use crate::mapped::counter::Version;
use crate::mapped::layout::{record, ring};
use crate::mapped::lent::Lent;
use crate::messages::ring_reader::{Look, RingReader};
use crate::probes::fault;
use crate::processes::lock;
use crate::segment::waiting::{Waiter, Which};
use crate::segment::{Segment, durability, membership, place};

/// Bytes of data backed with memory at first.
const FIRST_BYTES: u64 = 64 * 1024;
/// A record is at most this part of the ring.
pub(crate) const LONGEST_PART: u64 = 4;
/// Times that memory is reserved for one record; once is enough unless the
/// store is damaged.
const ROOM_ATTEMPTS: u32 = 8;
/// Records appended at once at most, and their bytes but for the last one's:
/// what is done under the lock is bounded (W9).
const BATCH: usize = 256;
const BATCH_BYTES: usize = 32 * 1024;
/// A longer buffer is not kept.
const KEPT: usize = 1 << 20;

thread_local! {
    /// Where records are built before the lock is taken.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The writer is about to overwrite everything a ring's length below `end`.
/// Never taken back: what a dead writer announced may have been overwritten.
#[inline(always)]
pub(crate) fn announce<V: Version>(announced: &V, end: u64) {
    if announced.get(Ordering::Relaxed) < end {
        announced.put(end, Ordering::Relaxed);
    }
    V::fence(Ordering::Release);
}

/// The record that ends at `end` is whole.
#[inline(always)]
pub(crate) fn move_tail<V: Version>(tail: &V, end: u64) {
    tail.put(end, Ordering::Release);
}

/// Up to where records are whole.
#[inline(always)]
pub(crate) fn published<V: Version>(tail: &V) -> u64 {
    tail.get(Ordering::Acquire)
}

/// Whether what a reader copied from `position` on was not overwritten.
#[inline(always)]
pub(crate) fn still_there<V: Version>(announced: &V, position: u64, size: u64) -> bool {
    V::fence(Ordering::Acquire);
    announced.get(Ordering::Relaxed).saturating_sub(position) <= size
}

/// The ring's counts, while no record is being appended.
pub struct RingCounts<'a> {
    segment: &'a Segment,
    /// The position behind the last record.
    pub tail: u64,
    /// Records ever appended.
    pub records: u64,
}

impl RingCounts<'_> {
    /// Records ever appended whose names' hashes share the given one's counter:
    /// a 4,096th of all names does.
    pub fn count(&self, hash: u64) -> u64 {
        if self.segment.ring_word(ring::RESERVED) == 0 {
            return 0;
        }
        self.segment.ring_word(counter(hash))
    }
}

/// Number of the counter that counts the records of a name.
pub fn counter_of(hash: u64) -> usize {
    (hash & (ring::COUNTER_COUNT - 1)) as usize
}

fn counter(hash: u64) -> u64 {
    ring::COUNTERS + counter_of(hash) as u64 * 8
}

impl Segment {
    #[inline(always)]
    pub(crate) fn ring_at(&self, field: u64) -> u64 {
        self.mapping.layout().ring + field
    }

    #[inline(always)]
    fn ring_word(&self, field: u64) -> u64 {
        self.mapping.load(self.ring_at(field))
    }

    /// A store into the ring's control page or counters, in the order of the
    /// program as a kill sees it.
    fn set_ring_word(&self, field: u64, value: u64) {
        compiler_fence(Ordering::SeqCst);
        self.mapping.store(self.ring_at(field), value);
        compiler_fence(Ordering::SeqCst);
        fault::step();
    }

    /// Where the byte at a position lies in the file, and how many follow it
    /// before the ring's end.
    #[inline(always)]
    pub(crate) fn ring_place(&self, position: u64) -> (u64, u64) {
        let size = self.mapping.layout().ring_size;
        let offset = position & (size - 1);
        (self.ring_at(ring::DATA) + offset, size - offset)
    }

    /// Bytes of the ring's data.
    pub fn ring_size(&self) -> u64 {
        self.mapping.layout().ring_size
    }

    /// Bytes of the ring's data backed by memory so far.
    pub fn ring_reserved(&self) -> u64 {
        self.ring_word(ring::RESERVED)
    }

    /// Longest name and body of one record together.
    pub fn record_max(&self) -> u64 {
        self.ring_size() / LONGEST_PART - record::NAME - 16
    }

    /// Records ever appended, as a figure.
    pub fn ring_records(&self) -> u64 {
        self.ring_word(ring::RECORDS)
    }

    /// Appends a record: readers see all of it or nothing. Waits for other
    /// writers at most, never for readers.
    ///
    /// # Errors
    /// [`Error::MessageTooLong`] where it is longer than
    /// [`record_max`](Self::record_max).
    pub fn append(&self, kind: u8, hash: u64, name: &[u8], body: &[u8]) -> Result<(), Error> {
        self.append_all(kind, hash, name, &[body])
    }

    /// Appends records with one name, in their order, many of them in one go.
    ///
    /// # Errors
    /// As those of [`append`](Self::append), and then none was appended. Where a
    /// lock cannot be had, or there is no memory, the first ones may have been.
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
        let mut records = BUFFER.lent();
        let mut left = bodies;
        let mut done = Ok(());
        while !left.is_empty() && done.is_ok() {
            records.clear();
            let taken = build(kind, hash, name, left, &mut records);
            left = &left[taken..];
            done = self.append_built(hash, &mut records);
        }
        if records.capacity() <= KEPT {
            BUFFER.returned(records);
        }
        done
    }

    /// Appends records that were built, all at once: those who read see them in
    /// the moment in which the tail moves.
    fn append_built(&self, hash: u64, records: &mut [u8]) -> Result<(), Error> {
        let size = self.ring_size();
        for _ in 0..ROOM_ATTEMPTS {
            let guard = self.lock_ring()?;
            durability::begin_writing(self)?;
            let tail = self.ring_word(ring::TAIL);
            let end = tail + records.len() as u64;
            if self.ring_word(ring::RESERVED) < end.min(size) {
                drop(guard);
                self.back_ring(end.min(size))?;
                continue;
            }
            self.write_records(tail, hash, records, end);
            return Ok(());
        }
        Err(Error::OutOfMemory)
    }

    #[inline]
    fn write_records(&self, tail: u64, hash: u64, records: &mut [u8], end: u64) {
        let mapping = &self.mapping;
        let (before, counted) = (self.ring_word(ring::RECORDS), self.ring_word(counter(hash)));
        let added = number(records, before, counted);
        self.set_ring_word(ring::UNCOUNTED, tail + 1);
        announce(mapping.word(self.ring_at(ring::ANNOUNCED)), end);
        compiler_fence(Ordering::SeqCst);
        fault::step();
        self.copy_into_ring(tail, records);
        compiler_fence(Ordering::SeqCst);
        move_tail(mapping.word(self.ring_at(ring::TAIL)), end);
        fault::step();
        self.count(hash, before + added, counted + added);
    }

    /// Counts up to the last record; done twice, it is the same.
    fn count(&self, hash: u64, number: u64, count: u64) {
        self.set_ring_word(counter(hash), count);
        self.set_ring_word(ring::RECORDS, number);
        self.set_ring_word(ring::UNCOUNTED, 0);
    }

    fn copy_into_ring(&self, position: u64, bytes: &[u8]) {
        let (at, left) = self.ring_place(position);
        let first = bytes.len().min(left as usize);
        self.mapping.copy_from(at, &bytes[..first]);
        fault::step();
        if first < bytes.len() {
            let start = self.ring_at(ring::DATA);
            self.mapping.copy_from(start, &bytes[first..]);
            fault::step();
        }
    }

    /// Does something while no record is appended.
    pub(crate) fn with_ring<R>(&self, body: impl FnOnce() -> R) -> Result<R, Error> {
        let _guard = self.lock_ring()?;
        Ok(body())
    }

    /// Takes the ring's lock and settles what a dead owner left (W3).
    fn lock_ring(&self) -> Result<RingGuard<'_>, Error> {
        let word = self.mapping.lock(self.ring_at(ring::LOCK));
        let me = self.process.owner();
        if !lock::try_acquire(word, me) {
            self.wait_for_ring()?;
        }
        let guard = RingGuard { segment: self };
        fault::step();
        self.settle_ring()?;
        Ok(guard)
    }

    #[cold]
    fn wait_for_ring(&self) -> Result<(), Error> {
        let word = self.mapping.lock(self.ring_at(ring::LOCK));
        let mut waiter = Waiter::new(self, Which::Ring, self.patience()).free_of_locks();
        lock::acquire(word, self.process.owner(), &mut waiter)
            .map_err(|refusal| waiter.explain(refusal))?;
        waiter
            .finish()
            .inspect_err(|_| drop(RingGuard { segment: self }))
    }

    /// Finishes the counting of records whose writer died behind its last store
    /// of the tail; those that were not finished are forgotten.
    fn settle_ring(&self) -> Result<(), Error> {
        let uncounted = self.ring_word(ring::UNCOUNTED);
        if uncounted == 0 {
            return Ok(());
        }
        let at = uncounted - 1;
        let mut reader = RingReader::at(at);
        let mut last = None;
        for _ in 0..BATCH {
            match reader.look(self)? {
                Look::End => break,
                Look::Lapped => return Err(self.ring_damaged(at)),
                Look::Record(found) => {
                    reader.pass(&found);
                    last = Some(found);
                }
            }
        }
        match last {
            Some(last) => self.count(last.hash, last.number, last.count),
            None => self.set_ring_word(ring::UNCOUNTED, 0),
        }
        Ok(())
    }

    /// Settles the ring now, rather than when the next writer comes.
    pub(crate) fn recover_ring(&self) -> Result<(), Error> {
        self.lock_ring().map(drop)
    }

    /// Backs the ring's data with memory up to a length at least. Called
    /// without any lock held: the system call may take long (H2, W9).
    #[cold]
    fn back_ring(&self, needed: u64) -> Result<(), Error> {
        let size = self.ring_size();
        let reserved = self.mapping.word(self.ring_at(ring::RESERVED));
        let now = reserved.load(Ordering::Relaxed).min(size);
        if now == 0 {
            membership::back_range(self, self.ring_at(0), ring::DATA)
                .map_err(|_| Error::OutOfMemory)?;
        }
        let target = needed
            .max(now * 2)
            .max(FIRST_BYTES)
            .next_power_of_two()
            .min(size);
        membership::back_range(self, self.ring_at(ring::DATA), target)
            .map_err(|_| Error::OutOfMemory)?;
        reserved.fetch_max(target, Ordering::Relaxed);
        fault::step();
        Ok(())
    }

    /// Calls `body` with the ring's counts, while no record is appended.
    pub fn ring_counts<R>(&self, body: impl FnOnce(&RingCounts<'_>) -> R) -> Result<R, Error> {
        place::prepare_to_write(self)?;
        let _guard = self.lock_ring()?;
        Ok(body(&RingCounts {
            segment: self,
            tail: self.ring_word(ring::TAIL),
            records: self.ring_word(ring::RECORDS),
        }))
    }

    /// The ring's half of the structural check.
    pub(crate) fn check_ring(&self, problem: &mut dyn FnMut(String)) -> Result<(), Error> {
        let _guard = self.lock_ring()?;
        let [tail, announced, reserved, records] =
            [ring::TAIL, ring::ANNOUNCED, ring::RESERVED, ring::RECORDS]
                .map(|field| self.ring_word(field));
        let size = self.ring_size();
        if announced < tail || reserved > size || reserved < tail.min(size) {
            problem(format!(
                "ring: tail {tail}, announced {announced}, reserved {reserved} of {size}"
            ));
            return Ok(());
        }
        // Where the first record lies is known until the ring has gone round.
        if announced > size {
            return Ok(());
        }
        let (mut reader, mut found) = (RingReader::at(0), 0);
        while reader.position() < tail {
            match reader.look(self) {
                Ok(Look::Record(next)) => {
                    found += 1;
                    reader.pass(&next);
                    if next.number != found {
                        problem(format!("ring: record {found} has number {}", next.number));
                    }
                }
                _ => {
                    let position = reader.position();
                    problem(format!("ring: no sound record at position {position}"));
                    return Ok(());
                }
            }
        }
        if found != records {
            problem(format!(
                "ring: {records} records are counted, and {found} are there"
            ));
        }
        Ok(())
    }
}

/// Builds records for some of the bodies, as they will lie in the ring but for
/// their numbers. Returns for how many.
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

/// Numbers records that were built. Returns how many they are.
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

/// Bytes rounded up to whole words.
pub(crate) fn padded(length: usize) -> u64 {
    (length as u64).next_multiple_of(8)
}

struct RingGuard<'a> {
    segment: &'a Segment,
}

impl Drop for RingGuard<'_> {
    fn drop(&mut self) {
        if fault::abandoned() {
            return;
        }
        let lock = self.segment.mapping.lock(self.segment.ring_at(ring::LOCK));
        if lock::release(lock) {
            crate::mapped::futex::wake_one(lock.word());
        }
        fault::step();
    }
}
