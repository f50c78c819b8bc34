//! The structural check of the heap's global part: page masks, extent maps and runs must agree on
//! every page.

use std::collections::HashMap;

use crate::heap::pages::{IN_ARENA, OF_COPY, PageUse, Run};
use crate::inspection::report::{Arena, Owned, Report};
use crate::inspection::{check_arenas, check_pools};
use crate::mapped::layout::{EXTENT_PAGES, PAGE, control, descriptor, shard};
use crate::mapped::mapping::Mapping;
use crate::segment::Segment;

/// Checks the global part of the heap. Returns the blocks and pages of each shard.
pub(crate) fn pages(segment: &Segment, report: &mut Report) -> Vec<Owned> {
    let layout = segment.mapping.layout();
    let mut owned: Vec<Owned> = (0..layout.shards).map(|_| Owned::default()).collect();
    let high = segment.mapping.load(control::HEAP_HIGH);
    if high > layout.extents {
        report.problem(|| {
            format!(
                "{high} extents are reserved, but the store has {}",
                layout.extents
            )
        });
        return owned;
    }
    check_extents(segment, high, report);
    check_runs(segment, high, &mut owned, report);
    owned
}

/// Returns an extent's bit in a map that contains one bit for each extent.
fn bit(mapping: &Mapping, map: u64, extent: u64) -> u64 {
    mapping.load(map + extent / 64 * 8) >> (extent % 64) & 1
}

/// Returns the free pages of an extent, as one bit for each page.
fn free_pages(mapping: &Mapping, extent: u64) -> u64 {
    mapping.load(mapping.layout().page_masks + extent / 4 * 8) >> (extent % 4 * 16) & 0xffff
}

/// Checks that the extent maps, the page masks and the heap's counters agree.
fn check_extents(segment: &Segment, high: u64, report: &mut Report) {
    let mapping = &segment.mapping;
    let layout = mapping.layout();
    let bit = |map, extent| bit(mapping, map, extent);
    let (mut free, mut backed, mut retired) = (0, 0, 0);
    for extent in 0..high {
        if bit(layout.retired_map, extent) == 1 {
            retired += 1;
            if bit(layout.reserved_map, extent) == 1 {
                report.problem(|| format!("extent {extent} is retired but has memory"));
            }
        }
        // The extent's memory was returned to the system. Even the tables that describe the extent
        // may not be backed with memory (S3).
        if bit(layout.reserved_map, extent) == 0 {
            continue;
        }
        backed += 1;
        let mask = free_pages(mapping, extent);
        free += u64::from(mask.count_ones());
        let expected = [
            (layout.some_free_map, u64::from(mask != 0), "some free"),
            (layout.all_free_map, u64::from(mask == 0xffff), "all free"),
        ];
        for (map, value, name) in expected {
            if bit(map, extent) != value {
                report.problem(|| format!("extent {extent}: its bit '{name}' is not {value}"));
            }
        }
    }
    for (word, expected, name) in [
        (control::RETIRED_COUNT, retired, "retired extents"),
        (control::HEAP_RESERVED, backed, "extents with memory"),
        (control::HEAP_FREE_PAGES, free, "free pages"),
    ] {
        let counted = mapping.load(word);
        if counted != expected {
            report.problem(|| format!("the heap counts {counted} {name} but has {expected}"));
        }
    }
}

