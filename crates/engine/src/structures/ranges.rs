//! Items in flat buffers, which are the result of reading a collection and the input for writing
//! list leaves.

use undercroft_memory::{Fault, Scratch};

/// The items of a collection, stored consecutively in reusable buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    pub(crate) bytes: Vec<u8>,
    /// The position in `bytes` at which each item ends.
    pub(crate) ends: Vec<usize>,
}

impl Scratch for Ranges {
    fn clear(&mut self) {
        Ranges::clear(self);
    }
}

impl Ranges {
    /// Creates a collection without items.
    pub const fn new() -> Ranges {
        Ranges {
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Removes all items but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends all items of `others`.
    pub(crate) fn append(&mut self, others: &Ranges) {
        let bytes = self.bytes.len();
        self.bytes.extend_from_slice(&others.bytes);
        self.ends.extend(others.ends.iter().map(|end| end + bytes));
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the total length of all items in bytes.
    pub fn byte_length(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes that are allocated for items.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }

    /// Returns the item at `index`.
    ///
    /// # Panics
    /// Panics if `index` is out of range.
    pub fn get(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        &self.bytes[start..self.ends[index]]
    }

    /// Iterates over the items in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let item = &self.bytes[start..end];
            start = end;
            item
        })
    }

    /// Returns the concatenated bytes of all items, and the end of each item.
    pub fn parts(&self) -> (&[u8], &[usize]) {
        (&self.bytes, &self.ends)
    }

    /// Reserves room for `items` additional items with `bytes` bytes in total. Fails if the process
    /// is out of memory.
    pub(crate) fn reserve(&mut self, items: usize, bytes: usize) -> Result<(), Fault> {
        let fault = |bytes| move |_| Fault::no_memory(bytes);
        let ends = items.saturating_mul(size_of::<usize>());
        self.ends.try_reserve(items).map_err(fault(ends))?;
        self.bytes.try_reserve(bytes).map_err(fault(bytes))
    }

    /// Appends an item.
    pub fn push(&mut self, item: &[u8]) {
        self.bytes.extend_from_slice(item);
        self.end_item();
    }

    /// Appends consecutive items of `size` bytes each.
    pub fn push_equal(&mut self, items: &[u8], size: usize) {
        let first = self.bytes.len();
        self.bytes.extend_from_slice(items);
        let count = items.len().checked_div(size).unwrap_or(0);
        self.ends
            .extend((1..=count).map(|index| first + index * size));
    }

    /// Appends an item. `append` must append the item's bytes to the given buffer. If `append`
    /// fails, no item is added.
    pub fn push_with<R, E>(
        &mut self,
        append: impl FnOnce(&mut Vec<u8>) -> Result<R, E>,
    ) -> Result<R, E> {
        let start = self.bytes.len();
        match append(&mut self.bytes) {
            Ok(result) => {
                self.end_item();
                Ok(result)
            }
            Err(error) => {
                self.bytes.truncate(start);
                Err(error)
            }
        }
    }

    /// Ends an item that consists of the bytes appended since the end of the last item.
    #[inline]
    pub(crate) fn end_item(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Reverses the order of the items after the first `kept` items.
    pub(crate) fn reverse_from(&mut self, kept: usize) {
        if self.len() - kept < 2 {
            return;
        }
        let mut turned = Ranges::new();
        for index in (kept..self.len()).rev() {
            turned.push(self.get(index));
        }
        self.truncate(kept);
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&turned.bytes);
        self.ends.extend(turned.ends.iter().map(|end| base + end));
    }

    /// Removes all items after the first `items` items.
    pub(crate) fn truncate(&mut self, items: usize) {
        self.ends.truncate(items);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_stored_consecutively() {
        let mut ranges = Ranges::new();
        for item in [&b"a"[..], b"", b"bcd", b"e"] {
            ranges.push(item);
        }
        ranges.reverse_from(1);
        let items: Vec<&[u8]> = ranges.iter().collect();
        assert_eq!(items, [&b"a"[..], b"e", b"bcd", b""]);
        assert_eq!((ranges.len(), ranges.byte_length()), (4, 5));
        ranges.truncate(2);
        assert_eq!(ranges.get(1), b"e");
        let failed = ranges.push_with(|out| {
            out.push(b'x');
            Err::<(), ()>(())
        });
        assert!(failed.is_err() && ranges.byte_length() == 2);
        let added = ranges.push_with(|out| {
            out.push(b'x');
            Ok::<_, ()>(7)
        });
        assert_eq!((added, ranges.get(2)), (Ok(7), &b"x"[..]));
        ranges.push_equal(b"", 3);
        ranges.push_equal(b"fgghij", 2);
        let items: Vec<&[u8]> = ranges.iter().collect();
        assert_eq!(items, [&b"a"[..], b"e", b"x", b"fg", b"gh", b"ij"]);
        ranges.truncate(0);
        assert!(ranges.is_empty() && ranges.byte_length() == 0);
    }
}
