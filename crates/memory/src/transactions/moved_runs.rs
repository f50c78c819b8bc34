//! Runs and arenas that a transaction moves between shards, indexed by their pages.
//!
//! Changes to them are recorded in the log of their original shard, because undo order is defined
//! only within one log.

use std::collections::BTreeMap;

use crate::heap::pages::Run;
use crate::mapped::layout::descriptor;
use crate::mapped::mapping::Mapping;

/// A run that a transaction moved to another shard, or an arena, identified by its first page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovedRun {
    pub(crate) page: u64,
    pub(crate) pages: u64,
    pub(crate) arena: bool,
    /// The original shard.
    pub(crate) from: usize,
}

/// The runs and arenas that a transaction moved. They do not overlap.
#[derive(Default)]
pub(crate) struct MovedRuns {
    by_page: BTreeMap<u64, MovedRun>,
    /// The first pages of the entries, in the order of insertion.
    order: Vec<u64>,
    arenas: usize,
}

impl MovedRuns {
    /// Adds a run or an arena, unless an entry with the same first page exists. O(log moves).
    pub(crate) fn add(&mut self, moved: MovedRun) {
        self.by_page.entry(moved.page).or_insert_with(|| {
            self.order.push(moved.page);
            self.arenas += usize::from(moved.arena);
            moved
        });
    }

    /// Returns true if no run or arena was moved.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if any entry is an arena.
    pub(crate) fn has_arena(&self) -> bool {
        self.arenas > 0
    }

    /// Returns the entry that contains a page. O(log moves).
    pub(crate) fn at(&self, page: u64) -> Option<&MovedRun> {
        let (_, moved) = self.by_page.range(..=page).next_back()?;
        (page - moved.page < moved.pages).then_some(moved)
    }

    /// Returns the arena whose first page is `page`. O(log moves).
    pub(crate) fn arena(&self, page: u64) -> Option<&MovedRun> {
        self.by_page.get(&page).filter(|moved| moved.arena)
    }

    /// Removes all entries except the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        for page in self.order.drain(count.min(self.order.len())..) {
            if let Some(moved) = self.by_page.remove(&page) {
                self.arenas -= usize::from(moved.arena);
            }
        }
    }

    /// Returns the shard whose log records a change at an offset. Returns `None` if the offset is
    /// neither in a page nor in a page descriptor of a moved run or arena.
    #[cold]
    pub(crate) fn log_of(&mut self, mapping: &Mapping, at: u64) -> Option<usize> {
        let page = page_concerned(mapping, at)?;
        if let Some(moved) = self.at(page) {
            return Some(moved.from);
        }
        if !self.has_arena() {
            return None;
        }
        let (first, pages, arena) = arena_around(mapping, page)?;
        let from = self.arena(arena)?.from;
        if pages > 1 {
            // Cache the run, so that the next lookup does not search for its start.
            self.add(MovedRun {
                page: first,
                pages,
                arena: false,
                from,
            });
        }
        Some(from)
    }
}

/// Returns the page that contains an offset, or whose descriptor contains it.
fn page_concerned(mapping: &Mapping, at: u64) -> Option<u64> {
    let layout = mapping.layout();
    if at >= layout.heap {
        return Some(mapping.page_of(at));
    }
    let behind = at.checked_sub(layout.descriptors)?;
    Some(behind / descriptor::STRIDE)
}

/// Returns the first page and the number of pages of the arena run that contains a page, and the
/// arena's first page. O(pages of the run).
fn arena_around(mapping: &Mapping, page: u64) -> Option<(u64, u64, u64)> {
    let mut first = page;
    while mapping.page_reserved(first) {
        let word = mapping.load(mapping.layout().descriptor(first) + descriptor::RUN);
        if let Some(run) = Run::unpack(word) {
            let inside = page - first < run.pages;
            let arena = mapping.arena_of_run(first).filter(|_| inside)?;
            return Some((first, run.pages, arena));
        }
        first = first.checked_sub(1)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_runs_are_found_by_their_pages_until_truncated() {
        let mut moves = MovedRuns::default();
        for (page, pages, arena) in [
            (40, 3, false),
            (10, 1, true),
            (10, 5, false),
            (50, 1, false),
        ] {
            moves.add(MovedRun {
                page,
                pages,
                arena,
                from: page as usize,
            });
        }
        let found = |moves: &MovedRuns| -> Vec<u64> {
            (0..60).filter(|page| moves.at(*page).is_some()).collect()
        };
        assert_eq!(moves.len(), 3);
        assert_eq!(found(&moves), [10, 40, 41, 42, 50]);
        assert!(moves.arena(10).is_some() && moves.arena(40).is_none());
        assert!(moves.has_arena());
        moves.truncate(1);
        assert_eq!(found(&moves), [40, 41, 42]);
        assert!(!moves.has_arena());
    }
}
