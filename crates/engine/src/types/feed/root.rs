//! A feed from its root words: what it counts, its schema, its leaves in order.

use std::cell::Cell;

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, block_size};

use super::index::Index;
use super::leaves::leaf::{Layout, Leaf, load_leaf};
use super::leaves::summary::{FeedTree, NOTE_WORDS, Note, Sums};
use super::schema::{SCHEMA_WORDS, Schema};
use crate::error::Error;
use crate::structures::entry::Entry;
use crate::structures::tree::Builder;

/// Root words of a feed without an index.
const WORDS: usize = 5 + SCHEMA_WORDS;
const ARENA: u64 = 24;
const HIDDEN_ITEMS: u64 = 32;
const SCHEMA: u64 = 40;
pub(super) const INDEX: u64 = WORDS as u64 * 8;

/// Makes the tree of a feed.
pub(super) type FeedBuilder = Builder<NOTE_WORDS, Sums>;

/// A feed.
#[derive(Debug)]
pub struct Feed {
    /// Where its root words are.
    pub(super) at: Offset,
    pub(super) tree: FeedTree,
    pub(super) schema: Schema,
    /// How its leaves are laid out where there are several.
    pub(super) full: Layout,
    /// Hidden items.
    pub(super) hidden: u64,
    /// Where its memory comes from.
    pub(super) pool: Pool,
    pub(super) index: Option<Index>,
    /// What the index is to be told.
    pub(super) words: Words,
}

pub(super) fn fault(at: Offset) -> Error {
    Fault {
        at,
        what: "a feed with as many items as it counts",
    }
    .into()
}

/// What the words of a schema stand for.
type Known = ([u64; SCHEMA_WORDS], (Schema, Layout));

thread_local! {
    /// The schema that was asked for last: most programs use few feeds at a time.
    static LAST: Cell<Option<Known>> = const { Cell::new(None) };
}

/// The schema that words stand for, if they do, and how its leaves are laid out.
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

/// Root words of a feed of a schema.
fn root_length(schema: &Schema) -> usize {
    WORDS + if schema.is_indexed() { 3 } else { 0 }
}

/// What an index gets and loses.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) gone: Vec<u64>,
    pub(super) come: Vec<u64>,
}

/// Root words of the trees that were made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Made {
    pub(super) tree: [u64; 3],
    pub(super) index: [u64; 3],
}

impl Feed {
    /// The feed that an entry holds, which lies in a shard; any shard will do where it is only read.
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

    /// The root words of a feed.
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

    /// Bytes that it takes beside its entry: its arena, where it has one; else its leaves and inner nodes. O(1) with
    /// an arena, and O([`OUTGROWN`](crate::structures::elements::OUTGROWN)) without.
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
