//! Entries outside the store: what reading a stream gives.

use undercroft_memory::Scratch;

use super::id::StreamId;
use crate::structures::ranges::Ranges;

/// Entries in flat buffers that can be used again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEntries {
    pub(super) ids: Vec<StreamId>,
    /// Where the texts of each entry end, counted in texts.
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
    /// No entries.
    pub const fn new() -> StreamEntries {
        StreamEntries {
            ids: Vec::new(),
            ends: Vec::new(),
            texts: Ranges::new(),
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Bytes of memory kept for entries.
    pub fn capacity(&self) -> usize {
        self.texts.capacity()
            + self.ids.capacity() * size_of::<StreamId>()
            + self.ends.capacity() * size_of::<usize>()
    }

    /// The id of an entry.
    ///
    /// # Panics
    /// If there is none with this index.
    pub fn id(&self, index: usize) -> StreamId {
        self.ids[index]
    }

    /// The fields and values of an entry in turn; none of one that is gone, which only its id is left of.
    ///
    /// # Panics
    /// If there is none with this index.
    pub fn texts(&self, index: usize) -> impl ExactSizeIterator<Item = &[u8]> {
        let from = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        (from..self.ends[index]).map(|text| self.texts.get(text))
    }

    /// All ids in order.
    pub fn ids(&self) -> &[StreamId] {
        &self.ids
    }

    /// The entries as a flat list: for each its id and the number of its texts, and these.
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

    /// The entries that such a list is, as far as it is one.
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

    /// Adds the entries of `others` after these.
    pub(super) fn append(&mut self, others: &StreamEntries) {
        let texts = self.texts.len();
        self.ids.extend_from_slice(&others.ids);
        self.ends.extend(others.ends.iter().map(|end| end + texts));
        self.texts.append(&others.texts);
    }

    /// Makes room for so many entries of so many texts and bytes each.
    pub(super) fn reserve(&mut self, entries: usize, texts: usize, bytes: usize) {
        self.ids.reserve(entries);
        self.ends.reserve(entries);
        self.texts.ends.reserve(entries * texts);
        self.texts.bytes.reserve(entries * bytes);
    }

    /// What was pushed to the texts since the last entry is an entry.
    #[inline]
    pub(super) fn end_entry(&mut self, id: StreamId) {
        self.ids.push(id);
        self.ends.push(self.texts.len());
    }
}
