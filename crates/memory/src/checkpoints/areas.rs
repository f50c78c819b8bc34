//! The parts of the store file that are state: what a checkpoint contains and what recovery
//! restores (J3).
//!
//! Everything else is bound to the processes that are running or only speeds them up: locks,
//! counters, undo logs, transaction records, the process table without its generations, seats, pins,
//! the message ring, access hints, modification counters, the rings of changed keys and their
//! readers, copies, and the journal's ring.

use crate::heap::pages::PageUse;
use crate::mapped::layout::{EXTENT_PAGES, PAGE, control, descriptor, shard, slot};
use crate::mapped::mapping::Mapping;

/// The words of the control page that are state.
const CONTROL: [(u64, u64); 7] = [
    (control::HEAP_HIGH, control::HEAP_FREE_PAGES + 8),
    (control::RETIRED_COUNT, control::RETIRED_SINCE + 8),
    (control::HEAP_RESERVED, control::HEAP_RESERVED + 8),
    (control::MAX_MEMORY, control::MAX_MEMORY + 8),
    (control::COPY_OWNER, control::COPY_PAGES + 8),
    (control::JOURNALED, control::JOURNALED + 8),
    (control::CHECKPOINT_RATE, control::REPLICA + 8),
];
/// The settings among the words of the control page.
const SETTINGS: (u64, u64) = (control::EVICTION_POLICY, control::TOLD_EVENTS + 8);

/// Calls `each` with the start and the end of every part outside the heap that is state, in
/// ascending order within each table.
pub(crate) fn for_each_table(mapping: &Mapping, mut each: impl FnMut(u64, u64)) {
    let layout = mapping.layout();
    for (start, end) in CONTROL.into_iter().chain([SETTINGS]) {
        each(start, end);
    }
    // A slot's generation distinguishes its owners, whose names are stored in staged blocks.
    for index in 0..mapping
        .load(control::SLOTS_USED)
        .min(crate::mapped::layout::SLOTS)
    {
        let at = layout.slot(index) + slot::GENERATION;
        each(at, at + 8);
    }
    for index in 0..layout.shards {
        let base = layout.shard(index);
        each(base + shard::MARK, base + shard::MARK + 8);
        each(base + shard::USED_BYTES, base + shard::HINT_BITS);
        each(base + shard::CLASSES, base + shard::LEFT_END);
        each(base + shard::ROOTS, base + shard::HINTS);
    }
    let extents = mapping.load(control::HEAP_HIGH).min(layout.extents);
    let map_words = extents.div_ceil(64) * 8;
    for map in [
        layout.reserved_map,
        layout.some_free_map,
        layout.all_free_map,
        layout.retired_map,
    ] {
        each(map, map + map_words);
    }
    each(
        layout.page_masks,
        layout.page_masks + extents.div_ceil(4) * 8,
    );
}

/// Calls `each` with the start and the end of the page descriptors of an extent and, if the extent is
/// backed with memory, of each run of used pages.
///
/// The descriptors of an extent whose memory was returned to the system are state as well: once the
/// extent is backed again, a record leaves out words of a descriptor that keep their old contents.
pub(crate) fn for_each_part_of_extent(
    mapping: &Mapping,
    extent: u64,
    mut each: impl FnMut(u64, u64),
) {
    let layout = mapping.layout();
    let first = extent * EXTENT_PAGES;
    let descriptors = layout.descriptor(first);
    each(descriptors, descriptors + EXTENT_PAGES * descriptor::STRIDE);
    if !mapping.page_reserved(first) {
        return;
    }
    let masks = mapping.load(layout.page_masks + extent / 4 * 8);
    let free = masks >> (extent % 4 * 16) & 0xffff;
    let mut page = 0;
    while page < EXTENT_PAGES {
        let used = (!free & 0xffff) >> page;
        if used == 0 {
            break;
        }
        page += u64::from(used.trailing_zeros());
        let count = u64::from((free >> page | 1 << (EXTENT_PAGES - page)).trailing_zeros());
        let at = layout.page(first + page);
        each(at, at + count * PAGE);
        page += count;
    }
}

/// Returns the offset of the first word of state that differs between two stores that no process is
/// changing, or `None` if they are equal.
///
/// Only what a store's structures are made of is compared, not the contents of blocks: their unused
/// ends may differ, because no record contains them. The owners of staged blocks are left out, and
/// so are generations of slots.
pub(crate) fn first_difference(left: &Mapping, right: &Mapping) -> Option<u64> {
    let layout = left.layout();
    let mut found = None;
    let differ = |from: u64, to: u64| {
        (from..to)
            .step_by(8)
            .find(|&at| left.load(at) != right.load(at))
    };
    let in_slots = slot::TABLE..layout.shard_start;
    for_each_table(left, |from, to| {
        if found.is_none() && !in_slots.contains(&from) {
            found = differ(from, to);
        }
    });
    let pages = left.load(control::HEAP_HIGH).min(layout.extents) * EXTENT_PAGES;
    let mut page = 0;
    while found.is_none() && page < pages {
        let at = layout.descriptor(page);
        let end = match left.page_use(page) {
            Some(PageUse::Staged) => at + descriptor::BITMAP,
            _ => at + descriptor::STRIDE,
        };
        found = differ(at, end);
        page += 1;
    }
    found
}
