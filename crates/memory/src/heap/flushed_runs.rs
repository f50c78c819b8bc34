//! Runs that a shard abandoned when a flush emptied it in one step (W8, M8). They are freed later,
//! without their contents being read.
//!
//! Each run of a shard records the shard's *age* at the time when the run was granted. Emptying a
//! shard increments its age and resets its lists and counters, so only the age of a run shows
//! whether the run is stale. Upkeep walks through the extents, a few per step, and frees every run
//! of a different age, at a few nanoseconds a page. If the shard is emptied again during the walk,
//! upkeep continues for one more round from its current position, so that no extent waits for
//! longer than one round.
//!
//! The age and the lists change in the shard's transaction (`flush.rs`). Runs are freed in heap
//! steps, while the shard's lock is held. The current position and the number of remaining bytes
//! change through the heap's log, together with the runs. A transaction that changes these words
//! through the shard's log must have observed, under the same lock, that the heap's log was empty.

use smallvec::SmallVec;

use crate::error::{Error, Fault};
use crate::heap::pages::{PageUse, Run, bitmap_words};
use crate::heap::step::Heap;
use crate::mapped::classes;
use crate::mapped::layout::{EXTENT_PAGES, PAGE, control, descriptor, shard};
use crate::mapped::mapping::Mapping;

/// The number of extents examined in one heap step (W9), which takes about 100 us.
const EXTENTS_AT_ONCE: u64 = 64;
/// A step ends once it has written this many bytes to the heap's log.
const LOG_BYTES: u64 = 40 << 10;
/// A step also ends before a run of several extents, whose log entry is long, if it has already
/// written this many bytes to the log.
const LOG_BYTES_BEFORE_LONG: u64 = 4 << 10;
/// The number of arenas after which a step ends.
const ARENAS_AT_ONCE: usize = 32;

/// The first pages of abandoned arenas.
type Arenas = SmallVec<[u64; ARENAS_AT_ONCE]>;

/// The result of one freeing step.
pub(crate) struct Freed {
    /// Whether any abandoned memory remains.
    pub(crate) more: bool,
    /// The arenas that the step found. The caller frees them through the graveyard, the queue of
    /// memory to be freed.
    pub(crate) arenas: Arenas,
}

/// The progress of a freeing step.
struct Progress {
    /// The extent at which to continue.
    extent: u64,
    /// The number of bytes in the blocks that were freed.
    bytes: u64,
    /// The number of pages that were freed but have not been counted as free yet.
    pages: u64,
    arenas: Arenas,
    /// The extent of the first arena found.
    first_arena: Option<u64>,
}

impl Mapping {
    /// Returns the number of bytes in the allocated blocks of an abandoned run.
    pub(crate) fn bytes_left(&self, page: u64, run: Run) -> u64 {
        match self.page_use(page) {
            Some(PageUse::Slab(class)) => {
                let bitmap = self.layout().descriptor(page) + descriptor::BITMAP;
                let free: u32 = (0..bitmap_words(class))
                    .map(|word| self.load(bitmap + word * 8).count_ones())
                    .sum();
                let used = classes::blocks(class).saturating_sub(free);
                u64::from(used) * u64::from(classes::SIZES[class])
            }
            Some(PageUse::Large) => run.pages.saturating_mul(PAGE),
            Some(PageUse::Arena) => self
                .load(self.layout().page(page) + shard::PAGES)
                .saturating_mul(PAGE),
            _ => 0,
        }
    }

    /// Returns whether the current round of freeing a shard's abandoned runs has yet to reach an
    /// extent.
    pub(crate) fn is_to_be_searched(&self, index: usize, extent: u64) -> bool {
        let base = self.layout().shard(index);
        let until = self.load(base + shard::LEFT_UNTIL);
        match self.load(base + shard::LEFT_PLACE).checked_sub(1) {
            None => false,
            Some(place) if place < until => (place..until).contains(&extent),
            Some(place) => extent >= place || extent < until,
        }
    }
}