/// Checks that every page is either free or in exactly one run, and that each run is valid.
fn check_runs(segment: &Segment, high: u64, owned: &mut [Owned], report: &mut Report) {
    let mapping = &segment.mapping;
    let layout = *mapping.layout();
    let is_free = |page| free_pages(mapping, page / EXTENT_PAGES) >> (page % EXTENT_PAGES) & 1 == 1;
    let mut in_arenas = Vec::new();
    let mut of_copy = HashMap::new();
    let mut page = 0;
    while page < high * EXTENT_PAGES {
        if !mapping.page_reserved(page) {
            page += EXTENT_PAGES - page % EXTENT_PAGES;
            continue;
        }
        let run = Run::unpack(mapping.load(layout.descriptor(page) + descriptor::RUN));
        let Some(run) = run else {
            if !is_free(page) {
                report.problem(|| format!("page {page} is lost: neither free nor in a run"));
            }
            page += 1;
            continue;
        };
        if (run.shard >= layout.shards && run.shard != IN_ARENA && run.shard != OF_COPY)
            || run.pages == 0
            || run.pages > high * EXTENT_PAGES - page
        {
            report.problem(|| format!("page {page}: impossible run {run:?}"));
            page += 1;
            continue;
        }
        for inside in page..page + run.pages {
            if !mapping.page_reserved(inside) {
                report.problem(|| format!("page {inside} is in a run but has no memory"));
                break;
            }
            if is_free(inside) {
                report.problem(|| format!("page {inside} is both free and in a run"));
            }
        }
        report.pages += run.pages;
        match run.shard {
            IN_ARENA => in_arenas.push((page, run.pages)),
            OF_COPY => drop(of_copy.insert(page, run.pages)),
            shard => {
                let owned = &mut owned[shard];
                check_run(segment, page, run, layout.shard(shard), owned, report);
            }
        }
        page += run.pages;
    }
    for (page, pages) in in_arenas {
        check_arenas::run(segment, page, pages, owned, report);
    }
    check_copy(segment, of_copy, report);
}

/// Checks that the copy's list contains exactly the runs allocated for the copy.
fn check_copy(segment: &Segment, mut runs: HashMap<u64, u64>, report: &mut Report) {
    let mapping = &segment.mapping;
    let mut counted = mapping.load(control::COPY_PAGES);
    let mut link = mapping.load(control::COPY_RUNS);
    while let Some(page) = link.checked_sub(1) {
        let Some(pages) = runs.remove(&page) else {
            report.problem(|| format!("page {page} must not be on a copy's list"));
            return;
        };
        counted = counted.wrapping_sub(pages);
        link = mapping.load(mapping.layout().descriptor(page) + descriptor::NEXT);
    }
    if counted != 0 {
        report.problem(|| format!("a copy counts {counted} pages that it does not have"));
    }
    if mapping.load(control::COPY_OWNER) == 0 && mapping.load(control::COPY_RUNS) != 0 {
        report.problem(|| "no copy is running, but its list of pages is not empty".into());
    }
    for page in runs.keys() {
        report.problem(|| format!("page {page} belongs to a copy but is not on its list"));
    }
}

/// Checks one flushed run that has not been freed yet. The current round of freeing must not have
/// passed the run's extent.
fn check_left(segment: &Segment, page: u64, run: Run, owned: &mut Owned, report: &mut Report) {
    let extent = page / EXTENT_PAGES;
    if !segment.mapping.is_to_be_searched(run.shard, extent) {
        report.problem(|| format!("page {page}: run {run:?} was abandoned and never freed"));
    }
    if segment.mapping.page_use(page) == Some(PageUse::Arena) {
        owned.arenas.insert(page, Arena::buried());
    }
    owned.left += segment.mapping.bytes_left(page, run);
}

/// Checks one run of a shard: its use and its blocks.
fn check_run(
    segment: &Segment,
    page: u64,
    run: Run,
    base: u64,
    owned: &mut Owned,
    report: &mut Report,
) {
    let buried = matches!(
        segment.mapping.page_use(page),
        Some(PageUse::Buried | PageUse::BuriedArena)
    );
    if run.age != segment.mapping.age(run.shard) && !buried {
        return check_left(segment, page, run, owned, report);
    }
    let mut list = |word: u64| owned.listed.entry(word).or_default().insert(page);
    let kind = segment.mapping.page_use(page);
    let bytes = run.pages * PAGE;
    match kind {
        Some(PageUse::Buried) => {
            list(base + shard::GRAVEYARD);
        }
        Some(PageUse::BuriedArena) if run.pages == 1 => {
            list(base + shard::GRAVEYARD);
            owned.arenas.insert(page, Arena::buried());
        }
        Some(PageUse::Arena) if run.pages == 1 => {
            owned.arenas.insert(page, Arena::default());
            owned.blocks.insert(segment.mapping.layout().page(page));
            owned.bytes += bytes;
        }
        Some(PageUse::Staged) => {
            list(base + shard::STAGING);
            owned.bytes += bytes;
        }
        _ => {
            owned.bytes += check_pools::used_run(segment, page, run.pages, (base, 0), owned, report)
        }
    }
    if !matches!(kind, Some(PageUse::Buried | PageUse::BuriedArena)) {
        owned.pages += run.pages;
    }
}
