//! Pins (R7), as writers see them: words that say which blocks are read in place.
//!
//! A pin is a word in its process' entry that names a block's first page. A reader in place sets it, and looks only
//! then whether the block is still referred to; a writer that frees a large block has the shard's counter odd, and looks at
//! the pins only then. One of the two sees the other. A block that is freed while it is pinned is *parked*: it goes onto
//! its shard's staging list, in no process' name, and is freed by the reader that takes the last pin off it, or by upkeep,
//! which also asks whether the readers that pin it still live.
//!
//! The order of stores is generic over the word, so that the loom models run this very code.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::heap::pages::{PageUse, Run};
use crate::mapped::layout::{Offset, SLOTS, control, descriptor, shard, slot};
use crate::segment::Segment;
use crate::segment::counter::Version;
use crate::transactions::Transaction;

/// Stands in a staged block's descriptor for a process where nobody fills the block: it is only still read in place.
pub(crate) const PARKED: u64 = u64::MAX;

/// Says that a block is read in place. Whoever pins looks behind it whether the block is still referred to.
#[inline]
pub(crate) fn set_pin<V: Version>(pin: &V, value: u64) {
    pin.put(value, Ordering::Relaxed);
    V::fence(Ordering::SeqCst);
}

/// Says that a block is no longer read in place: all that was read of it comes before. Whoever unpins looks behind it
/// whether the block waits for that.
#[inline]
pub(crate) fn clear_pin<V: Version>(pin: &V) {
    pin.put(0, Ordering::Release);
    V::fence(Ordering::SeqCst);
}

/// Comes between the odd counter of who frees a block and its look at the pins.
#[inline]
pub(crate) fn before_looking_at_pins<V: Version>() {
    V::fence(Ordering::SeqCst);
}

/// Calls `each` with the pins that are set, until it says that it has seen enough: slot, offset of the pin, value.
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

/// Whether anybody pins a page, dead or alive.
pub(crate) fn is_pinned(segment: &Segment, page: u64) -> bool {
    any(segment, |_, _, value| value & 0xffff_ffff == page + 1)
}

impl Transaction<'_> {
    /// Whether anybody reads the large block at an offset in place: then it is not changed, only replaced (R7).
    pub fn is_pinned(&mut self, at: Offset) -> Result<bool, Error> {
        self.view().check(at, 8)?;
        self.is_page_pinned(self.segment.mapping.page_of(at))
    }

    /// Whether anybody pins a page. The counters are odd from here on, so that whoever pins it later sees that.
    pub(crate) fn is_page_pinned(&mut self, page: u64) -> Result<bool, Error> {
        self.open_first()?;
        before_looking_at_pins::<AtomicU64>();
        Ok(is_pinned(self.segment, page))
    }

    /// Whether anybody pins a page of the shard.
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

    /// Puts a block that is freed while it is read in place where it is found once nobody does.
    #[cold]
    pub(crate) fn park(&mut self, index: usize, page: u64) -> Result<(), Error> {
        self.put_on_staging_list(index, page, PARKED)
    }

    /// Puts a large block of the shard on the staging list.
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
