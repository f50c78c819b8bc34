//! Whole feeds: their root words, copying, making anew, checking, measuring.
//!
//! ```text
//! | root, items, levels of the tree | arena, or 0 | hidden items | schema, 3 words |
//! ```

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use super::edit::Packer;
use super::image::{Image, runs};
use super::leaf::{Layout, Leaf};
use super::schema::{SCHEMA_WORDS, Schema};
use super::summary::{FeedTree, NOTE_WORDS, Note, Sums, join};
use super::walk::{Found, load_leaf};
use crate::error::Error;
use crate::structures::elements::OUTGROWN;
use crate::structures::entry::Entry;
use crate::structures::tree::{Builder, Child, HEIGHT_MAX, Node, Subtree, for_each_left};
use crate::types::registry::ValueType;
use crate::upkeep::graveyard::{self, Dying};

/// Root words of a feed.
pub(super) const WORDS: usize = 5 + SCHEMA_WORDS;
const ARENA: u64 = 24;
const HIDDEN_ITEMS: u64 = 32;
const SCHEMA: u64 = 40;

/// Makes the tree of a feed.
pub(super) type FeedBuilder = Builder<NOTE_WORDS, Sums>;

/// A feed.
#[derive(Debug)]
pub struct Feed {
    /// Where its root words are.
    at: Offset,
    pub(super) tree: FeedTree,
    pub(super) schema: Schema,
    /// How its leaves are laid out where there are several.
    pub(super) full: Layout,
    /// Hidden items.
    pub(super) hidden: u64,
    /// Where its memory comes from.
    pub(super) pool: Pool,
}

fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a feed with as many items as it counts",
    }
    .into()
}

impl Feed {
    /// The feed that an entry holds, which lies in a shard; any shard will do where it is only read.
    pub(super) fn load(view: &View<'_>, shard: usize, entry: &Entry) -> Result<Feed, Error> {
        if entry.header.value_length() != WORDS as u64 * 8 {
            return Err(entry.fault().into());
        }
        let at = entry.value_at();
        let schema = Schema::of_words(view.words(at + SCHEMA)?);
        let schema = schema.ok_or_else(|| Error::from(entry.fault()))?;
        Ok(Feed {
            at,
            tree: FeedTree::load(view, at)?,
            schema,
            full: Layout::full(&schema),
            hidden: view.word(at + HIDDEN_ITEMS)?,
            pool: Pool::new(shard, view.word(at + ARENA)?),
        })
    }

    /// The root words of a feed.
    pub(super) fn root_words(
        schema: &Schema,
        [root, count, height]: [u64; 3],
        hidden: u64,
        pool: Pool,
    ) -> [u64; WORDS] {
        let [size, low, high] = schema.words();
        [root, count, height, pool.arena(), hidden, size, low, high]
    }

    /// What its items are.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Number of items, hidden ones included.
    pub fn items(&self) -> u64 {
        self.tree.count()
    }

    /// Number of hidden items.
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    pub(super) fn set_hidden(
        &mut self,
        transaction: &mut Transaction<'_>,
        hidden: u64,
    ) -> Result<(), Error> {
        if hidden != self.hidden {
            self.hidden = hidden;
            transaction.store(self.pool.shard(), self.at + HIDDEN_ITEMS, hidden)?;
        }
        Ok(())
    }

    /// Bytes that so many items take, about.
    pub(super) fn bytes_of(&self, items: u64) -> u64 {
        let bits = self.schema.value_size() * 8 + self.schema.planes();
        items.saturating_mul(bits as u64) / 8
    }

