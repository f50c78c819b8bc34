//! Implements the tallies of inner nodes. A tally contains the number of visible items below a node
//! for each value of an attribute. As in notes, values with the same upper bits can be counted
//! together. If a node has a tally, a query with conditions on such values does not have to read
//! the leaves below it (`structures/tree/tally`).
//!
//! If a query reads all leaves below a node without a tally, it records the node in an
//! [`Untallied`]. After the query, a tally is created for each recorded node. At worst, this
//! roughly doubles the cost of the query, and later queries do not have to read these leaves.

use std::cell::Cell;

use undercroft_memory::{Scratch, ShardSet, Transaction, View};

use super::filter::{Seen, Selection};
use crate::error::Error;
use crate::structures::key::Key;
use crate::structures::tree::{Node, TALLY};
use crate::transaction::access::Access;
use crate::transaction::writer::Writer;
use crate::types::feed::leaves::leaf::{HIDDEN, Leaf, fault, range_mask};
use crate::types::feed::leaves::summary::{NOTE_WORDS, Span, spread};
use crate::types::feed::root::Feed;

type FeedNode = Node<NOTE_WORDS>;
/// The counters of a tally while counts are added.
type Sums = [u64; TALLY];

/// The maximum number of nodes that are tallied after one query. Tallying a node takes about ten
/// microseconds, during which the shard is locked.
const MOST: usize = 1024;
/// Tallies are created less often for queries that lacked at most `FEW` of them. These queries may
/// have read items that change constantly, such as the head of a feed. Only one in `SELDOM` of
/// these queries creates the tallies, and the others write nothing.
const FEW: usize = 4;
const SELDOM: u32 = 8;

thread_local! {
    /// The number of queries on this thread that lacked few tallies.
    static MISSED_FEW: Cell<u32> = const { Cell::new(0) };
}

/// The nodes whose leaves a query had to read because the nodes had no tally. Each node is
/// identified by the position of an item below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untallied(Vec<u64>);

impl Scratch for Untallied {
    fn clear(&mut self) {
        self.0.clear();
    }
}

impl Untallied {
    /// An empty list of nodes.
    pub const NONE: Untallied = Untallied(Vec::new());

    /// Returns whether no tallies were missing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the missing tallies must be created now.
    fn is_due(&self) -> bool {
        if self.0.is_empty() || self.0.len() > FEW {
            return !self.0.is_empty();
        }
        MISSED_FEW.set(MISSED_FEW.get().wrapping_add(1));
        MISSED_FEW.get() % SELDOM == 1
    }

    /// Records a node, by the position of its first item, if the node has no tally and the query
    /// can use one.
    pub(in crate::types::feed) fn note(
        &mut self,
        node: &FeedNode,
        selection: &Selection<'_>,
        position: u64,
    ) {
        if node.lacks_tally() && selection.is_of_ranges() && self.0.len() < MOST {
            self.0.push(position);
        }
    }
}

impl Access<'_> {
    /// Creates the tallies that a query lacked, for later queries. Within a transaction, does
    /// nothing, so that the locks are not held longer. Ignores a failed write to the store, because
    /// the query already has its result.
    pub fn make_tallies(&self, database: usize, key: &Key<'_>, untallied: &Untallied) {
        if self.running.is_some() || !untallied.is_due() {
            return;
        }
        for &position in &untallied.0 {
            let made = self.write(ShardSet::one(key.shard()), |writer| {
                writer.feed_tally(database, key, position)
            });
            if made.is_err() {
                return;
            }
        }
    }
}

impl Writer<'_, '_> {
    /// Creates tallies for the nodes above the item at a position, from the lowest node upwards, as
    /// long as all nodes below have tallies. Does not change any visible data. O(items of the
    /// lowest node).
    pub fn feed_tally(
        &mut self,
        database: usize,
        key: &Key<'_>,
        position: u64,
    ) -> Result<(), Error> {
        match self.feed(database, key)? {
            Some(feed) if feed.tree.count() > 0 => feed.tally(self.transaction, position),
            _ => Ok(()),
        }
    }
}

impl Feed {
    fn tally(&self, transaction: &mut Transaction<'_>, position: u64) -> Result<(), Error> {
        let place = self.tree.find(transaction.view(), position)?;
        for node in place.path.nodes_upwards() {
            if node.is_tallied() {
                continue;
            }
            let Some(tally) = self.tally_of(transaction.view(), &node)? else {
                break;
            };
            node.set_tally(transaction, self.pool.shard(), &tally)?;
        }
        Ok(())
    }

