//! What a structural check finds, and what it collects on its way.

use std::collections::{HashMap, HashSet};

use crate::mapped::layout::Offset;

/// Problems reported at most; a damaged store may have millions.
pub(crate) const PROBLEMS_MAX: usize = 100;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What is wrong, each with its place; empty where the store is sound.
    pub problems: Vec<String>,
    /// Blocks that are allocated.
    pub blocks: u64,
    /// Bytes in them.
    pub block_bytes: u64,
    /// Pages granted to shards.
    pub pages: u64,
}

impl Report {
    /// Adds a problem, unless there are very many already.
    pub fn problem(&mut self, text: impl FnOnce() -> String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text());
        }
    }
}

/// The blocks and pages of one shard, as its runs say.
#[derive(Default)]
pub(crate) struct Owned {
    pub(crate) blocks: HashSet<Offset>,
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    /// Bytes in blocks that it has left behind.
    pub(crate) left: u64,
    /// Pages by what list they must be on; the key is the list's word.
    pub(crate) listed: HashMap<u64, HashSet<u64>>,
    /// Its arenas, by their first page.
    pub(crate) arenas: HashMap<u64, Arena>,
}

/// The blocks and pages of an arena, as its runs say.
#[derive(Default)]
pub(crate) struct Arena {
    /// It is on its way to the heap: only the list of its runs counts.
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
