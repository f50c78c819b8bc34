//! Represents entries outside the store, as returned by reads of a stream.

use undercroft_memory::Scratch;

use super::id::StreamId;
use crate::structures::ranges::Ranges;

/// Stream entries in flat, reusable buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEntries {
    pub(super) ids: Vec<StreamId>,
    /// The cumulative number of texts at the end of each entry.
    pub(super) ends: Vec<usize>,
    pub(super) texts: Ranges,
}

impl Scratch for StreamEntries {
    fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
        self.texts.clear();
    }
}

impl StreamEntries {
    /// Creates an empty collection.
    pub const fn new() -> StreamEntries {
        StreamEntries {
            ids: Vec::new(),
            ends: Vec::new(),
            texts: Ranges::new(),
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the number of bytes that are allocated for entries.
    pub fn capacity(&self) -> usize {
        self.texts.capacity()
            + self.ids.capacity() * size_of::<StreamId>()
            + self.ends.capacity() * size_of::<usize>()
    }

    /// Returns the ID of the entry at `index`.
    ///
    /// # Panics
    /// Panics if `index` is out of range.
    pub fn id(&self, index: usize) -> StreamId {
        self.ids[index]
    }

    /// Iterates over the alternating fields and values of the entry at `index`. An entry that was
    /// deleted from the stream has only an ID and no texts.
    ///
    /// # Panics
    /// Panics if `index` is out of range.
    pub fn texts(&self, index: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        let from = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        (from..self.ends[index]).map(|text| self.texts.get(text))
    }

    /// Returns all IDs in order.
    pub fn ids(&self) -> &[StreamId] {
        &self.ids
    }

    /// Encodes the entries as a flat list. For each entry, the list contains its ID, the number of
    /// its texts, and the texts.
    pub(crate) fn to_texts(&self) -> Ranges {
        let mut all = Ranges::new();
        for (index, id) in self.ids.iter().enumerate() {
            let texts = self.texts(index);
            all.push(&id.to_bytes());
            all.push(&(texts.len() as u64).to_le_bytes());
            texts.for_each(|text| all.push(text));
        }
        all
    }

    /// Decodes entries from a flat list, up to the first malformed entry.
    pub fn of_texts(all: &Ranges) -> StreamEntries {
        let mut entries = StreamEntries::new();
        let mut texts = all.iter();
        while let (Some(id), Some(count)) = (texts.next(), texts.next()) {
            let (Some(id), Ok(count)) = (StreamId::from_bytes(id), count.try_into()) else {
                break;
            };
            let count = u64::from_le_bytes(count) as usize;
            let own = texts.by_ref().take(count);
            own.for_each(|text| entries.texts.push(text));
            entries.end_entry(id);
        }
        entries
    }

    /// Appends all entries of `others`.
    pub(super) fn append(&mut self, others: &StreamEntries) {
        let texts = self.texts.len();
        self.ids.extend_from_slice(&others.ids);
        self.ends.extend(others.ends.iter().map(|end| end + texts));
        self.texts.append(&others.texts);
    }

    /// Reserves memory for `entries` more entries. Each entry has `texts` texts, whose total length
    /// is `bytes` bytes.
    pub(super) fn reserve(&mut self, entries: usize, texts: usize, bytes: usize) {
        self.ids.reserve(entries);
        self.ends.reserve(entries);
        self.texts.ends.reserve(entries * texts);
        self.texts.bytes.reserve(entries * bytes);
    }

    /// Completes an entry, which consists of the texts that were pushed since the previous entry.
    #[inline]
    pub(super) fn end_entry(&mut self, id: StreamId) {
        self.ids.push(id);
        self.ends.push(self.texts.len());
    }
}
