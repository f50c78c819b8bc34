//! Assigns labels to the leaves of a feed that has an index. Labels are numbers that ascend from
//! leaf to leaf. Each leaf stores its label, and an inner node stores the label of the first leaf
//! below each child. The index identifies a leaf, and a search by label finds the path from the
//! root to that leaf. Leaves and nodes therefore need no parent pointers, which every split would
//! change.

use std::ops::RangeInclusive;

use undercroft_memory::{Offset, Transaction, View};

use super::leaf::{LABEL_AT, Leaf, fault};
use super::summary::{LABEL, NOTE_WORDS};
use crate::error::Error;
use crate::structures::tree::{Node, Place, Subtree};
use crate::types::feed::root::Feed;

/// The label of a new feed's first leaf.
pub(in crate::types::feed) const FIRST: u64 = 1 << 63;
/// The difference between the labels of neighboring leaves if a feed grows at its ends. It leaves
/// room for billions of leaves at the ends, and for thousands of items between two leaves.
pub(in crate::types::feed) const STEP: u64 = 1 << 32;
/// The minimum number of leaves that are relabeled together.
const WINDOW: usize = 8;
/// The size in leaves at which a relabeled window accepts the minimum distance between labels. A
/// smaller window grows until each leaf has more room. A larger window does not, because relabeling
/// holds the shard's lock.
const WINDOW_USUAL: usize = 4096;
/// The binary logarithm of the minimum distance between new labels. A distance of 256 is enough
/// because one splice inserts a few dozen leaves.
const ROOM: u32 = 8;

/// Returns labels for `count` leaves between two labels or at an end of the feed, or `None` if
/// there is not enough room.
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

/// Returns the first label and the distance between labels for relabeling `leaves` leaves between
/// two labels or at an end of the feed. Returns `None` if the window of leaves must be larger. At
/// an end, the labels stay close together to reserve room for more leaves.
fn anew(leaves: usize, low: Option<u64>, high: Option<u64>) -> Option<(u64, u64)> {
    let count = leaves as u64;
    let range = high.unwrap_or(u64::MAX).checked_sub(low.unwrap_or(0))?;
    // Twice as many leaves in the window require four times as much room for each leaf, so that an
    // expensive relabeling is needed less often.
    let doubled = (leaves / WINDOW).max(1).ilog2();
    let least = match leaves < WINDOW_USUAL {
        true => ROOM + 2 * doubled,
        false => ROOM,
    };
    let mut step = range / (count + 1);
    if step >> least == 0 {
        return None;
    }
    if low.is_none() || high.is_none() {
        step = step.min(STEP);
    }
    let first = match (low, high) {
        (Some(low), _) => low + step,
        (None, Some(high)) => high - step * count,
        (None, None) => FIRST - count / 2 * step,
    };
    Some((first, step))
}

/// Returns the label of the leaf at a location in the tree.
fn label(view: &View<'_>, place: &Place<NOTE_WORDS>) -> Result<u64, Error> {
    match place.note(view)? {
        Some(note) => Ok(note[LABEL]),
        None => Leaf::label(view, place.leaf),
    }
}

/// Returns the label of the next leaf or of the previous leaf, or `None` if that leaf does not
/// exist.
fn label_beside(
    view: &View<'_>,
    place: &Place<NOTE_WORDS>,
    forward: bool,
) -> Result<Option<u64>, Error> {
    let mut beside = place.clone();
    match beside.step(view, forward)? {
        true => label(view, &beside).map(Some),
        false => Ok(None),
    }
}

