//! Labels of leaves, in feeds that have an index: numbers that ascend from leaf to leaf. A leaf has its label, and inner
//! nodes note that of the first leaf below each child. So the way from the root to a leaf that the index names is found,
//! and no leaf or node has to know what is above it, which changes with every split.

use undercroft_memory::{Offset, Transaction, View};

use super::leaf::{Leaf, fault};
use super::summary::{LABEL, NOTE_WORDS};
use super::whole::Feed;
use crate::error::Error;
use crate::structures::tree::{Node, Place};

/// The label of a feed's first leaf.
pub(super) const FIRST: u64 = 1 << 63;
/// From one leaf to the next where a feed grows at its ends: billions fit there, and thousands of items between two.
pub(super) const STEP: u64 = 1 << 32;
/// What is left between two leaves at least when labels are given anew.
const SPARE: u64 = 1 << 16;

/// Labels for so many leaves between two others, or at an end; none where there is no room.
fn between(low: Option<u64>, high: Option<u64>, count: usize) -> Option<Vec<u64>> {
    let count = count as u64;
    let most = match (low, high) {
        (Some(low), Some(high)) => high.checked_sub(low)? / (count + 1),
        (Some(low), None) => (u64::MAX - low) / (count + 1),
        (None, Some(high)) => high / (count + 1),
        (None, None) => STEP,
    };
    let step = if low.is_some() && high.is_some() {
        most
    } else {
        most.min(STEP)
    };
    let first = match (low, high) {
        (Some(low), _) => low + step,
        (None, Some(high)) => high - step * count,
        (None, None) => FIRST,
    };
    (step > 0).then(|| (0..count).map(|index| first + index * step).collect())
}

/// The label of the leaf that a place leads to.
fn label(view: &View<'_>, place: &Place<NOTE_WORDS>) -> Result<u64, Error> {
    Leaf::label(view, place.leaf)
}

impl Feed {
    /// The way to a leaf. O(log n).
    pub(super) fn place_of_leaf(
        &self,
        view: &View<'_>,
        leaf: Offset,
    ) -> Result<Place<NOTE_WORDS>, Error> {
        let label = Leaf::label(view, leaf)?;
        let place = self.tree.find_by(view, |note| Ok(note[LABEL] <= label))?;
        if place.leaf == leaf {
            Ok(place)
        } else {
            Err(fault(leaf))
        }
    }

    /// Labels for so many leaves that are put in from a place on, where as many as `remove` were; with `stays`, before or
    /// behind the one that is there.
    pub(super) fn labels(
        &self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
        (remove, count): (usize, usize),
        stays: Option<bool>,
    ) -> Result<Vec<u64>, Error> {
        if self.index.is_none() {
            return Ok(vec![0; count]);
        }
        if self.tree.count() == 0 {
            return Ok(between(None, None, count).unwrap_or_default());
        }
        if let Some(labels) =
            self.labels_there(transaction.view(), place, (remove, count), stays)?
        {
            return Ok(labels);
        }
        // Before the first leaf there is room only where the first one gets another label.
        let label = label(transaction.view(), place)?;
        self.relabel(transaction, label, stays == Some(false))?;
        let labels = self.labels_there(transaction.view(), place, (remove, count), stays)?;
        labels.ok_or_else(|| fault(place.leaf))
    }

    fn labels_there(
        &self,
        view: &View<'_>,
        place: &Place<NOTE_WORDS>,
        (remove, count): (usize, usize),
        stays: Option<bool>,
    ) -> Result<Option<Vec<u64>>, Error> {
        let here = label(view, place)?;
        let mut other = place.clone();
        if stays == Some(false) {
            let before = other.step(view, false)?;
            let low = before.then(|| label(view, &other)).transpose()?;
            return Ok(between(low, Some(here), count));
        }
        let mut behind = true;
        for _ in 0..remove {
            behind = behind && other.step(view, true)?;
        }
        let high = behind.then(|| label(view, &other)).transpose()?;
        if stays == Some(true) {
            return Ok(between(Some(here), high, count));
        }
        // The first one comes in the place of the one that was there.
        let others = between(Some(here), high, count.saturating_sub(1));
        Ok(others.map(|others| {
            let all = std::iter::once(here).chain(others);
            all.take(count).collect()
        }))
    }

