//! Runs and arenas that a transaction moves between shards, found by the pages they lie in.
//!
//! Their changes are logged in the log of the shard that they came from, as only within one log is the order of undoing
//! certain.

use std::collections::BTreeMap;

use crate::heap::pages::Run;
use crate::mapped::layout::descriptor;
use crate::mapped::mapping::Mapping;

/// A run, or an arena by its first page, that a transaction moved to another
/// shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovedRun {
    pub(crate) page: u64,
    pub(crate) pages: u64,
    pub(crate) arena: bool,
    /// The shard it came from.
    pub(crate) from: usize,
}

/// All runs and arenas that a transaction moved. They do not overlap.
#[derive(Default)]
pub(crate) struct MovedRuns {
    by_page: BTreeMap<u64, MovedRun>,
    /// First pages, in the order in which they were added.
    order: Vec<u64>,
    arenas: usize,
}

impl MovedRuns {
    /// Adds one; nothing changes where something that begins with its page is
    /// there. O(log moves).
    pub(crate) fn add(&mut self, moved: MovedRun) {
        self.by_page.entry(moved.page).or_insert_with(|| {
            self.order.push(moved.page);
            self.arenas += usize::from(moved.arena);
            moved
        });
    }

    /// Whether nothing was added.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// How many were added.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether an arena is among them.
    pub(crate) fn has_arena(&self) -> bool {
        self.arenas > 0
    }

    /// The one that has a page. O(log moves).
    pub(crate) fn at(&self, page: u64) -> Option<&MovedRun> {
        let (_, moved) = self.by_page.range(..=page).next_back()?;
        (page - moved.page < moved.pages).then_some(moved)
    }

    /// The arena that begins with a page. O(log moves).
    pub(crate) fn arena(&self, page: u64) -> Option<&MovedRun> {
        self.by_page.get(&page).filter(|moved| moved.arena)
    }

    /// Forgets all but the first few.
    pub(crate) fn truncate(&mut self, count: usize) {
        for page in self.order.drain(count.min(self.order.len())..) {
            if let Some(moved) = self.by_page.remove(&page) {
                self.arenas -= usize::from(moved.arena);
            }
        }
    }

    /// The shard whose log takes the change of a word, where the word concerns what was moved: it lies in a run or in an
    /// arena, or in the descriptor of such a page.
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
            // Spares the next look for the start of the run.
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

/// The page that an offset lies in, or whose descriptor it lies in.
fn page_concerned(mapping: &Mapping, at: u64) -> Option<u64> {
    let layout = mapping.layout();
    if at >= layout.heap {
        return Some(mapping.page_of(at));
    }
    let behind = at.checked_sub(layout.descriptors)?;
    Some(behind / descriptor::STRIDE)
}

/// The run of an arena around a page: its first page, its pages and the
/// arena's page. O(pages of the run).
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
    fn what_was_moved_is_found_by_its_pages_until_it_is_forgotten() {
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