    /// Verifies that a node's tally matches its items.
    pub(in crate::types::feed) fn check_tally(
        &self,
        view: &View<'_>,
        node: &FeedNode,
    ) -> Result<(), Error> {
        let (mut numbers, mut sums) = ([0; TALLY], [0; TALLY]);
        if !node.read_tally(view, 0, &mut numbers)? {
            return Ok(());
        }
        let is_all = self.add_node(view, node, &mut sums)?;
        match is_all && sums == numbers.map(u64::from) {
            true => Ok(()),
            false => Err(fault(node.at)),
        }
    }

    /// Computes the tally of a node. Returns `None` if the node has no room for a tally or already
    /// has one, if a node below it must be tallied first, or if a count overflows.
    fn tally_of(&self, view: &View<'_>, node: &FeedNode) -> Result<Option<[u32; TALLY]>, Error> {
        let mut sums = [0; TALLY];
        if !node.lacks_tally() || !self.add_node(view, node, &mut sums)? {
            return Ok(None);
        }
        let mut tally = [0; TALLY];
        for (number, &sum) in tally.iter_mut().zip(&sums) {
            match u32::try_from(sum) {
                Ok(sum) => *number = sum,
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(tally))
    }

    /// Adds the counts of all items below a node. Returns `false` if a node below has no tally.
    fn add_node(&self, view: &View<'_>, node: &FeedNode, sums: &mut Sums) -> Result<bool, Error> {
        // Start with the last child, because it is tallied last, so that a missing tally is found
        // early.
        for index in (0..node.children()).rev() {
            let (child, _) = node.child(view, index)?;
            if node.level() == 1 {
                self.add_leaf(view, child, sums)?;
                continue;
            }
            let child = FeedNode::load(view, child, node.level() - 1)?;
            let mut numbers = [0; TALLY];
            if child.read_tally(view, 0, &mut numbers)? {
                for (sum, number) in sums.iter_mut().zip(numbers) {
                    *sum += u64::from(number);
                }
            } else if child.lacks_tally() || !self.add_node(view, &child, sums)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds the attribute counts of a leaf's visible items to `sums`.
    fn add_leaf(&self, view: &View<'_>, at: u64, sums: &mut Sums) -> Result<(), Error> {
        let leaf = Leaf::load(view, at, &self.full, &self.schema)?;
        let layout = &leaf.layout;
        let mut words = vec![[0; 8]; layout.planes() * layout.blocks];
        let first = layout.word(HIDDEN, 0);
        view.copy_to(at + first as u64 * 8, words.as_flattened_mut())?;
        let attributes = || self.schema.first_planes().zip(self.schema.widths());
        for block in 0..layout.blocks {
            let word = |plane| u64::from_le_bytes(words[layout.word(plane, block) - first]);
            let mask = range_mask(block, leaf.start, leaf.end()) & !word(HIDDEN);
            for ((plane, &width), span) in attributes().zip(Span::all(&self.schema)) {
                let planes = plane + span.shift..plane + usize::from(width);
                let sums = &mut sums[span.bits()];
                spread(&word, planes, mask, 0, &mut |value, items| {
                    sums[value as usize] += u64::from(items.count_ones());
                });
            }
        }
        Ok(())
    }
}

impl Selection<'_> {
    /// Returns the number of a node's `items` items that the query selects, according to the node's
    /// tally. Returns `None` if the node has no tally or the tally is not sufficient, for example
    /// because several conditions each match only some of the items.
    pub(in crate::types::feed) fn tallied(
        &self,
        view: &View<'_>,
        node: &FeedNode,
        items: u64,
    ) -> Result<Option<u64>, Error> {
        if !node.is_tallied() || !self.is_of_ranges() || self.seen == Seen::Hidden {
            return Ok(None);
        }
        let (mut all, mut some, mut several) = (0, None, false);
        for (span, wanted) in self.ranges() {
            let mut numbers = [0; u64::BITS as usize];
            let numbers = &mut numbers[..span.buckets()];
            if !node.read_tally(view, span.bits().start, numbers)? {
                return Ok(None);
            }
            let (mut visible, mut seen) = (0_u64, 0_u64);
            for (bucket, &number) in numbers.iter().enumerate() {
                visible += u64::from(number);
                seen += u64::from(number) * (wanted >> bucket & 1);
            }
            if self.seen == Seen::All && visible != items {
                return Ok(None);
            }
            if seen == 0 {
                return Ok(Some(0));
            }
            if seen != visible {
                several |= some.replace(seen).is_some();
            }
            all = visible;
        }
        Ok((!several).then_some(some.unwrap_or(all)))
    }
}
