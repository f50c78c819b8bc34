//! A survey of the heap, which finds where eviction could free a run of pages for a writer that
//! cannot find a long enough run.
//!
//! Keys evicted by age are scattered over the heap, so a half-empty store may have no two adjacent
//! free pages. The caller lists all blocks that it could remove. A stretch of extents becomes free
//! if it contains only such blocks and all of them are removed. The survey takes no lock, so its
//! result is a guess: a stretch that other processes start to use in the meantime does not become
//! free.

use std::collections::HashMap;

use crate::heap::pages::{IN_ARENA, OF_COPY, PageUse, Run, bitmap_words};
use crate::mapped::classes;
use crate::mapped::layout::{EXTENT, EXTENT_PAGES, Offset, control, descriptor};
use crate::segment::Segment;

/// The mask of an extent whose pages are all free.
const ALL_FREE: u64 = 0xffff;

/// The removable blocks, counted by page. Uses two bytes for each page of the heap.
pub struct Survey<'a> {
    segment: &'a Segment,
    /// The number of removable blocks, stored at the first page of their slab or run. At an arena's
    /// first page, a nonzero number means that the entire arena may be removed.
    removable: Vec<u16>,
}

/// Stretches of the heap, all with the same length, that become free if everything in them is
/// removed.
#[derive(Debug, Default)]
pub struct Stretches {
    heap: Offset,
    /// The number of extents examined.
    extents: u64,
    count: usize,
    /// Maps each extent to the stretch that contains it.
    by_extent: HashMap<u64, usize>,
    /// Maps each arena to the stretches that contain its pages.
    by_arena: HashMap<Offset, Vec<usize>>,
}

impl Segment {
    /// Starts a survey of the heap, in which no block counts as removable yet.
    pub fn survey(&self) -> Survey<'_> {
        let layout = self.mapping.layout();
        let extents = self.mapping.load(control::HEAP_HIGH).min(layout.extents);
        Survey {
            segment: self,
            removable: vec![0; (extents * EXTENT_PAGES) as usize],
        }
    }
}

