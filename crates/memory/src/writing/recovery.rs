//! Recovering what the dead left in a shard: rolling back, or keeping what was
//! committed (W3, W6, L4).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Fault};
use crate::heap::step;
use crate::mapped::counter;
use crate::mapped::layout::{SLOTS, control, ring, shard, slot};
use crate::mapped::shard_set::ShardSet;
use crate::mapped::shard_words::ShardWords;
use crate::probes::fault;
use crate::processes::lock::{self, Owner};
use crate::segment::marks::{self, Marks};
use crate::segment::waiting::{Waiter, Which};
use crate::segment::{Segment, membership, place};

/// Whether nobody left anything in a shard, whose lock is held, and it has no mark.
#[inline(always)]
pub(crate) fn is_settled(shard: ShardWords<'_>) -> bool {
    shard.load::<{ shard::LOG_TAIL }>() == 0
        && counter::is_plain(shard.load::<{ shard::COUNTER }>())
}

impl Segment {
    /// W3: whoever gets a shard's lock recovers what a dead owner left.
    pub(crate) fn settle(&self, index: usize, marks: Marks) -> Result<(), Error> {
        match is_settled(self.mapping.shard_words(index)) {
            true => Ok(()),
            false => self.settle_slowly(index, marks),
        }
    }

    /// The same where [something is left](is_settled), or the shard has a mark.
    #[cold]
    pub(crate) fn settle_slowly(&self, index: usize, marks: Marks) -> Result<(), Error> {
        self.recover_shard(index)?;
        match marks {
            Marks::Respected if self.is_marked(index) && !marks::was_looked_after(self, index) => {
                Err(Error::Marked)
            }
            _ => Ok(()),
        }
    }

    /// Keeps what a dead transaction committed, and undoes it otherwise (W6).
    fn recover_shard(&self, index: usize) -> Result<(), Error> {
        membership::check_place(self);
        let base = self.mapping.layout().shard(index);
        let log = self.shard_log(index);
        if !log.is_empty() {
            let owner = self.mapping.load(base + shard::LOG_OWNER);
            let number = self.mapping.load(base + shard::LOG_NUMBER);
            let (slot_index, record) = (owner >> 8, owner & 0xff);
            let slots = self.mapping.load(control::SLOTS_USED).min(SLOTS);
            if slot_index >= slots || record >= slot::RECORD_COUNT {
                return Err(Error::Damaged(Fault {
                    at: base + shard::LOG_OWNER,
                    what: "a log header that names a record",
                }));
            }
            let record = self.mapping.layout().record(slot_index, record);
            if self.mapping.load(record + slot::COMMITTED) == number {
                log.clear();
                fault::step();
            } else {
                self.roll_back_shard(index)?;
            }
        }
        if self.mapping.load(base + shard::COUNTER) & counter::ODD != 0 {
            marks::renew(self, index);
            self.even_counter(index);
            fault::step();
        }
        Ok(())
    }

    /// Undoes the changes in a shard's log.
    pub(crate) fn roll_back_shard(&self, index: usize) -> Result<(), Error> {
        self.roll_back_shard_to(index, 0)
    }

    /// Undoes the changes in a shard's log that were made since it was so many
    /// bytes long.
    pub(crate) fn roll_back_shard_to(&self, index: usize, until: u64) -> Result<(), Error> {
        let layout = *self.mapping.layout();
        let base = layout.shard(index);
        let descriptors_end = layout.descriptor(layout.pages());
        let log = self.shard_log(index);
        if log.length() == until {
            return Ok(());
        }
        // Between two values of the counter a log only grows, or only shrinks: those who read through it rely on that.
        let counter = self.mapping.word(base + shard::COUNTER);
        counter::raise(counter);
        let rolled_back = log.roll_back(
            until,
            |at, words| {
                let length = words.saturating_mul(8);
                let end = at.saturating_add(length);
                let inside = |start: u64, stop: u64| at >= start && end <= stop;
                at % 8 == 0
                    && (inside(base + shard::USED_BYTES, base + shard::HINT_BITS)
                        || inside(base + shard::MARK, base + shard::MARK + 8)
                        || inside(base + shard::CLASSES, base + shard::HINTS)
                        || inside(layout.descriptors, descriptors_end)
                        || self.mapping.reserved(at, length))
            },
            |page| step::run(self, |heap| heap.take_back(index, page)),
        );
        counter::raise(counter);
        rolled_back
    }

    /// Ends a change as readers see it.
    pub(crate) fn even_counter(&self, index: usize) {
        let at = self.mapping.layout().shard(index) + shard::COUNTER;
        counter::make_even(self.mapping.word(at));
    }

    /// Recovers whatever names a slot whose owner died, before it is reused
    /// (L4): the shards listed in its records, and the heap.
    pub(crate) fn recover_slot(&self, index: u64) -> Result<(), Error> {
        let layout = *self.mapping.layout();
        let mut listed = 0;
        for record in 0..slot::RECORD_COUNT {
            listed |= self
                .mapping
                .load(layout.record(index, record) + slot::SHARDS);
        }
        for shard_index in ShardSet::from_bits(listed, layout.shards).iter() {
            self.recover_named(shard_index, index)?;
        }
        let heap = self
            .mapping
            .half(control::HEAP_LOCK)
            .load(Ordering::Relaxed);
        if heap != lock::FREE && Owner::of(heap).slot() == index {
            step::run(self, |_| Ok(()))?;
        }
        let ring = self.mapping.half(layout.ring + ring::LOCK);
        let ring = ring.load(Ordering::Relaxed);
        if ring != lock::FREE && Owner::of(ring).slot() == index {
            self.recover_ring()?;
        }
        for record in 0..slot::RECORD_COUNT {
            self.mapping
                .store(layout.record(index, record) + slot::SHARDS, 0);
        }
        self.forget_pins(index);
        self.free_staged_of_the_dead(Some(index))
    }

    /// Recovers one shard, unless a living process holds it and its log does
    /// not name the slot.
    fn recover_named(&self, shard_index: usize, slot_index: u64) -> Result<(), Error> {
        let base = self.mapping.layout().shard(shard_index);
        let word = self.mapping.lock(base + shard::LOCK);
        let me = self.process.owner();
        let start = Instant::now();
        loop {
            let mut waiter =
                Waiter::new(self, Which::Shard(shard_index), Duration::ZERO).probe_first();
            match lock::acquire(word, me, &mut waiter) {
                Ok(()) => {
                    let settled = self.settle(shard_index, Marks::Ignored);
                    self.unlock_shards(ShardSet::one(shard_index));
                    return settled;
                }
                Err(refusal) => {
                    let named = self.mapping.load(base + shard::LOG_TAIL) != 0
                        && self.mapping.load(base + shard::LOG_OWNER) >> 8 == slot_index;
                    if !named {
                        return Ok(());
                    }
                    if start.elapsed() >= self.patience() {
                        return Err(waiter.explain(refusal));
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Recovers every shard and the heap now, rather than when the next writer
    /// comes.
    pub fn recover(&self) -> Result<(), Error> {
        place::prepare_to_write(self)?;
        for index in 0..self.shards() {
            self.lock_shards(ShardSet::one(index), Marks::Ignored)?;
            self.drain_graveyards(ShardSet::one(index), 0);
            self.unlock_shards(ShardSet::one(index));
        }
        step::run(self, |_| Ok(()))?;
        self.recover_ring()?;
        self.free_dead_copy()?;
        self.forget_pins_of_the_dead();
        self.free_staged_of_the_dead(None)
    }
}
