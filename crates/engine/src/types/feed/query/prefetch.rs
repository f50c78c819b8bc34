//! Asking for leaves ahead of their use. A leaf is a block of its own, so that looking into one leaf after the other
//! would wait for memory at each of them; with some on their way at a time, it does not.

use undercroft_memory::{Offset, View};

use super::filter::{Judged, Selection};
use crate::error::Error;
use crate::structures::tree::Node;
use crate::types::feed::leaves::leaf::Layout;
use crate::types::feed::leaves::summary::NOTE_WORDS;

/// The most leaves that are on their way.
const AHEAD: usize = 6;
/// The most cache lines that are, about as many as a processor can wait for.
const LINES: usize = 28;
/// The most of one leaf that are asked for: what is longer is read in one piece, which the processor notices.
const LEAF_LINES: usize = 12;

/// Asks for the leaves that a query will look into.
pub(in crate::types::feed) struct LeafPrefetch<'a> {
    selection: &'a Selection<'a>,
    layout: &'a Layout,
    /// Cache lines of a leaf that the query looks at, once they were wanted.
    lines: Vec<u64>,
    /// The most leaves that are on their way.
    most: usize,
    /// How many leaves are on their way: few at first, as a query that finds all that it wants at once needs no more.
    distance: usize,
    /// Children of a node that were asked for.
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

    /// The most leaves that are on their way.
    pub(in crate::types::feed) fn most(&self) -> usize {
        self.most
    }

    /// Asks for a leaf.
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

    /// Begins with the children of another node.
    pub(in crate::types::feed) fn begin(&mut self, first: usize) {
        self.asked = first;
    }

    /// Is called before the leaf that is child `step` of a node is looked into, counted from the end in a `reverse` walk:
    /// asks for some of those behind it.
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
