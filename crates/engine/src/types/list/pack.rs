//! Implements packed lists, which are small lists stored in a single byte string.

use undercroft_memory::{Fault, View};

use super::items::{ListItem, ListItems};
use crate::error::Error;
use crate::structures::entry::{Entry, Form};
use crate::structures::packed;
use crate::structures::ranges::Ranges;

/// The maximum size of a packed list in bytes.
pub(crate) const BYTES_MAX: usize = 512;
/// The maximum number of items in a packed list.
pub(crate) const ITEMS_MAX: usize = 128;

/// Returns the bytes of a packed list, or `None` if the list is a tree.
#[inline]
pub(crate) fn load(view: &View<'_>, entry: &Entry) -> Result<Option<Vec<u8>>, Error> {
    if entry.header.form() == Some(Form::Object) {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(BYTES_MAX);
    if !entry.append_packed(view, &mut bytes)? {
        return Ok(None);
    }
    if bytes.is_empty() {
        return Err(Fault {
            at: entry.value_at(),
            what: "a packed list with its number of items",
        }
        .into());
    }
    Ok(Some(bytes))
}

/// Returns the number of items, which is at most [`ITEMS_MAX`].
pub(crate) fn count(bytes: &[u8]) -> u64 {
    bytes.first().copied().unwrap_or(0).into()
}

/// Appends the items at indexes `from..to` to `out`.
pub(crate) fn append_range(
    bytes: &[u8],
    from: u64,
    to: u64,
    out: &mut Ranges,
) -> Result<(), Error> {
    let wanted = to.saturating_sub(from) as usize;
    for item in packed::items(&bytes[1..]).skip(from as usize).take(wanted) {
        item?.append_to(&mut out.bytes);
        out.end_item();
    }
    Ok(())
}

/// Decodes a packed list into its items.
pub(crate) fn items(bytes: &[u8]) -> Result<ListItems, Error> {
    let mut items = ListItems::new();
    for item in packed::items(&bytes[1..]) {
        match item? {
            packed::PackedItem::Text(text) => items.push(ListItem::text(text)),
            packed::PackedItem::Integer(value) => items.push_with(value),
        }
    }
    Ok(items)
}

/// Encodes items as a packed list. Returns `None` if the items are too many or too long.
pub(crate) fn pack(items: &ListItems) -> Option<Vec<u8>> {
    if items.len() > ITEMS_MAX {
        return None;
    }
    let mut bytes = vec![items.len() as u8];
    for element in items.iter() {
        if element.reference || bytes.len() + element.bytes.len() >= BYTES_MAX {
            return None;
        }
        packed::push(&mut bytes, element.bytes);
    }
    (bytes.len() <= BYTES_MAX).then_some(bytes)
}

/// Appends values to the tail of a packed list. Returns whether the values fit. If they do not fit,
/// `bytes` does not change.
pub(crate) fn extend(bytes: &mut Vec<u8>, values: &[&[u8]]) -> bool {
    let (old, items) = (bytes.len(), usize::from(bytes[0]) + values.len());
    if items > ITEMS_MAX {
        return false;
    }
    for value in values {
        if bytes.len() + value.len() >= BYTES_MAX {
            bytes.truncate(old);
            return false;
        }
        packed::push(bytes, value);
    }
    if bytes.len() > BYTES_MAX {
        bytes.truncate(old);
        return false;
    }
    bytes[0] = items as u8;
    true
}