    /// Gives labels anew to the leaves of the lowest node that has room for them around the leaf with a label. Where
    /// items are put in at one place again and again, that is one node for dozens of leaves that were split.
    fn relabel(
        &self,
        transaction: &mut Transaction<'_>,
        label: u64,
        all: bool,
    ) -> Result<(), Error> {
        let view = transaction.view();
        let mut nodes = Vec::new();
        let (mut at, mut end) = (self.tree.root(), None);
        for level in (1..=self.tree.height()).rev() {
            nodes.push((at, level, end));
            let node = Node::<NOTE_WORDS>::load(view, at, level)?;
            let mut index = node.children() - 1;
            while index > 0 && node.note(view, index)?[LABEL] > label {
                index -= 1;
            }
            if index + 1 < node.children() {
                end = Some(node.note(view, index + 1)?[LABEL]);
            }
            (at, _) = node.child(view, index)?;
        }
        for &(at, level, end) in nodes.iter().rev().filter(|_| !all) {
            let leaves = count_leaves(view, at, level)?;
            let first = Node::<NOTE_WORDS>::load(view, at, level)?.note(view, 0)?[LABEL];
            let end: u64 = end.unwrap_or(u64::MAX);
            let room = (end.saturating_sub(first) / leaves.max(1)).min(STEP);
            // The first one keeps its label, so that nothing changes above.
            if room > SPARE {
                spread(
                    transaction,
                    self.pool.shard(),
                    (at, level),
                    &mut (first, room),
                )?;
                return Ok(());
            }
        }
        // All of them, so that there is room at both ends.
        let Some(&(root, level, _)) = nodes.first() else {
            // A single leaf: there is all the room that there is.
            return Ok(transaction.store(self.pool.shard(), at + super::leaf::LABEL_AT, FIRST)?);
        };
        let leaves = count_leaves(view, root, level)?;
        let step = STEP.min(u64::MAX / 2 / (leaves + 1));
        let first = FIRST - leaves / 2 * step;
        spread(
            transaction,
            self.pool.shard(),
            (root, level),
            &mut (first, step),
        )?;
        Ok(())
    }
}

/// Leaves below a node.
fn count_leaves(view: &View<'_>, at: Offset, level: usize) -> Result<u64, Error> {
    let node = Node::<NOTE_WORDS>::load(view, at, level)?;
    if level == 1 {
        return Ok(node.children() as u64);
    }
    let mut sum = 0;
    for index in 0..node.children() {
        let (child, _) = node.child(view, index)?;
        sum += count_leaves(view, child, level - 1)?;
    }
    Ok(sum)
}

/// Gives the leaves of a subtree the next label each. Returns the first one's.
fn spread(
    transaction: &mut Transaction<'_>,
    shard: usize,
    (at, level): (Offset, usize),
    next: &mut (u64, u64),
) -> Result<u64, Error> {
    let first = next.0;
    if level == 0 {
        transaction.store(shard, at + super::leaf::LABEL_AT, first)?;
        next.0 += next.1;
        return Ok(first);
    }
    let node = Node::<NOTE_WORDS>::load(transaction.view(), at, level)?;
    for index in 0..node.children() {
        let (child, _) = node.child(transaction.view(), index)?;
        let mut note = node.note(transaction.view(), index)?;
        note[LABEL] = spread(transaction, shard, (child, level - 1), next)?;
        node.set_note(transaction, shard, index, &note)?;
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lie_between_their_neighbours() {
        let ends = [None, Some(1), Some(FIRST), Some(u64::MAX)];
        for (low, high) in ends
            .into_iter()
            .flat_map(|low| ends.map(|high| (low, high)))
        {
            for count in [1, 2, 31] {
                let Some(labels) = between(low, high, count) else {
                    continue;
                };
                assert_eq!(labels.len(), count);
                assert!(
                    labels.is_sorted_by(|one, next| one < next),
                    "{low:?} {high:?}"
                );
                assert!(low.is_none_or(|low| low < labels[0]));
                assert!(high.is_none_or(|high| labels[count - 1] < high));
            }
        }
        assert_eq!(between(Some(4), Some(8), 3), Some(vec![5, 6, 7]));
        assert_eq!(between(Some(4), Some(8), 4), None);
        assert_eq!(between(Some(u64::MAX), None, 1), None);
        assert_eq!(between(None, Some(0), 1), None);
    }
}
