//! Prefetching of leaves. Each leaf is a separate block, so a plain walk waits for memory at every
//! leaf. Prefetching several leaves ahead avoids these waits.

use undercroft_memory::{Offset, View};

use super::filter::{Judged, Selection};
use crate::error::Error;
use crate::structures::tree::Node;
use crate::types::feed::leaves::leaf::Layout;
use crate::types::feed::leaves::summary::NOTE_WORDS;

/// Maximum number of leaves prefetched ahead.
const AHEAD: usize = 6;
/// Maximum number of cache lines prefetched ahead, about as many outstanding misses as a processor
/// supports.
const LINES: usize = 28;
/// Maximum number of cache lines prefetched per leaf. Longer ranges are read sequentially, which
/// the hardware prefetcher detects.
const LEAF_LINES: usize = 12;

/// Prefetches the leaves that a query will read.
pub(in crate::types::feed) struct LeafPrefetch<'a> {
    selection: &'a Selection<'a>,
    layout: &'a Layout,
    /// Offsets of the cache lines of a leaf that the query reads, computed on first use.
    lines: Vec<u64>,
    /// Maximum number of leaves prefetched ahead.
    most: usize,
    /// Current number of leaves prefetched ahead. It starts low, because a query that finds its
    /// items at once needs no more.
    distance: usize,
    /// Number of children of the current node that were prefetched or skipped.
    asked: usize,
}

impl<'a> LeafPrefetch<'a> {
    pub(in crate::types::feed) fn new(
        selection: &'a Selection<'a>,
        layout: &'a Layout,
    ) -> LeafPrefetch<'a> {
        LeafPrefetch {
            selection,
            layout,
            lines: Vec::new(),
            most: AHEAD,
            distance: 0,
            asked: 0,
        }
    }

    /// Returns the maximum number of leaves prefetched ahead.
    pub(in crate::types::feed) fn most(&self) -> usize {
        self.most
    }

    /// Prefetches a leaf.
    #[inline]
    pub(in crate::types::feed) fn ask(&mut self, view: &View<'_>, leaf: Offset) {
        if self.lines.is_empty() {
            self.lines = self.selection.lines(self.layout);
            self.lines.truncate(LEAF_LINES);
            self.most = (LINES / self.lines.len().max(1)).clamp(2, AHEAD);
        }
        for line in &self.lines {
            view.prefetch(leaf.wrapping_add(*line));
        }
    }

    /// Restarts prefetching for the children of another node, from child `first` on.
    pub(in crate::types::feed) fn begin(&mut self, first: usize) {
        self.asked = first;
    }

    /// Prefetches some of the leaves that follow child `step` of a node, before that leaf is read.
    /// In a `reverse` walk, `step` counts from the end.
    pub(in crate::types::feed) fn ask_behind(
        &mut self,
        view: &View<'_>,
        node: &Node<NOTE_WORDS>,
        step: usize,
        reverse: bool,
    ) -> Result<(), Error> {
        let children = node.children();
        self.asked = self.asked.max(step + 1);
        while self.asked < children.min(step + 1 + self.distance) {
            let index = if reverse {
                children - 1 - self.asked
            } else {
                self.asked
            };
            self.asked += 1;
            let (leaf, count) = node.child(view, index)?;
            if self.selection.judge(count, &node.note(view, index)?) == Judged::Perhaps {
                self.ask(view, leaf);
            }
        }
        self.distance = (self.distance * 2).clamp(1, self.most);
        Ok(())
    }
}
