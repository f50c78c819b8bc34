//! The problems that a structural check found, and the facts it collected.

use std::collections::{HashMap, HashSet};

use crate::mapped::layout::Offset;

/// The maximum number of problems reported. A damaged store may have millions.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// The result of a structural check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The problems found, each with its location. Empty if the store is consistent.
    pub problems: Vec<String>,
    /// The number of allocated blocks.
    pub blocks: u64,
    /// The number of bytes in allocated blocks.
    pub block_bytes: u64,
    /// The number of pages granted to shards.
    pub pages: u64,
}

impl Report {
    /// Records a problem, unless `PROBLEMS_MAX` problems are already recorded.
    pub fn problem(&mut self, text: impl FnOnce() -> String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text());
        }
    }
}

/// The blocks and pages of one shard, according to the shard's runs.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) blocks: HashSet<Offset>,
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    /// The number of bytes in flushed blocks that have not been freed yet.
    pub(crate) left: u64,
    /// The pages that each list should contain, keyed by the offset of the list's word.
    pub(crate) listed: HashMap<u64, HashSet<u64>>,
    /// The shard's arenas, keyed by their first page.
    pub(crate) arenas: HashMap<u64, Arena>,
}

/// The blocks and pages of an arena, according to the arena's runs.
#[derive(Default)]
pub(crate) struct Arena {
    /// Whether the arena is being returned to the heap. In that case, only the list of its runs is
    /// checked.
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
