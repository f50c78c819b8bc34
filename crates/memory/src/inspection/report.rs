//! The findings of a structural check, and the facts it collects on its way.

use std::collections::{HashMap, HashSet};

use crate::mapped::layout::Offset;

/// The largest number of problems reported; a damaged store may have millions.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// The result of a structural check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The problems found, each with its place; empty if the store is sound.
    pub problems: Vec<String>,
    /// The number of allocated blocks.
    pub blocks: u64,
    /// The number of bytes in allocated blocks.
    pub block_bytes: u64,
    /// The number of pages granted to shards.
    pub pages: u64,
}

impl Report {
    /// Adds a problem, unless `PROBLEMS_MAX` problems are recorded already.
    pub fn problem(&mut self, text: impl FnOnce() -> String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text());
        }
    }
}

/// The blocks and pages of one shard, as recorded in its runs.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) blocks: HashSet<Offset>,
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    /// The number of bytes in flushed blocks that are not freed yet.
    pub(crate) left: u64,
    /// The pages expected on each list, keyed by the offset of the list's word.
    pub(crate) listed: HashMap<u64, HashSet<u64>>,
    /// The shard's arenas, keyed by their first page.
    pub(crate) arenas: HashMap<u64, Arena>,
}

/// The blocks and pages of an arena, as recorded in its runs.
#[derive(Default)]
pub(crate) struct Arena {
    /// Whether the arena is on its way to the heap; then only the list of its runs is checked.
    pub(crate) buried: bool,
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    pub(crate) runs: HashSet<u64>,
}

impl Arena {
    pub(crate) fn buried() -> Arena {
        Arena {
            buried: true,
            ..Arena::default()
        }
    }
}
