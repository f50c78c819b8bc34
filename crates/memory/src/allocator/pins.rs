//! Pins (R7), from the writer's side: words that record which blocks are read in place. See
//! `objects/pinned.rs`.
//!
//! A pin is a word in the reader's process table entry that contains a block's first page. A reader
//! sets the pin first and only then checks whether the block is still referenced. A writer that
//! frees a large block makes the shard's version counter odd first and only then checks the pins.
//! At least one of the two therefore sees the other.
//!
//! The code that orders the stores is generic over the word type, so that the loom models run
//! exactly this code.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::heap::pages::{PageUse, Run};
use crate::mapped::layout::{Offset, SLOTS, control, descriptor, shard, slot};
use crate::segment::Segment;
use crate::segment::counter::Version;
use crate::transactions::Transaction;

/// Stored in a staged block's descriptor instead of an owner. The block is not being filled: it was
/// freed, but a process still reads it in place.
pub(crate) const PARKED: u64 = u64::MAX;

/// Records that a block is read in place. After this call, the reader must check whether the block
/// is still referenced.
#[inline]
pub(crate) fn set_pin<V: Version>(pin: &V, value: u64) {
    pin.put(value, Ordering::Relaxed);
    V::fence(Ordering::SeqCst);
}

/// Records, after all reads of a block, that the block is no longer read in place. After this call,
/// the reader must check whether the block is parked and can now be freed.
#[inline]
pub(crate) fn clear_pin<V: Version>(pin: &V) {
    pin.put(0, Ordering::Release);
    V::fence(Ordering::SeqCst);
}

/// Issues the fence between making the counter odd and checking the pins, in a writer that frees a
/// block.
#[inline]
pub(crate) fn before_looking_at_pins<V: Version>() {
    V::fence(Ordering::SeqCst);
}

/// Calls `each` with the slot, offset and value of every set pin until `each` returns true. Returns
/// whether it did.
pub(crate) fn any(segment: &Segment, mut each: impl FnMut(u64, u64, u64) -> bool) -> bool {
    let mapping = &segment.mapping;
    if mapping.word(control::PINNED).load(Ordering::Relaxed) == 0 {
        return false;
    }
    let layout = mapping.layout();
    let slots = mapping.load(control::SLOTS_USED).min(SLOTS);
    (0..slots).any(|index| {
        let used = mapping.load(layout.slot(index) + slot::PINS_USED);
        (0..used.min(slot::PIN_COUNT)).any(|number| {
            let at = layout.pin(index, number);
            let value = mapping.word(at + slot::PIN).load(Ordering::Acquire);
            value != 0 && each(index, at, value)
        })
    })
}

/// Returns whether any process, dead or alive, pins a page.
pub(crate) fn is_pinned(segment: &Segment, page: u64) -> bool {
    any(segment, |_, _, value| value & 0xffff_ffff == page + 1)
}

impl Transaction<'_> {
    /// Returns whether any process reads the large block at an offset in place. A pinned block must
    /// not be modified, only replaced (R7).
    pub fn is_pinned(&mut self, at: Offset) -> Result<bool, Error> {
        self.view().check(at, 8)?;
        self.is_page_pinned(self.segment.mapping.page_of(at))
    }

    /// Returns whether any process pins a page. Makes the version counters odd first, so that a
    /// reader that pins the page later notices the change.
    pub(crate) fn is_page_pinned(&mut self, page: u64) -> Result<bool, Error> {
        self.open_first()?;
        before_looking_at_pins::<AtomicU64>();
        Ok(is_pinned(self.segment, page))
    }

    /// Returns whether any process pins a page of the shard.
    pub(crate) fn has_pinned(&mut self, index: usize) -> Result<bool, Error> {
        self.open_first()?;
        before_looking_at_pins::<AtomicU64>();
        let mapping = &self.segment.mapping;
        Ok(any(self.segment, |_, _, value| {
            let page = (value & 0xffff_ffff).wrapping_sub(1);
            let run = |page| Run::unpack(mapping.load(mapping.layout().descriptor(page)));
            mapping.page_reserved(page) && run(page).is_none_or(|run| run.shard == index)
        }))
    }

    /// Parks a block that is freed while it is read in place. The last reader or upkeep frees it
    /// later.
    #[cold]
    pub(crate) fn park(&mut self, index: usize, page: u64) -> Result<(), Error> {
        self.put_on_staging_list(index, page, PARKED)
    }

    /// Adds a large block of the shard to the staging list.
    pub(crate) fn put_on_staging_list(
        &mut self,
        index: usize,
        page: u64,
        owner: u64,
    ) -> Result<(), Error> {
        let layout = *self.segment.mapping.layout();
        let words = layout.descriptor(page);
        self.set(index, words + descriptor::KIND, PageUse::Staged.pack())?;
        self.set(index, words + descriptor::BITMAP, owner)?;
        self.link(index, layout.shard(index) + shard::STAGING, page)
    }
}
