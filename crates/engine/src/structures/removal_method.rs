//! Removes many elements from a dictionary. The method depends on how many elements remain.

use undercroft_memory::{Offset, Transaction, View};

use crate::error::Error;
use crate::structures::bulk;
use crate::structures::element::Element;
use crate::structures::elements::{Elements, new_pool};
use crate::structures::prefetch::TOGETHER;
use crate::structures::roots::ELEMENTS_WORDS;

/// The minimum number of removed elements at which rebuilding the dictionary is considered.
pub(crate) const REBUILD_MIN: usize = 256;

/// The method by which elements are removed.
pub(crate) enum RemovalMethod {
    /// Remove all elements by freeing the entire dictionary. The field is the number of elements.
    All(u64),
    /// Remove more elements than remain: copy the remaining elements to a new dictionary, and free
    /// the old dictionary later (W8).
    Most(RemovedElements),
    /// Remove the elements one by one.
    Each,
}

/// The elements to remove, sorted by offset.
pub(crate) struct RemovedElements(Vec<Offset>);

impl RemovedElements {
    /// Returns the number of elements to remove.
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns whether `element` must be removed. O(log n).
    pub(crate) fn has(&self, element: Offset) -> bool {
        self.0.binary_search(&element).is_ok()
    }
}

impl RemovalMethod {
    /// Looks up the elements named by `texts` and chooses the method of removal. `texts` may
    /// contain duplicates and names that are not in the collection. O(n log n).
    pub(crate) fn of(
        elements: Elements,
        transaction: &Transaction<'_>,
        texts: &[&[u8]],
    ) -> Result<RemovalMethod, Error> {
        let view = transaction.view();
        let length = elements.length(view)?;
        // A removal that runs in parts must not commit an empty collection, so always check whether
        // it removes all elements.
        let is_small = !transaction.is_in_parts() && texts.len() < REBUILD_MIN;
        if is_small || texts.len() as u64 * 2 <= length {
            return Ok(RemovalMethod::Each);
        }
        let mut found = Vec::with_capacity(texts.len());
        for group in texts.chunks(TOGETHER) {
            for key in &elements.group(transaction, group) {
                found.extend(elements.find(view, key)?.map(|element| element.at));
            }
        }
        found.sort_unstable();
        found.dedup();
        let gone = found.len() as u64;
        Ok(if gone == length {
            RemovalMethod::All(gone)
        } else if gone * 2 > length && !transaction.is_in_parts() {
            RemovalMethod::Most(RemovedElements(found))
        } else {
            RemovalMethod::Each
        })
    }
}

/// Copies the remaining elements to a new dictionary in the same shard, and returns the root words
/// of the new dictionary. O(n log n).
pub(crate) fn copy_without(
    transaction: &mut Transaction<'_>,
    elements: Elements,
    gone: &RemovedElements,
) -> Result<[u64; ELEMENTS_WORDS], Error> {
    let mut kept = Vec::new();
    elements.for_each(transaction.view(), |element| {
        if !gone.has(element.at) {
            kept.push(*element);
        }
        Ok(())
    })?;
    let bytes = bytes_of(transaction.view(), &kept)?;
    let pool = new_pool(transaction, elements.pool.shard(), bytes)?;
    Ok(bulk::copy(transaction, pool, &kept)?.0)
}

/// Returns the total size in bytes of `elements`, including their separate blocks.
fn bytes_of(view: &View<'_>, elements: &[Element]) -> Result<u64, Error> {
    let mut bytes = 0_u64;
    for element in elements {
        bytes += element.size();
        bytes += element.block(view)?.map_or(0, |(_, length)| length);
    }
    Ok(bytes)
}
