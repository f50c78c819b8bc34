//! Taking many elements out of a dictionary: how many stay decides how it is done.

use undercroft_memory::{Offset, Transaction, View};

use crate::error::Error;
use crate::structures::bulk;
use crate::structures::element::Element;
use crate::structures::elements::{Elements, new_pool};
use crate::structures::prefetch::TOGETHER;
use crate::structures::roots::ELEMENTS_WORDS;

/// From so many elements on, of which few stay, those are put together anew.
pub(crate) const REBUILD_MIN: usize = 256;

/// How elements are taken out.
pub(crate) enum Taking {
    /// All of them, so many: what holds them goes.
    All(u64),
    /// More than stay: those are put together anew, and the others freed with what held them (W8).
    Most(Gone),
    /// One by one.
    Each,
}

/// The elements that go.
pub(crate) struct Gone(Vec<Offset>);

impl Gone {
    /// How many they are.
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Whether an element is one of them. O(log n).
    pub(crate) fn has(&self, element: Offset) -> bool {
        self.0.binary_search(&element).is_ok()
    }
}

impl Taking {
    /// Looks for elements, which may be named twice or not be there. O(n log n).
    pub(crate) fn of(
        elements: Elements,
        transaction: &Transaction<'_>,
        texts: &[&[u8]],
    ) -> Result<Taking, Error> {
        let view = transaction.view();
        let length = elements.length(view)?;
        // Parts must not end with a collection that is empty.
        let is_small = !transaction.is_in_parts() && texts.len() < REBUILD_MIN;
        if is_small || texts.len() as u64 * 2 <= length {
            return Ok(Taking::Each);
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
            Taking::All(gone)
        } else if gone * 2 > length && !transaction.is_in_parts() {
            Taking::Most(Gone(found))
        } else {
            Taking::Each
        })
    }
}

/// Root words of a dictionary of those elements that stay, in the same shard. O(n log n).
pub(crate) fn copy_without(
    transaction: &mut Transaction<'_>,
    elements: Elements,
    gone: &Gone,
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

/// Bytes of elements and of what lies outside them.
fn bytes_of(view: &View<'_>, elements: &[Element]) -> Result<u64, Error> {
    let mut bytes = 0_u64;
    for element in elements {
        bytes += element.size();
        bytes += element.block(view)?.map_or(0, |(_, length)| length);
    }
    Ok(bytes)
}
