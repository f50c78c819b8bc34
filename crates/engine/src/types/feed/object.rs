//! Copies, rebuilds and discards complete feeds, and moves them to arenas.

use std::collections::HashMap;

use undercroft_memory::{Pool, Transaction};

use super::edit::Packer;
use super::index::Index;
use super::leaves::image::{Image, runs};
use super::leaves::summary::{FeedTree, LABEL};
use super::query::walk::Found;
use super::root::{Feed, FeedBuilder, INDEX, Made};
use crate::error::Error;
use crate::structures::elements::OUTGROWN;
use crate::structures::graveyard;
use crate::structures::tree::Child;

/// The number that identifies feed trees in the records of the graveyard, the queue of large values
/// to free.
pub(super) const TREE: u64 = 5;

impl Feed {
    /// Prepares a feed for `more` new items. If the feed would outgrow its shard's slabs, moves it
    /// to an arena (H4). At most [`OUTGROWN`] bytes are moved.
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
        if self.index.is_some() {
            self.index = Some(Index::load(transaction.view(), self.at + INDEX, arena)?);
        }
        self.pool = arena;
        Ok(())
    }

    /// Queues the trees of a feed without an arena, so that they are freed later in small steps. A
    /// tree with a single leaf is freed immediately.
    pub(super) fn discard(&self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let index = self.index.as_ref().map(Index::root);
        for tree in [Some((self.tree.root(), self.tree.height())), index] {
            match tree {
                None | Some((0, _)) => {}
                Some((leaf, 0)) => transaction.free(self.pool, leaf),
                Some((root, height)) => {
                    let words = [root, height as u64, 0, 0, 0];
                    graveyard::bury(transaction, self.pool.shard(), TREE, words)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the feed to another memory pool and returns the copy's root words. O(n).
    pub(super) fn copy(
        &self,
        transaction: &mut Transaction<'_>,
        to: Pool,
    ) -> Result<Vec<u64>, Error> {
        let mut builder = FeedBuilder::new();
        let mut moved = HashMap::new();
        self.for_each_leaf(transaction, |transaction, leaf, _, note| {
            let note = match note {
                Some(note) => note,
                None => {
                    let image = Image::load(transaction.view(), leaf)?;
                    let mut note = image.note(&self.schema, image.places());
                    note[LABEL] = leaf.label;
                    note
                }
            };
            let at = transaction.allocate(to, leaf.layout.size)?;
            transaction.fill_from(at, leaf.at, leaf.layout.size)?;
            if self.index.is_some() {
                moved.insert(leaf.at, at);
            }
            let count = leaf.count as u64;
            builder.push(transaction, to, Child { at, count, note })
        })?;
        let mut made = Made::default();
        if self.tree.count() > 0 {
            made.tree = builder.finish(transaction, to)?;
        }
        if let Some(index) = &self.index {
            let words = index.moved(transaction.view(), &moved)?;
            made.index = Index::build(transaction, to, &words)?;
        }
        Ok(Feed::root_words(&self.schema, made, self.hidden, to))
    }

    /// Copies the feed to another memory pool, omitting the items `without`, which must be given in
    /// feed order. The leaves of the copy are full. Returns the copy's root words. O(n).
    pub(super) fn make_anew(
        &self,
        transaction: &mut Transaction<'_>,
        to: Pool,
        without: &[Found],
    ) -> Result<Vec<u64>, Error> {
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
        let made = packer.finish(transaction)?;
        Ok(Feed::root_words(&self.schema, made, hidden, to))
    }
}
