//! What one transaction moved between shards, found by the pages it lies in.

use std::collections::BTreeMap;

/// A run, or an arena by its first page, that a transaction moved to another
/// shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) page: u64,
    pub(crate) pages: u64,
    pub(crate) arena: bool,
    /// The shard it came from.
    pub(crate) from: usize,
}

/// All of them. Runs that a transaction moved do not overlap.
#[derive(Default)]
pub(crate) struct Moves {
    by_page: BTreeMap<u64, Moved>,
    /// First pages, in the order in which they were added.
    order: Vec<u64>,
    arenas: usize,
}

impl Moves {
    /// Adds one; nothing changes where something that begins with its page is
    /// there. O(log moves).
    pub(crate) fn add(&mut self, moved: Moved) {
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
    pub(crate) fn at(&self, page: u64) -> Option<&Moved> {
        let (_, moved) = self.by_page.range(..=page).next_back()?;
        (page - moved.page < moved.pages).then_some(moved)
    }

    /// The arena that begins with a page. O(log moves).
    pub(crate) fn arena(&self, page: u64) -> Option<&Moved> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_is_found_by_its_pages_until_it_is_forgotten() {
        let mut moves = Moves::default();
        for (page, pages, arena) in [
            (40, 3, false),
            (10, 1, true),
            (10, 5, false),
            (50, 1, false),
        ] {
            moves.add(Moved {
                page,
                pages,
                arena,
                from: page as usize,
            });
        }
        let found = |moves: &Moves| -> Vec<u64> {
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