impl Feed {
    /// Returns the path to a leaf, found by the leaf's label. O(log n).
    pub(in crate::types::feed) fn place_of_leaf(
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

    /// Returns labels for `count` leaves that replace `remove` leaves at `place`. If `stays` is
    /// given, one old leaf is kept, before the new leaves if `stays` is true, otherwise after them.
    pub(in crate::types::feed) fn labels(
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
        self.relabel(transaction, place)?;
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
        if stays == Some(false) {
            let low = label_beside(view, place, false)?;
            return Ok(between(low, Some(here), count));
        }
        let (mut other, mut behind) = (place.clone(), true);
        for _ in 0..remove {
            behind = behind && other.step(view, true)?;
        }
        let high = behind.then(|| label(view, &other)).transpose()?;
        if stays == Some(true) {
            return Ok(between(Some(here), high, count));
        }
        // The first new leaf inherits the label of the leaf that it replaces.
        let others = between(Some(here), high, count.saturating_sub(1));
        Ok(others.map(|others| {
            let all = std::iter::once(here).chain(others);
            all.take(count).collect()
        }))
    }

    /// Relabels the leaves around `place`, in the smallest window of leaves with enough room. A
    /// window contains thousands of leaves only after about ten thousand leaves were inserted at
    /// the same place. O(leaves * log n).
    fn relabel(
        &self,
        transaction: &mut Transaction<'_>,
        place: &Place<NOTE_WORDS>,
    ) -> Result<(), Error> {
        let view = transaction.view();
        let (mut first, mut last) = (place.clone(), place.clone());
        let (mut leaves, mut wanted) = (1, WINDOW);
        let mut labels = loop {
            let before = leaves;
            leaves += usize::from(first.step(view, false)?);
            leaves += usize::from(last.step(view, true)?);
            let is_all = leaves == before;
            if leaves < wanted && !is_all {
                continue;
            }
            let low = label_beside(view, &first, false)?;
            let high = label_beside(view, &last, true)?;
            match anew(leaves, low, high) {
                Some((next, step)) => break Labels { next, step },
                None if is_all => return Err(fault(place.leaf)),
                None => wanted *= 2,
            }
        };
        let window = label(view, &first)?..=label(view, &last)?;
        let root = (self.tree.root(), self.tree.height());
        spread(transaction, self.pool.shard(), root, &window, &mut labels)
    }
}

/// The next label to assign, and its difference from the label that follows it.
struct Labels {
    next: u64,
    step: u64,
}

/// Assigns new labels to the leaves of a subtree whose old labels are in `window`.
fn spread(
    transaction: &mut Transaction<'_>,
    shard: usize,
    (at, level): Subtree,
    window: &RangeInclusive<u64>,
    labels: &mut Labels,
) -> Result<(), Error> {
    if level == 0 {
        transaction.store(shard, at + LABEL_AT, labels.next)?;
        labels.next = labels.next.wrapping_add(labels.step);
        return Ok(());
    }
    let node = Node::<NOTE_WORDS>::load(transaction.view(), at, level)?;
    let mut index = node.seek_key(
        transaction.view(),
        |note| Ok(note[LABEL] <= *window.start()),
    )?;
    while index < node.children() {
        let view = transaction.view();
        let (child, mut note) = (node.child(view, index)?.0, node.note(view, index)?);
        if note[LABEL] > *window.end() {
            break;
        }
        let first = labels.next;
        spread(transaction, shard, (child, level - 1), window, labels)?;
        // If the window does not include the first leaf below this child, the label in the child's
        // note does not change.
        if window.contains(&note[LABEL]) {
            note[LABEL] = first;
            node.set_note(transaction, shard, index, &note)?;
        }
        index += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use undercroft_memory::Options;

    use super::super::image::Rows;
    use super::*;
    use crate::handle::store::Store;
    use crate::transaction::writer::Writer;
    use crate::types::feed::order::Order;
    use crate::types::feed::schema::Schema;

    #[test]
    fn labels_lie_between_their_neighbors() {
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

    /// A model of a feed's leaves that consists only of labels and follows `Feed::labels` and
    /// `Feed::relabel`.
    struct Line {
        labels: Vec<u64>,
        /// The number of leaves that each relabeling changed.
        windows: Vec<usize>,
    }

    impl Line {
        fn insert(&mut self, index: usize) {
            loop {
                let beside = |index: usize| self.labels.get(index).copied();
                let low = index.checked_sub(1).and_then(beside);
                if let Some(new) = between(low, beside(index), 1) {
                    return self.labels.insert(index, new[0]);
                }
                self.relabel(index.saturating_sub(1));
            }
        }

        fn relabel(&mut self, place: usize) {
            let (mut first, mut last, mut wanted) = (place, place, WINDOW);
            loop {
                let before = last - first;
                first = first.saturating_sub(1);
                last = (last + 1).min(self.labels.len() - 1);
                if last - first + 1 < wanted && last - first > before {
                    continue;
                }
                let low = first.checked_sub(1).map(|index| self.labels[index]);
                let high = self.labels.get(last + 1).copied();
                if let Some((next, step)) = anew(last - first + 1, low, high) {
                    for (index, label) in self.labels[first..=last].iter_mut().enumerate() {
                        *label = next + index as u64 * step;
                    }
                    return self.windows.push(last - first + 1);
                }
                assert!(last - first > before, "no room anywhere");
                wanted *= 2;
            }
        }
    }

    /// Relabeling holds a lock, so it must be rare and must change few leaves.
    #[test]
    fn insertion_anywhere_relabels_few_leaves() {
        type Next<'n> = &'n mut dyn FnMut(usize, usize) -> usize;
        let places: [(&str, Next<'_>); 4] = [
            ("before the last one", &mut |at, _| at),
            ("after the last one", &mut |at, _| at + 1),
            ("on either side", &mut |at, step| at + step % 2),
            ("in the middle", &mut |_, step| 5_000 + step / 2),
        ];
        for (name, next) in places {
            let labels = (0..10_000).map(|leaf| FIRST + leaf * STEP).collect();
            let mut line = Line {
                labels,
                windows: Vec::new(),
            };
            let (mut at, leaves) = (5_000, 45_000);
            for step in 0..leaves {
                at = next(at, step);
                line.insert(at);
            }
            assert!(line.labels.is_sorted_by(|one, next| one < next), "{name}");
            let (most, all) = (
                line.windows.iter().max(),
                line.windows.iter().sum::<usize>(),
            );
            assert!(
                most.is_none_or(|most| *most <= WINDOW_USUAL + 1),
                "{name}: {most:?}"
            );
            assert!(all < 100 * leaves, "{name}: {all}");
        }
    }

    /// If the labels at the front are exhausted, the leaves there get larger labels, a few leaves
    /// at a time.
    #[test]
    fn labels_never_run_out() {
        let mut random = fastrand::Rng::with_seed(6);
        let labels = (1..=10_000).map(|leaf| leaf * STEP).collect();
        let mut line = Line {
            labels,
            windows: Vec::new(),
        };
        // Insert repeatedly at the front and remove leaves elsewhere.
        for _ in 0..30_000 {
            line.insert(0);
            line.labels.remove(random.usize(1..line.labels.len()));
        }
        let (most, all) = (
            line.windows.iter().max(),
            line.windows.iter().sum::<usize>(),
        );
        assert!(
            most.is_some_and(|most| *most <= 2 * WINDOW_USUAL),
            "{most:?}"
        );
        assert!(all < 150 * 30_000, "{all}");
    }

    /// The labels are consecutive, even at the lowest and highest numbers, so an insertion must
    /// relabel leaves to make room.
    #[test]
    fn feed_with_consecutive_labels_accepts_items_anywhere() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        let key = store.key(b"feed");
        let schema = Schema::new(8, &[3], Order::List).and_then(Schema::with_index);
        let schema = schema.expect("sound");
        let write = |body: &(dyn Fn(&mut Writer<'_, '_>) -> Result<(), Error> + Sync)| {
            let written = store.write(store.shards_of([&key]), |writer| body(writer));
            written.expect("written");
        };
        let rows = |from: u64, count: u64| {
            let mut rows = Rows::new(&schema);
            (from..from + count).for_each(|number| rows.push(&number.to_le_bytes(), &[1], false));
            rows
        };
        let mut number = 0;
        for (next, position) in [(1, 0), (u64::MAX - 2_000, -1), (1, 90_000), (FIRST, 5)] {
            write(&|writer| {
                writer.remove(0, &key)?;
                writer.feed_create(0, &key, &schema)?;
                writer.feed_add(0, &key, -1, &rows(number, 200_000))?;
                let feed = writer.feed(0, &key)?.expect("a feed");
                let (root, shard) = ((feed.tree.root(), feed.tree.height()), feed.pool.shard());
                let mut labels = Labels { next, step: 1 };
                spread(
                    writer.transaction,
                    shard,
                    root,
                    &(0..=u64::MAX),
                    &mut labels,
                )
            });
            number += 200_000;
            for _ in 0..40 {
                write(&|writer| {
                    writer
                        .feed_add(0, &key, position, &rows(number, 900))
                        .map(drop)
                });
                number += 900;
            }
            let report = store.check().expect("a walk");
            assert!(
                report.problems.is_empty(),
                "{position}: {:?}",
                report.problems
            );
        }
    }
}
