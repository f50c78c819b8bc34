//! Checks the integrity of feeds: the counts and notes in the tree, and the words in the index. A
//! note is the summary of a subtree that its parent node stores.

use undercroft_memory::{Offset, View};

use super::index::word_of;
use super::leaves::image::Image;
use super::leaves::leaf::{Leaf, fault};
use super::leaves::summary::{LABEL, NOTE_WORDS, Note, join};
use super::root;
use super::root::Feed;
use crate::error::Error;
use crate::structures::key::hash;
use crate::structures::tree::{HEIGHT_MAX, Node, Subtree, for_each_left};

/// The state that the check passes from one leaf to the next.
#[derive(Default)]
struct Before {
    /// The previous leaf's last value, if the feed is sorted.
    value: Option<Vec<u8>>,
    /// The label of the previous leaf, if the feed has an index.
    label: Option<u64>,
    /// The sum of the hashes of all words that the index must contain. The words are hashed so that
    /// two errors do not cancel each other out.
    words: u64,
}

/// Returns the hash of an index word.
fn mixed(word: u64) -> u64 {
    hash([word, 0], &[])
}

impl Feed {
    /// Calls `reach` for every block of the feed, and verifies that the tree and the index match
    /// the items.
    pub(super) fn check(
        &self,
        view: &View<'_>,
        reach: &mut dyn FnMut(Offset),
    ) -> Result<(), Error> {
        let mut before = Before::default();
        let (root, count) = (self.tree.root(), self.tree.count());
        if root != 0 || count != 0 || self.hidden != 0 {
            let root = (root, self.tree.height());
            let (counted, note) = self.check_below(view, root, reach, &mut before)?;
            if counted != count || note[0] != self.hidden {
                return Err(root::fault(self.at));
            }
        }
        if let Some(index) = &self.index {
            let mut sum = 0_u64;
            index.check(view, reach, &mut |word| sum = sum.wrapping_add(mixed(word)))?;
            if index.count() != count || sum != before.words {
                return Err(root::fault(self.at));
            }
        }
        Ok(())
    }

    fn check_below(
        &self,
        view: &View<'_>,
        (at, level): Subtree,
        reach: &mut dyn FnMut(Offset),
        before: &mut Before,
    ) -> Result<(u64, Note), Error> {
        reach(at);
        if level == 0 {
            return self.check_leaf(view, at, before);
        }
        if level > HEIGHT_MAX {
            return Err(fault(at));
        }
        let node = Node::<NOTE_WORDS>::load(view, at, level)?;
        let (mut sum, mut all) = (0_u64, None);
        for index in 0..node.children() {
            let (child, count) = node.child(view, index)?;
            let (counted, note) = self.check_below(view, (child, level - 1), reach, before)?;
            let noted = node.note(view, index)?;
            // A note, the summary of a subtree, can list attribute values that no longer occur, but
            // it must list every attribute value that does.
            if counted != count || note[0] != noted[0] || join(note, noted)[1..] != noted[1..] {
                return Err(fault(child));
            }
            sum = sum.wrapping_add(count);
            all = Some(all.map_or(noted, |all| join(all, noted)));
        }
        self.check_tally(view, &node)?;
        Ok((sum, all.unwrap_or_default()))
    }

    fn check_leaf(
        &self,
        view: &View<'_>,
        at: Offset,
        before: &mut Before,
    ) -> Result<(u64, Note), Error> {
        let leaf = Leaf::load(view, at, &self.full, &self.schema)?;
        if leaf.layout.size < self.full.size && self.tree.height() > 0 {
            return Err(fault(at));
        }
        let image = Image::load(view, &leaf)?;
        let ordered = self.check_values(&image, &mut before.value);
        ordered.ok_or_else(|| fault(at))?;
        if self.index.is_some() {
            let label = before.label.replace(leaf.label);
            if label.is_some_and(|label| label >= leaf.label) {
                return Err(fault(at));
            }
            for place in image.places() {
                let word = word_of(hash(view.hash_key(), image.value(place)), at)?;
                before.words = before.words.wrapping_add(mixed(word));
            }
        }
        let mut note = image.note(&self.schema, image.places());
        note[LABEL] = leaf.label;
        Ok((leaf.count as u64, note))
    }

    /// Verifies that the values of a leaf are valid and in order, and that they follow the previous
    /// leaf's last value. Always succeeds if the feed is not sorted.
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
}

/// Visits the remaining blocks of a tree that is being freed leaf by leaf.
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