impl Heap<'_> {
    pub(crate) fn free_flushed(&self, index: usize) -> Result<Freed, Error> {
        self.finish_return(index)?;
        let layout = *self.layout();
        let base = layout.shard(index);
        let Some(place) = self.load(base + shard::LEFT_PLACE).checked_sub(1) else {
            return Ok(Freed {
                more: false,
                arenas: Arenas::new(),
            });
        };
        let until = self.load(base + shard::LEFT_UNTIL);
        let high = self.load(control::HEAP_HIGH).min(layout.extents);
        let is_last_part = place < until;
        let end = if is_last_part { until.min(high) } else { high };
        let mut progress = Progress {
            extent: place,
            bytes: 0,
            pages: 0,
            arenas: Arenas::new(),
            first_arena: None,
        };
        for _ in 0..EXTENTS_AT_ONCE {
            let extent = progress.extent;
            let tail = self.load(control::HEAP_LOG_TAIL);
            if extent >= end || tail > LOG_BYTES || progress.arenas.len() == ARENAS_AT_ONCE {
                break;
            }
            let in_use = self.load(layout.reserved_map + extent / 64 * 8)
                & !self.load(layout.all_free_map + extent / 64 * 8);
            match (in_use >> (extent % 64)).trailing_zeros() {
                64 => progress.extent = (extent | 63) + 1,
                0 if self.free_flushed_in(index, &mut progress)? => {}
                0 => break,
                none => progress.extent += u64::from(none),
            }
        }
        self.add_free_pages(progress.pages as i64)?;
        let next = match progress {
            // Stay at the first arena's extent, so that the arena is found again if this process
            // dies before burying the arena.
            Progress {
                first_arena: Some(extent),
                ..
            } => Some(extent),
            Progress { extent, .. } if extent < end => Some(extent),
            _ if is_last_part || until == 0 => None,
            _ => Some(0),
        };
        let left = self.load(base + shard::LEFT_BYTES);
        match next {
            Some(extent) => {
                let left = left.saturating_sub(progress.bytes);
                self.set(base + shard::LEFT_BYTES, left)?;
                self.set(base + shard::LEFT_PLACE, extent + 1)?;
            }
            None => {
                for field in [shard::LEFT_BYTES, shard::LEFT_OBJECTS, shard::LEFT_PLACE] {
                    self.set(base + field, 0)?;
                }
            }
        }
        Ok(Freed {
            more: next.is_some(),
            arenas: progress.arenas,
        })
    }

    /// Frees a shard's abandoned runs that start in the current extent. Arenas are only recorded in
    /// `progress`. Returns false if it stopped before a long run that needs a separate step.
    fn free_flushed_in(&self, index: usize, progress: &mut Progress) -> Result<bool, Error> {
        let mapping = &self.segment().mapping;
        let layout = *self.layout();
        let age = mapping.age(index);
        let extent = progress.extent;
        let first = extent * EXTENT_PAGES;
        let (mut page, mut freed) = (first, 0);
        while page < first + EXTENT_PAGES && progress.arenas.len() < ARENAS_AT_ONCE {
            let at = layout.descriptor(page);
            let Some(run) = Run::unpack(self.load(at + descriptor::RUN)) else {
                page += 1;
                continue;
            };
            let kind = mapping.page_use(page);
            let buried = matches!(kind, Some(PageUse::Buried | PageUse::BuriedArena));
            if run.shard != index || run.age == age || buried {
                page += run.pages.max(1);
                continue;
            }
            let start = page - first;
            let in_extent = start + run.pages <= EXTENT_PAGES;
            if run.pages == 0
                || start > 0 && !in_extent
                || !mapping.reserved(layout.page(page), run.pages * PAGE)
            {
                return Err(Error::Damaged(Fault {
                    at,
                    what: "a run that ends in reserved memory",
                }));
            }
            if kind == Some(PageUse::Arena) {
                progress.arenas.push(page);
                progress.first_arena = progress.first_arena.or(Some(extent));
                page += run.pages;
                continue;
            }
            if in_extent {
                freed |= (0xffff_u64 >> (EXTENT_PAGES - run.pages)) << start;
            } else if self.load(control::HEAP_LOG_TAIL) > LOG_BYTES_BEFORE_LONG {
                return Ok(false);
            } else {
                self.mark(page, run.pages, true)?;
            }
            progress.bytes += mapping.bytes_left(page, run);
            self.set(at + descriptor::RUN, 0)?;
            page += run.pages;
        }
        if freed != 0 {
            let mask = self.page_mask(extent);
            if mask & freed != 0 {
                return Err(Error::Damaged(Fault {
                    at: layout.page_masks + extent * 2,
                    what: "a mask of free pages that matches the runs",
                }));
            }
            self.set_page_mask(extent, mask | freed)?;
            progress.pages += u64::from(freed.count_ones());
        }
        progress.extent = (page / EXTENT_PAGES).max(extent + 1);
        Ok(true)
    }
}