    /// The memory of a feed that is about to get so many items more: it moves to an arena where it has outgrown its
    /// shard's slabs (H4). At most [`OUTGROWN`] bytes are moved.
    pub(super) fn settle(
        &mut self,
        transaction: &mut Transaction<'_>,
        more: u64,
    ) -> Result<(), Error> {
        let pool = self.pool;
        if pool.arena() != 0 {
            return Ok(());
        }
        let held = self.tree.leaves_at_least(transaction.view())? * self.full.size;
        if held.saturating_add(self.bytes_of(more)) < OUTGROWN {
            return Ok(());
        }
        let arena = transaction.create_arena(pool.shard())?;
        let words = self.copy(transaction, arena)?;
        self.discard(transaction)?;
        for (at, word) in (self.at..).step_by(8).zip(words) {
            transaction.store(pool.shard(), at, word)?;
        }
        self.tree = FeedTree::load(transaction.view(), self.at)?;
        self.pool = arena;
        Ok(())
    }

    /// Lets the tree of a feed that has no arena be freed later, in small steps; one leaf at once.
    pub(super) fn discard(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        match (self.tree.root(), self.tree.height()) {
            (0, _) => Ok(()),
            (leaf, 0) => {
                transaction.free(self.pool, leaf);
                Ok(())
            }
            (root, height) => {
                let words = [root, height as u64, 0, 0, 0];
                let dying = Dying::Tree(ValueType::Feed);
                graveyard::bury(transaction, self.pool.shard(), dying, words).map(drop)
            }
        }
    }

    /// Visits all leaves in order, with what is noted of them where they have a node above them.
    pub(super) fn for_each_leaf<V: AsView>(
        &self,
        viewer: &mut V,
        mut visit: impl FnMut(&mut V, &Leaf, u64, Option<Note>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.tree.count() == 0 {
            return Ok(());
        }
        let mut place = self.tree.find(viewer.as_view(), 0)?;
        loop {
            let view = viewer.as_view();
            let leaf = load_leaf(view, place.leaf, &self.full, &self.schema, place.count)?;
            let note = place.note(view)?;
            visit(viewer, &leaf, place.before, note)?;
            // R3: what is torn must not go on for long.
            viewer.as_view().recheck()?;
            if !place.step(viewer.as_view(), true)? {
                return Ok(());
            }
        }
    }

    /// Root words of a copy in another pool. O(n).
    pub(super) fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        to: Pool,
    ) -> Result<[u64; WORDS], Error> {
        let mut builder = FeedBuilder::new();
        self.for_each_leaf(transaction, |transaction, leaf, _, note| {
            let note = match note {
                Some(note) => note,
                None => {
                    let image = Image::load(transaction.view(), leaf)?;
                    image.note(&self.schema, image.places())
                }
            };
            let at = transaction.allocate(to, leaf.layout.size)?;
            transaction.fill_from(at, leaf.at, leaf.layout.size)?;
            let count = leaf.count as u64;
            builder.push(transaction, to, Child { at, count, note })
        })?;
        let tree = if self.tree.count() == 0 {
            [0; 3]
        } else {
            builder.finish(transaction, to)?
        };
        Ok(Feed::root_words(&self.schema, tree, self.hidden, to))
    }

    /// Root words of the same feed in another pool without some items, which were found in this order. Its leaves are
    /// full. O(n).
    pub(super) fn make_anew(
        &self,
        transaction: &mut Transaction<'_>,
        to: Pool,
        without: &[Found],
    ) -> Result<[u64; WORDS], Error> {
        let mut packer = Packer::new(&self.schema, to);
        let (mut without, mut hidden) = (without.iter().peekable(), 0);
        self.for_each_leaf(transaction, |transaction, leaf, before, _| {
            let image = Image::load(transaction.view(), leaf)?;
            let gone = without.next_if(|found| found.before == before);
            let masks = gone.map_or(&[][..], |found| &found.masks);
            for run in runs(image.places(), masks, false) {
                hidden += image.note(&self.schema, run.clone())[0];
                packer.add(transaction, &image, run)?;
            }
            Ok(())
        })?;
        let tree = packer.finish(transaction)?;
        Ok(Feed::root_words(&self.schema, tree, hidden, to))
    }