impl Survey<'_> {
    /// Counts a block as removable. Ignores an invalid offset, which can come from a key that is
    /// being changed.
    pub fn may_go(&mut self, block: Offset) {
        let mapping = &self.segment.mapping;
        if mapping.check(block, 8).is_err() {
            return;
        }
        let mut page = mapping.page_of(block);
        if let Some(PageUse::Continued(distance)) = mapping.page_use(page) {
            page = page.saturating_sub(distance);
        }
        if let Some(blocks) = self.removable.get_mut(page as usize) {
            *blocks = blocks.saturating_add(1);
        }
    }

    /// Returns up to `most` stretches that could hold a run of `bytes` bytes. The search starts at
    /// a place in the heap determined by `chance`. O(pages).
    pub fn stretches(&self, bytes: u64, most: usize, chance: u64) -> Stretches {
        let length = bytes.div_ceil(EXTENT).max(1);
        let (usable, arenas) = self.usable_extents();
        let mut stretches = Stretches {
            heap: self.segment.mapping.layout().heap,
            extents: usable.len() as u64,
            ..Stretches::default()
        };
        let extents = usable.len() as u64;
        let start = chance % extents.max(1);
        let mut run = 0;
        for extent in (start..extents).chain(0..start) {
            // A stretch must not wrap around the end of the heap.
            run = match usable[extent as usize] {
                true if extent == 0 => 1,
                true => run + 1,
                false => 0,
            };
            if run == length {
                let members = extent + 1 - length..=extent;
                let number = stretches.count;
                stretches
                    .by_extent
                    .extend(members.map(|extent| (extent, number)));
                (stretches.count, run) = (number + 1, 0);
                if stretches.count == most {
                    break;
                }
            }
        }
        for (extent, arena) in arenas {
            if let Some(&number) = stretches.by_extent.get(&extent) {
                let numbers = stretches.by_arena.entry(arena).or_default();
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        stretches
    }

    /// Returns which extents become free if every removable block is removed, and which arenas have
    /// pages in which extents. Extents that are already free do not count: the caller found no run
    /// in them, so they are reserved for removals (H6).
    fn usable_extents(&self) -> (Vec<bool>, Vec<(u64, Offset)>) {
        let mapping = &self.segment.mapping;
        let layout = mapping.layout();
        let end = self.removable.len() as u64;
        let mut usable = vec![true; (end / EXTENT_PAGES) as usize];
        let mut arenas = Vec::new();
        let mut page = 0;
        while page < end {
            let (extent, inside) = (page / EXTENT_PAGES, page % EXTENT_PAGES);
            let mask = mapping.load(layout.page_masks + extent / 4 * 8) >> (extent % 4 * 16);
            if !mapping.page_reserved(page) || mask & ALL_FREE == ALL_FREE {
                usable[extent as usize] = false;
                page += EXTENT_PAGES - inside;
                continue;
            }
            if mask >> inside & 1 == 1 {
                page += 1;
                continue;
            }
            let run = Run::unpack(mapping.load(layout.descriptor(page) + descriptor::RUN));
            let pages = run.map_or(1, |run| run.pages.clamp(1, end - page));
            let extents = extent..=(page + pages - 1) / EXTENT_PAGES;
            if !run.is_some_and(|run| self.comes_free(page, run)) {
                extents.for_each(|extent| usable[extent as usize] = false);
            } else if let Some(arena) = self.arena_at(page) {
                arenas.extend(extents.map(|extent| (extent, arena)));
            }
            page += pages;
        }
        (usable, arenas)
    }

    /// Returns whether a run becomes completely free if every removable block is removed.
    fn comes_free(&self, page: u64, run: Run) -> bool {
        let mapping = &self.segment.mapping;
        let removable = |page: u64| self.removable.get(page as usize).copied().unwrap_or(0);
        match mapping.page_use(page) {
            _ if run.shard == OF_COPY => false,
            _ if run.shard == IN_ARENA => mapping
                .arena_of_run(page)
                .is_some_and(|arena| removable(arena) > 0),
            Some(PageUse::Free | PageUse::Buried) => true,
            Some(PageUse::Slab(class)) => {
                let bitmap = mapping.layout().descriptor(page) + descriptor::BITMAP;
                let free: u32 = (0..bitmap_words(class))
                    .map(|word| mapping.load(bitmap + word * 8).count_ones())
                    .sum();
                u32::from(removable(page)) + free >= classes::blocks(class)
            }
            Some(PageUse::Large | PageUse::Arena) => removable(page) > 0,
            Some(PageUse::Continued(_) | PageUse::Staged | PageUse::BuriedArena) | None => false,
        }
    }

    /// Returns the arena whose first page is this run, or to which the run belongs.
    fn arena_at(&self, page: u64) -> Option<Offset> {
        let mapping = &self.segment.mapping;
        let arena = match mapping.page_use(page) {
            Some(PageUse::Arena) => Some(page),
            _ => mapping.arena_of_run(page),
        };
        Some(mapping.layout().page(arena?))
    }
}

impl Stretches {
    /// Returns the number of stretches.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the numbers of the stretches that contain a block of `bytes` bytes. For the offset
    /// of an arena, the result includes all stretches that contain pages of the arena.
    pub fn of(&self, block: Offset, bytes: u64) -> impl Iterator<Item = usize> + '_ {
        let extent = |at: Offset| at.wrapping_sub(self.heap) / EXTENT;
        // A damaged length must not lead past the end of the heap.
        let last = extent(block.saturating_add(bytes.max(1) - 1)).min(self.extents);
        let extents = extent(block)..=last;
        let lies_in = extents.filter_map(|extent| self.by_extent.get(&extent));
        let arenas = self.by_arena.get(&block).into_iter().flatten();
        lies_in.chain(arenas).copied()
    }
}
