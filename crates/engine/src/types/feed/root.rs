//! Loads a feed from its root words, which contain the counts and the schema, and iterates over its
//! leaves.

use std::cell::Cell;

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use super::index::Index;
use super::leaves::leaf::{Layout, Leaf, load_leaf};
use super::leaves::summary::{FeedTree, NOTE_WORDS, Note, Sums};
use super::schema::{SCHEMA_WORDS, Schema};
use crate::error::Error;
use crate::structures::entry::Entry;
use crate::structures::tree::Builder;

/// The number of root words of a feed without an index.
const WORDS: usize = 5 + SCHEMA_WORDS;
const ARENA: u64 = 24;
const HIDDEN_ITEMS: u64 = 32;
const SCHEMA: u64 = 40;
pub(super) const INDEX: u64 = WORDS as u64 * 8;

/// A builder for the tree of a feed.
pub(super) type FeedBuilder = Builder<NOTE_WORDS, Sums>;

/// The result of looking up a feed.
#[derive(Debug)]
pub struct Feed {
    /// The offset of the root words.
    pub(super) at: Offset,
    pub(super) tree: FeedTree,
    pub(super) schema: Schema,
    /// The layout of a full-size leaf. All leaves use it if the feed has several leaves.
    pub(super) full: Layout,
    /// The number of hidden items.
    pub(super) hidden: u64,
    /// The memory pool of the feed: its shard's slabs, or its arena.
    pub(super) pool: Pool,
    pub(super) index: Option<Index>,
    /// Changes to the index that are recorded but not yet applied.
    pub(super) words: Words,
}

pub(super) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a feed with as many items as it counts",
    }
    .into()
}

/// The words that encode a schema, with the decoded schema and leaf layout.
type Known = ([u64; SCHEMA_WORDS], (Schema, Layout));

thread_local! {
    /// Caches the schema that was decoded last, because most programs use only a few schemas at a
    /// time.
    static LAST: Cell<Option<Known>> = const { Cell::new(None) };
}

/// Decodes a schema and returns it together with the layout of a full-size leaf. Returns `None` if
/// the words are invalid.
fn known(words: [u64; SCHEMA_WORDS]) -> Option<(Schema, Layout)> {
    match LAST.get() {
        Some((last, known)) if last == words => Some(known),
        _ => {
            let schema = Schema::of_words(words)?;
            let known = (schema, Layout::full(&schema));
            LAST.set(Some((words, known)));
            Some(known)
        }
    }
}

/// Returns the number of root words of a feed with this schema.
fn root_length(schema: &Schema) -> usize {
    WORDS + if schema.is_indexed() { 3 } else { 0 }
}

/// The words to remove from the index and the words to add to it.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) gone: Vec<u64>,
    pub(super) come: Vec<u64>,
}

/// The root words of a newly built tree and of its index.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    pub(super) tree: [u64; 3],
    pub(super) index: [u64; 3],
}

impl Feed {
    /// Loads the feed of an entry. `shard` must be the entry's shard, unless the caller only reads.
    pub(super) fn load(view: &View<'_>, shard: usize, entry: &Entry) -> Result<Feed, Error> {
        if entry.header.value_length() < WORDS as u64 * 8 {
            return Err(entry.fault().into());
        }
        let at = entry.value_at();
        let (schema, full) = known(view.words(at + SCHEMA)?).ok_or_else(|| entry.fault())?;
        if entry.header.value_length() != root_length(&schema) as u64 * 8 {
            return Err(entry.fault().into());
        }
        let pool = Pool::new(shard, view.word(at + ARENA)?);
        let index = match schema.is_indexed() {
            true => Some(Index::load(view, at + INDEX, pool)?),
            false => None,
        };
        Ok(Feed {
            at,
            tree: FeedTree::load(view, at)?,
            schema,
            full,
            hidden: view.word(at + HIDDEN_ITEMS)?,
            pool,
            index,
            words: Words::default(),
        })
    }

    /// Returns the root words of a feed.
    pub(super) fn root_words(schema: &Schema, made: Made, hidden: u64, pool: Pool) -> Vec<u64> {
        let mut words = Vec::with_capacity(root_length(schema));
        words.extend(made.tree);
        words.extend([pool.arena(), hidden]);
        words.extend(schema.words());
        if schema.is_indexed() {
            words.extend(made.index);
        }
        words
    }

    /// Returns the schema of the items.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the number of items, including hidden items.
    pub fn items(&self) -> u64 {
        self.tree.count()
    }

    /// Returns the number of hidden items.
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

    /// Estimates the number of bytes that `items` items occupy.
    pub(super) fn bytes_of(&self, items: u64) -> u64 {
        let bits = self.schema.value_size() * 8 + self.schema.planes();
        items.saturating_mul(bits as u64) / 8
    }

    /// Visits all leaves in order, with the number of items before each leaf. If the leaf has a
    /// parent node, also passes the leaf's note, the summary that the parent stores.
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
            // Revalidate the view, so that a loop over torn data stops early (R3).
            viewer.as_view().recheck()?;
            if !place.step(viewer.as_view(), true)? {
                return Ok(());
            }
        }
    }

    /// Returns the number of bytes used in addition to the entry. This is the size of the feed's
    /// arena, or the total size of its leaves and inner nodes. O(1) with an arena,
    /// O([`OUTGROWN`](crate::structures::elements::OUTGROWN)) without an arena.
    pub(super) fn memory_usage(&self, view: &View<'_>) -> Result<u64, Error> {
        if self.pool.arena() != 0 {
            return Ok(view.arena_bytes(self.pool.arena())?);
        }
        if self.tree.count() == 0 {
            return Ok(0);
        }
        let mut place = self.tree.find(view, 0)?;
        let mut bytes = match &self.index {
            Some(index) => index.bytes(view)?,
            None => 0,
        };
        loop {
            let leaf = load_leaf(view, place.leaf, &self.full, &self.schema, place.count)?;
            let own = place.nodes_begun() + block_size(leaf.layout.size);
            bytes = bytes.saturating_add(own);
            // Revalidate the view, so that a loop over torn data stops early (R3).
            view.recheck()?;
            if !place.step(view, true)? {
                return Ok(bytes);
            }
        }
    }
}

/// Provides a view. Implemented by views and by transactions, so that a transaction can change
/// other data during a walk.
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