    /// Calls `reach` for every block, and checks what the tree says about them.
    pub(super) fn check(
        &self,
        view: &View<'_>,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error> {
        let (root, count) = (self.tree.root(), self.tree.count());
        if root == 0 && count == 0 && self.hidden == 0 {
            return Ok(());
        }
        let mut last = None;
        let root = (root, self.tree.height());
        let (counted, note) = self.check_below(view, root, reach, &mut last)?;
        if counted != count || note[0] != self.hidden {
            return Err(fault(self.at));
        }
        Ok(())
    }

    fn check_below(
        &self,
        view: &View<'_>,
        (at, level): Subtree,
        reach: &mut dyn FnMut(Offset),
        last: &mut Option<Vec<u8>>,
    ) -> Result<(u64, Note), Error> {
        reach(at);
        if level == 0 {
            let leaf = Leaf::load(view, at, &self.full, &self.schema)?;
            let small = leaf.layout.size < self.full.size;
            if small && self.tree.height() > 0 {
                return Err(fault(at));
            }
            let image = Image::load(view, &leaf)?;
            self.check_values(&image, last).ok_or_else(|| fault(at))?;
            return Ok((leaf.count as u64, image.note(&self.schema, image.places())));
        }
        if level > HEIGHT_MAX {
            return Err(fault(at));
        }
        let node = Node::<NOTE_WORDS>::load(view, at, level)?;
        let (mut sum, mut all) = (0_u64, Note::default());
        for index in 0..node.children() {
            let (child, count) = node.child(view, index)?;
            let (counted, note) = self.check_below(view, (child, level - 1), reach, last)?;
            let noted = node.note(view, index)?;
            // Values that are not there may be named, but none that is there may not.
            if counted != count || note[0] != noted[0] || join(note, noted)[1..] != noted[1..] {
                return Err(fault(child));
            }
            (sum, all) = (sum.wrapping_add(count), join(all, noted));
        }
        Ok((sum, all))
    }

    /// Whether the values of a leaf of a sorted feed are values of its type, and in order behind the last one before it.
    fn check_values(&self, image: &Image, last: &mut Option<Vec<u8>>) -> Option<()> {
        let order = self.schema.order();
        if order.sorted_by().is_none() {
            return Some(());
        }
        for place in image.places() {
            let value = image.value(place);
            let follows = last
                .as_ref()
                .is_none_or(|last| order.may_follow(last, value));
            if !follows || !self.schema.takes(value) {
                return None;
            }
            *last = Some(value.to_vec());
        }
        Some(())
    }

    /// Bytes that it takes beside its entry: its arena, where it has one; else its leaves and inner nodes. O(1) with
    /// an arena, and O([`OUTGROWN`]) without.
    pub(super) fn memory_usage(&self, view: &View<'_>) -> Result<u64, Error> {
        if self.pool.arena() != 0 {
            return Ok(view.arena_bytes(self.pool.arena())?);
        }
        if self.tree.count() == 0 {
            return Ok(0);
        }
        let mut place = self.tree.find(view, 0)?;
        let mut bytes = 0_u64;
        loop {
            let leaf = load_leaf(view, place.leaf, &self.full, &self.schema, place.count)?;
            let own = place.nodes_begun() + block_size(leaf.layout.size);
            bytes = bytes.saturating_add(own);
            // R3: a torn feed must not make us look for long.
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(bytes);
            }
        }
    }
}

/// Who reads a feed: a view, or a transaction that changes something else meanwhile.
pub(super) trait AsView {
    fn as_view(&self) -> &View<'_>;
}

impl AsView for &View<'_> {
    fn as_view(&self) -> &View<'_> {
        self
    }
}

impl AsView for Transaction<'_> {
    fn as_view(&self) -> &View<'_> {
        self.view()
    }
}

/// Visits what is left of a tree that is being freed.
pub(super) fn check_left(
    view: &View<'_>,
    subtree: Subtree,
    progress: u64,
    reach: &mut dyn FnMut(Offset),
) -> Result<(), Error> {
    for_each_left::<NOTE_WORDS>(view, subtree, progress, &mut |at, _| {
        reach(at);
        Ok(())
    })
    .map(drop)
}
