//! Pins (R7): blocks that are read in place.
//!
//! A pin is a word in its process' entry that names a block's first page. Who reads in place sets it, and looks only
//! then whether the block is still referred to; who frees a large block has the shard's counter odd, and looks at the
//! pins only then. One of the two sees the other. A block that is freed while it is pinned is *parked*: it goes onto
//! its shard's staging list, in nobody's name, and is freed by whoever takes the last pin off it, or by upkeep, which
//! also asks whether those who pin it still live.
//!
//! The order of stores is generic over the word, so that the loom models run this very code.

use std::sync::atomic::Ordering;

use crate::allocator::pins::{self, PARKED, clear_pin, set_pin};
use crate::error::Error;
use crate::heap::pages::{PageUse, Run};
use crate::mapped::layout::{Offset, PAGE, control, descriptor, slot};
use crate::mapped::platform::unix_milliseconds;
use crate::objects::owners::Owners;
use crate::processes::patience::defer_signals;
use crate::segment::shard_set::ShardSet;
use crate::segment::{Segment, place};
use crate::views::view::{Notes, View};

/// A block that this process reads in place, as plain numbers. One that is not [taken off](Segment::unpin) stays
/// pinned for as long as the process lives.
#[derive(Debug)]
#[must_use]
pub struct Pinned {
    number: u64,
    page: u64,
    /// The word that says so.
    value: u64,
    /// The entry whose pin it is.
    slot: u64,
    length: u64,
}

impl Pinned {
    /// Bytes that are read.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Whether it is of the block at an offset.
    pub fn is_of(&self, segment: &Segment, at: Offset) -> bool {
        segment.mapping.layout().page(self.page) == at
    }
}

/// A block that some process reads in place, for people.
#[derive(Clone, Debug)]
pub struct PinnedBlock {
    /// The reader's entry in the process table.
    pub slot: u64,
    /// Its process id, in its own pid namespace.
    pub pid: u32,
    /// Whether it lives. What the dead have pinned is freed when its memory is needed.
    pub lives: bool,
    /// Since when, Unix milliseconds.
    pub since: u64,
    /// Bytes that are read.
    pub bytes: u64,
    /// Whether the block is no longer referred to, and only waits for this.
    pub parked: bool,
}

impl Segment {
    /// Pins the large block at an offset that was read from the store, of which `length` bytes are to be read. The
    /// caller then looks whether the block is still referred to, in a read of its own, and unpins it otherwise. None
    /// where this process has as many pins as there are, or `at` is not where a large block begins.
    ///
    /// # Errors
    /// Those of a first write, as the process needs an entry; [`Error::ReadOnly`].
    pub fn pin(&self, at: Offset, length: u64) -> Result<Option<Pinned>, Error> {
        place::prepare_to_write(self)?;
        if self.mapping.check(at, length.max(8)).is_err() || !at.is_multiple_of(PAGE) {
            return Ok(None);
        }
        let Some(number) = self.process.take_pin() else {
            return Ok(None);
        };
        let page = self.mapping.page_of(at);
        let slot_index = self.process.slot();
        let entry = self.mapping.layout().slot(slot_index);
        let generation = self.mapping.load(entry + slot::GENERATION) & 0xffff_ffff;
        let value = generation << 32 | (page + 1);
        let pin = self.mapping.layout().pin(slot_index, number);
        let ever = self.mapping.word(control::PINNED);
        if ever.load(Ordering::Relaxed) == 0 {
            ever.store(1, Ordering::Relaxed);
        }
        self.mapping
            .word(entry + slot::PINS_USED)
            .fetch_max(number + 1, Ordering::Relaxed);
        self.mapping
            .store(pin + slot::PIN_SINCE, unix_milliseconds());
        self.mapping.store(pin + slot::PIN_BYTES, length);
        set_pin(self.mapping.word(pin + slot::PIN), value);
        crate::probes::fault::step();
        Ok(Some(Pinned {
            number,
            page,
            value,
            slot: slot_index,
            length,
        }))
    }

    /// Where a pinned block begins in this process' memory: as many bytes as [`Pinned::length`] says, which nobody
    /// changes while it is pinned. Mapped for as long as this handle.
    pub fn address_of_pinned(&self, pinned: &Pinned) -> *const u8 {
        let at = self.mapping.layout().page(pinned.page);
        self.mapping.address(at, pinned.length)
    }

    /// The bytes of a pinned block, which nobody changes while it is pinned (R7). Empty in a forked child: there the
    /// pin is its parent's, and what lies there may become another block.
    pub fn bytes_of_pinned<'a>(&'a self, pinned: &'a Pinned) -> &'a [u8] {
        if !is_own(self, pinned) {
            return &[];
        }
        let (at, length) = (self.address_of_pinned(pinned), pinned.length as usize);
        // SAFETY: the block lies there, mapped for as long as this handle; its pin, which is this process' and is not
        // taken off while it is borrowed, keeps every process from changing or freeing it.
        unsafe { std::slice::from_raw_parts(at, length) }
    }

