//! Pins (R7), from the reader's side: words that protect blocks that are read in place.
//!
//! A pin is a word in the reader's process table entry that contains a block's first page. A reader
//! sets the pin first and only then checks whether the block is still referenced. A writer that
//! frees a large block makes the shard's version counter odd first and only then checks the pins.
//! At least one of the two therefore sees the other.
//!
//! A block that is freed while it is pinned is *parked*: it is added to its shard's staging list
//! without an owner. Either the reader that removes the last pin frees the block, or upkeep does,
//! after checking whether the processes that pinned it are still alive.
//!
//! The code that orders the stores is generic over the word type, so that the loom models run
//! exactly this code.

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

/// A handle to a block that this process reads in place. The handle does not borrow the segment.
/// The block stays pinned until it is [unpinned](Segment::unpin) or the process dies.
#[derive(Debug)]
#[must_use]
pub struct Pinned {
    number: u64,
    page: u64,
    /// The value that was stored in the pin's word.
    value: u64,
    /// The process table entry that contains the pin.
    slot: u64,
    length: u64,
}

impl Pinned {
    /// Returns the number of bytes that may be read.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns whether the pinned block starts at the given offset.
    pub fn is_of(&self, segment: &Segment, at: Offset) -> bool {
        segment.mapping.layout().page(self.page) == at
    }
}

/// A block that a process reads in place, described for display.
#[derive(Clone, Debug)]
pub struct PinnedBlock {
    /// The index of the reader's entry in the process table.
    pub slot: u64,
    /// The reader's process ID, in its own pid namespace.
    pub pid: u32,
    /// Whether the reader is alive. A block pinned only by dead processes is freed when its memory
    /// is needed.
    pub lives: bool,
    /// When the block was pinned, as a Unix time in milliseconds.
    pub since: u64,
    /// The number of bytes that may be read.
    pub bytes: u64,
    /// Whether the block is no longer referenced and will be freed once it is unpinned.
    pub parked: bool,
}

impl Segment {
    /// Pins the large block at an offset that was read from the store, in order to read `length`
    /// bytes of it. The caller must then check, in a separate read, whether the block is still
    /// referenced, and unpin it if not. Returns `None` if all pins of this process are in use, or
    /// if no large block can start at `at`.
    ///
    /// # Errors
    /// Fails like a first write, because the process needs a process table entry. Returns
    /// [`Error::ReadOnly`] for a read-only handle.
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

    /// Returns the address of a pinned block in this process. The block consists of
    /// [`Pinned::length`] bytes, which do not change while it is pinned. It stays mapped as long as
    /// this segment exists.
    pub fn address_of_pinned(&self, pinned: &Pinned) -> *const u8 {
        let at = self.mapping.layout().page(pinned.page);
        self.mapping.address(at, pinned.length)
    }

    /// Returns the bytes of a pinned block, which do not change while it is pinned (R7). Returns an
    /// empty slice in a forked child, because the pin belongs to the child's parent, and the memory
    /// may be reused for another block.
    pub fn bytes_of_pinned<'a>(&'a self, pinned: &'a Pinned) -> &'a [u8] {
        if !is_own(self, pinned) {
            return &[];
        }
        let (at, length) = (self.address_of_pinned(pinned), pinned.length as usize);
        // SAFETY: the block stays mapped as long as `self` exists. The pin belongs to this process
        // and cannot be removed while `pinned` is borrowed, so no process changes or frees the
        // block.
        unsafe { std::slice::from_raw_parts(at, length) }
    }

    /// Reads a pinned block. No version counter needs to be checked, because the block does not
    /// change (R7).
    pub fn read_pinned<R>(&self, pinned: &Pinned, body: impl FnOnce(&View<'_>, Offset) -> R) -> R {
        let at = self.mapping.layout().page(pinned.page);
        body(&View::new(&self.mapping, Notes::Locked), at)
    }

    /// Appends the bytes of a pinned block to `out`.
    pub fn append_pinned(&self, pinned: &Pinned, out: &mut Vec<u8>) {
        let at = self.mapping.layout().page(pinned.page);
        self.mapping.append_to(at, pinned.length as usize, out);
    }

    /// Removes a pin. Frees the block if it is parked and this was its last pin. Does nothing in a
    /// forked child, which does not own its parent's pins.
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
            // On failure, upkeep frees the block later.
            let _deferred = defer_signals();
            let _ = free_parked(self, pinned.page);
        }
    }

    /// Returns the blocks that are being read in place, oldest first, and checks whether each
    /// reader is alive.
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

/// Returns whether a pin belongs to this process. A copy inherited by fork does not.
fn is_own(segment: &Segment, pinned: &Pinned) -> bool {
    let at = segment.mapping.layout().pin(pinned.slot, pinned.number);
    segment.process.claimed()
        && segment.process.slot() == pinned.slot
        && segment.mapping.word(at + slot::PIN).load(Ordering::Relaxed) == pinned.value
}

/// Returns whether a page is the first page of a parked block, which is freed once no process reads
/// it in place.
fn is_parked(segment: &Segment, page: u64) -> bool {
    let words = segment.mapping.layout().descriptor(page);
    segment.mapping.page_use(page) == Some(PageUse::Staged)
        && segment.mapping.load(words + descriptor::BITMAP) == PARKED
}

/// Frees a parked block, unless another process has pinned or freed it in the meantime.
#[cold]
fn free_parked(segment: &Segment, page: u64) -> Result<(), Error> {
    let words = segment.mapping.layout().descriptor(page);
    let run = Run::unpack(segment.mapping.load(words + descriptor::RUN));
    let Some(run) = run.filter(|run| run.shard < segment.shards()) else {
        return Ok(());
    };
    segment.write(ShardSet::one(run.shard), |transaction| {
        // Check again under the lock: another process may have freed the block, and the page may
        // have been reused.
        let now = Run::unpack(segment.mapping.load(words + descriptor::RUN));
        let same = now.is_some_and(|now| now.shard == run.shard);
        if same && is_parked(segment, page) && !transaction.is_page_pinned(page)? {
            transaction.free_staged(run.shard, page)?;
        }
        Ok(())
    })
}

/// Returns whether a living process pins a page. Removes pins of dead processes.
pub(crate) fn is_pinned_by_the_living(segment: &Segment, page: u64, owners: &mut Owners) -> bool {
    pins::any(segment, |index, at, value| {
        if value & 0xffff_ffff != page + 1 {
            return false;
        }
        !forget_if_dead(segment, index, at, value, owners)
    })
}

/// Removes a pin if its process is dead. Returns whether the process is dead.
fn forget_if_dead(segment: &Segment, index: u64, at: u64, value: u64, owners: &mut Owners) -> bool {
    let dead = owners.is_dead(segment, index << 32 | value >> 32);
    if dead {
        let pin = segment.mapping.word(at + slot::PIN);
        // If the entry's next owner has already cleared or reused the pin, the exchange fails.
        let _ = pin.compare_exchange(value, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    dead
}

/// Removes all pins of dead processes. A stale pin on a block does no harm until the block is
/// freed.
pub(crate) fn forget_of_the_dead(segment: &Segment) {
    let mut owners = Owners::default();
    pins::any(segment, |index, at, value| {
        forget_if_dead(segment, index, at, value, &mut owners);
        false
    });
}

/// Removes the pins that a dead process left in an entry, before the entry is used again.
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
