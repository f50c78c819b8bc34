//! The structural check of arenas: each run of an arena belongs to exactly one arena, whose
//! counters and lists match its runs.

use std::collections::HashSet;

use crate::heap::pages::PageUse;
use crate::inspection::check_pools::{self, lists};
use crate::inspection::report::{Arena, Owned, Report};
use crate::mapped::layout::{PAGE, arena, descriptor, shard};
use crate::segment::Segment;

/// Checks one run of an arena.
pub(crate) fn run(
    segment: &Segment,
    page: u64,
    pages: u64,
    owned: &mut [Owned],
    report: &mut Report,
) {
    let layout = *segment.mapping.layout();
    let kind = segment
        .mapping
        .load(layout.descriptor(page) + descriptor::KIND);
    let tag = PageUse::tag_of(kind);
    let found = tag.checked_sub(1).and_then(|first| {
        let owner = owned.iter_mut().find(|o| o.arenas.contains_key(&first))?;
        let arena = owner.arenas.remove(&first)?;
        Some((first, owner, arena))
    });
    let Some((first, owner, mut arena)) = found else {
        return report.problem(|| format!("page {page} refers to an arena that does not exist"));
    };
    arena.runs.insert(page);
    arena.pages += pages;
    if !arena.buried {
        let pool = (layout.page(first), tag);
        arena.bytes += check_pools::used_run(segment, page, pages, pool, owner, report);
        owner.bytes += pages * PAGE;
        owner.pages += pages;
    }
    owner.arenas.insert(first, arena);
}

/// Checks that one arena's lists and counters match its runs.
pub(crate) fn arena(
    segment: &Segment,
    index: usize,
    page: u64,
    arena: Arena,
    returning: u64,
    owned: &mut Owned,
    report: &mut Report,
) {
    let words = segment.mapping.layout().page(page);
    if !arena.buried {
        let free = owned.listed.get(&(words + shard::FREE_LIST));
        let counts = [
            (shard::USED_BYTES, arena.bytes, "bytes in blocks"),
            (shard::PAGES, arena.pages + 1, "pages"),
            (
                shard::FREE_COUNT,
                free.map_or(0, HashSet::len) as u64,
                "free pages",
            ),
        ];
        for (field, expected, name) in counts {
            let counted = segment.mapping.load(words + field);
            if counted != expected {
                report.problem(|| {
                    format!("the arena at page {page} counts {counted} {name} but has {expected}")
                });
            }
        }
        for list in lists(words) {
            check_pools::list(segment, index, list, returning, owned, report);
        }
    }
    runs(segment, page, arena, returning, report);
}

/// Checks the list that links an arena's runs.
fn runs(segment: &Segment, arena_page: u64, mut arena: Arena, returning: u64, report: &mut Report) {
    let words = segment.mapping.layout().page(arena_page);
    let mut link = segment.mapping.load(words + arena::RUNS);
    let mut previous = 0;
    while link != 0 {
        let page = link - 1;
        if !arena.runs.remove(&page) {
            report.problem(|| format!("the arena at page {arena_page} must not list page {page}"));
            break;
        }
        let (next, back) = segment.mapping.siblings(page);
        // Runs of a buried arena are removed from the front without updating the back links.
        if back != previous && !arena.buried {
            report.problem(|| format!("page {page} of an arena has a wrong back link"));
        }
        previous = link;
        link = next;
    }
    arena.runs.remove(&returning);
    for page in arena.runs {
        report.problem(|| format!("the arena at page {arena_page} does not list page {page}"));
    }
}