    /// Reads a pinned block, which needs no look at any counter: nobody changes it (R7).
    pub fn read_pinned<R>(&self, pinned: &Pinned, body: impl FnOnce(&View<'_>, Offset) -> R) -> R {
        let at = self.mapping.layout().page(pinned.page);
        body(&View::new(&self.mapping, Notes::Locked), at)
    }

    /// Appends what is read of a pinned block to `out`.
    pub fn append_pinned(&self, pinned: &Pinned, out: &mut Vec<u8>) {
        let at = self.mapping.layout().page(pinned.page);
        self.mapping.append_to(at, pinned.length as usize, out);
    }

    /// Takes a pin off, and frees the block where it only waited for that. In a forked child, which has no share in its
    /// parent's pins, nothing happens.
    pub fn unpin(&self, pinned: Pinned) {
        let at = self.mapping.layout().pin(pinned.slot, pinned.number);
        let pin = self.mapping.word(at + slot::PIN);
        if !is_own(self, &pinned) || crate::probes::fault::abandoned() {
            return;
        }
        clear_pin(pin);
        self.process.put_pin(pinned.number);
        crate::probes::fault::step();
        if is_parked(self, pinned.page) {
            // Where it cannot be done now, upkeep does it.
            let _deferred = defer_signals();
            let _ = free_parked(self, pinned.page);
        }
    }

    /// The blocks that are read in place now, oldest first. Asks whether each reader lives.
    pub fn pins(&self) -> Vec<PinnedBlock> {
        let mut owners = Owners::default();
        let mut pins = Vec::new();
        pins::any(self, |index, at, value| {
            let page = (value & 0xffff_ffff).wrapping_sub(1);
            pins.push(PinnedBlock {
                slot: index,
                pid: self
                    .mapping
                    .load(self.mapping.layout().slot(index) + slot::PID)
                    as u32,
                lives: !owners.is_dead(self, index << 32 | value >> 32),
                since: self.mapping.load(at + slot::PIN_SINCE),
                bytes: self.mapping.load(at + slot::PIN_BYTES),
                parked: self.mapping.page_reserved(page) && is_parked(self, page),
            });
            false
        });
        pins.sort_by_key(|pin| pin.since);
        pins
    }
}

/// Whether a pin is this very process': a forked child's copy of it is not.
fn is_own(segment: &Segment, pinned: &Pinned) -> bool {
    let at = segment.mapping.layout().pin(pinned.slot, pinned.number);
    segment.process.claimed()
        && segment.process.slot() == pinned.slot
        && segment.mapping.word(at + slot::PIN).load(Ordering::Relaxed) == pinned.value
}

/// Whether a page begins a block that is freed once no process reads it in place.
fn is_parked(segment: &Segment, page: u64) -> bool {
    let words = segment.mapping.layout().descriptor(page);
    segment.mapping.page_use(page) == Some(PageUse::Staged)
        && segment.mapping.load(words + descriptor::BITMAP) == PARKED
}

/// Frees a parked block, unless it is pinned again or was freed meanwhile.
#[cold]
fn free_parked(segment: &Segment, page: u64) -> Result<(), Error> {
    let words = segment.mapping.layout().descriptor(page);
    let run = Run::unpack(segment.mapping.load(words + descriptor::RUN));
    let Some(run) = run.filter(|run| run.shard < segment.shards()) else {
        return Ok(());
    };
    segment.write(ShardSet::one(run.shard), |transaction| {
        // Under the lock: others may have been faster, and the page may be something else by now.
        let now = Run::unpack(segment.mapping.load(words + descriptor::RUN));
        let same = now.is_some_and(|now| now.shard == run.shard);
        if same && is_parked(segment, page) && !transaction.is_page_pinned(page)? {
            transaction.free_staged(run.shard, page)?;
        }
        Ok(())
    })
}

/// Whether a process that lives pins a page. The pins of the dead are taken off.
pub(crate) fn is_pinned_by_the_living(segment: &Segment, page: u64, owners: &mut Owners) -> bool {
    pins::any(segment, |index, at, value| {
        if value & 0xffff_ffff != page + 1 {
            return false;
        }
        !forget_if_dead(segment, index, at, value, owners)
    })
}

/// Takes a pin off whose process is dead. Returns whether it is.
fn forget_if_dead(segment: &Segment, index: u64, at: u64, value: u64, owners: &mut Owners) -> bool {
    let dead = owners.is_dead(segment, index << 32 | value >> 32);
    if dead {
        let pin = segment.mapping.word(at + slot::PIN);
        // The next holder of the entry may have been faster, and may have set it anew.
        let _ = pin.compare_exchange(value, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    dead
}

/// Takes off all pins of the dead. Those of blocks that nobody frees harm nobody until then.
pub(crate) fn forget_of_the_dead(segment: &Segment) {
    let mut owners = Owners::default();
    pins::any(segment, |index, at, value| {
        forget_if_dead(segment, index, at, value, &mut owners);
        false
    });
}

/// Takes the pins off that a dead process left in an entry, before it is used anew.
pub(crate) fn forget(segment: &Segment, slot_index: u64) {
    let layout = segment.mapping.layout();
    let used = layout.slot(slot_index) + slot::PINS_USED;
    for number in 0..segment.mapping.load(used).min(slot::PIN_COUNT) {
        segment
            .mapping
            .store(layout.pin(slot_index, number) + slot::PIN, 0);
        crate::probes::fault::step();
    }
    segment.mapping.store(used, 0);
}
