//! The structural check of arenas: every run of each belongs to one, and its
//! counts and lists agree with what its runs say.

use std::collections::HashSet;

use crate::heap::pages::PageUse;
use crate::inspection::check::{Owned, Report, lists};
use crate::mapped::layout::{PAGE, arena, descriptor, shard};
use crate::segment::Segment;

/// What an arena has, as its runs say.
#[derive(Default)]
pub(crate) struct Arena {
    /// It is on its way to the heap: only the list of its runs counts.
    buried: bool,
    bytes: u64,
    pages: u64,
    runs: HashSet<u64>,
}

impl Arena {
    pub(crate) fn buried() -> Arena {
        Arena {
            buried: true,
            ..Arena::default()
        }
    }
}

impl Segment {
    /// One run of some arena.
    pub(crate) fn check_run_of_arena(
        &self,
        page: u64,
        pages: u64,
        owned: &mut [Owned],
        report: &mut Report,
    ) {
        let layout = *self.mapping.layout();
        let kind = self
            .mapping
            .load(layout.descriptor(page) + descriptor::KIND);
        let tag = PageUse::tag_of(kind);
        let found = tag.checked_sub(1).and_then(|first| {
            let owner = owned.iter_mut().find(|o| o.arenas.contains_key(&first))?;
            let arena = owner.arenas.remove(&first)?;
            Some((first, owner, arena))
        });
        let Some((first, owner, mut arena)) = found else {
            return report.problem(|| format!("page {page} is in an arena that is none"));
        };
        arena.runs.insert(page);
        arena.pages += pages;
        if !arena.buried {
            let pool = (layout.page(first), tag);
            arena.bytes += self.check_used_run(page, pages, pool, owner, report);
            owner.bytes += pages * PAGE;
            owner.pages += pages;
        }
        owner.arenas.insert(first, arena);
    }

    /// One arena's lists and counts against what its runs say.
    pub(crate) fn check_arena(
        &self,
        index: usize,
        page: u64,
        arena: Arena,
        returning: u64,
        owned: &mut Owned,
        report: &mut Report,
    ) {
        let words = self.mapping.layout().page(page);
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
                let counted = self.mapping.load(words + field);
                if counted != expected {
                    report.problem(|| {
                        format!(
                            "the arena at page {page} counts {counted} {name} and has {expected}"
                        )
                    });
                }
            }
            for list in lists(words) {
                self.check_list(index, list, returning, owned, report);
            }
        }
        self.check_runs(page, arena, returning, report);
    }

    /// The list of an arena's runs.
    fn check_runs(&self, arena_page: u64, mut arena: Arena, returning: u64, report: &mut Report) {
        let words = self.mapping.layout().page(arena_page);
        let mut link = self.mapping.load(words + arena::RUNS);
        let mut previous = 0;
        while link != 0 {
            let page = link - 1;
            if !arena.runs.remove(&page) {
                report.problem(|| {
                    format!("the arena at page {arena_page} lists page {page}, wrongly")
                });
                break;
            }
            let (next, back) = self.mapping.siblings(page);
            // The runs of a buried arena are taken from the front, without care
            // for the links back.
            if back != previous && !arena.buried {
                report.problem(|| format!("page {page} of an arena links back wrongly"));
            }
            previous = link;
            link = next;
        }
        arena.runs.remove(&returning);
        for page in arena.runs {
            report.problem(|| format!("the arena at page {arena_page} does not list page {page}"));
        }
    }
}
