//! Prefetches leaves. Each leaf is a separate block, so a walk without prefetching waits for memory
//! at every leaf. Prefetching several leaves ahead avoids these waits.

use undercroft_memory::{Offset, View};

use super::filter::{Judged, Selection};
use crate::error::Error;
use crate::structures::tree::Node;
use crate::types::feed::leaves::leaf::Layout;
use crate::types::feed::leaves::summary::NOTE_WORDS;

/// The maximum number of leaves that are prefetched ahead.
const AHEAD: usize = 6;
/// The maximum number of cache lines that are prefetched ahead. This is about the number of
/// outstanding cache misses that a processor supports.
const LINES: usize = 28;
/// The maximum number of cache lines that are prefetched for each leaf. A longer range is read
/// sequentially, which the hardware prefetcher detects.
const LEAF_LINES: usize = 12;

/// A prefetcher for the leaves that a query is about to read.
pub(in crate::types::feed) struct LeafPrefetch<'a> {
    selection: &'a Selection<'a>,
    layout: &'a Layout,
    /// The offsets of the cache lines in a leaf that the query reads, computed on first use.
    lines: Vec<u64>,
    /// The maximum number of leaves that are prefetched ahead.
    most: usize,
    /// The number of leaves that are currently prefetched ahead. It starts low, because a query
    /// that finds its items immediately needs no further leaves.
    distance: usize,
    /// How many of the current node's children were prefetched or skipped.
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

    /// Returns the maximum number of leaves that are prefetched ahead.
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

    /// Restarts prefetching for the children of another node, starting with child `first`.
    pub(in crate::types::feed) fn begin(&mut self, first: usize) {
        self.asked = first;
    }

    /// Prefetches some of the leaves that follow child `step` of a node, before this child is read.
    /// In a `reverse` walk, `step` counts from the last child.
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
