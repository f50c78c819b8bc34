//! The page counters and page lists of a shard or an arena, changed within a transaction.

use crate::error::{Error, Fault};
use crate::heap::step;
use crate::mapped::layout::{descriptor, shard};
use crate::transactions::Transaction;

impl Transaction<'_> {
    /// Adds `change` to a word of a shard.
    #[inline(always)]
    pub(crate) fn add(&mut self, index: usize, field: u64, change: i64) -> Result<(), Error> {
        let at = self.segment.mapping.layout().shard(index) + field;
        self.add_at(index, at, change)
    }

    /// Adds `change` to the word at `at`. The offset must not have been read from the store.
    #[inline(always)]
    pub(crate) fn add_at(&mut self, index: usize, at: u64, change: i64) -> Result<(), Error> {
        let old = self.segment.mapping.load(at);
        self.set(index, at, old.wrapping_add_signed(change))
    }

    #[inline(always)]
    fn shard_word(&self, index: usize, field: u64) -> u64 {
        let mapping = &self.segment.mapping;
        mapping.load(mapping.layout().shard(index) + field)
    }

    /// Inserts a page at the front of a list.
    pub(crate) fn link(&mut self, index: usize, list: u64, page: u64) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let head = mapping.load(list);
        let at = layout.descriptor(page);
        self.set(index, at + descriptor::NEXT, head)?;
        self.set(index, at + descriptor::PREVIOUS, 0)?;
        if head != 0 && mapping.page_reserved(head - 1) {
            let next = layout.descriptor(head - 1);
            self.set(index, next + descriptor::PREVIOUS, page + 1)?;
        }
        self.set(index, list, page + 1)
    }

    /// Removes a page from a list.
    pub(crate) fn unlink(&mut self, index: usize, list: u64, page: u64) -> Result<(), Error> {
        let mapping = &self.segment.mapping;
        let layout = *mapping.layout();
        let at = layout.descriptor(page);
        let next = mapping.load(at + descriptor::NEXT);
        let previous = mapping.load(at + descriptor::PREVIOUS);
        let forward = match previous {
            0 => list,
            page => self.neighbour(page)? + descriptor::NEXT,
        };
        if mapping.load(forward) != page + 1 {
            return Err(Error::Damaged(Fault {
                at: forward,
                what: "a list of pages with consistent links",
            }));
        }
        self.set(index, forward, next)?;
        if next != 0 {
            let back = self.neighbour(next)? + descriptor::PREVIOUS;
            self.set(index, back, previous)?;
        }
        Ok(())
    }

    /// Returns the offset of a list neighbor's descriptor, given the neighbor's page number plus 1.
    pub(crate) fn neighbour(&self, link: u64) -> Result<u64, Error> {
        let mapping = &self.segment.mapping;
        if mapping.page_reserved(link - 1) {
            Ok(mapping.layout().descriptor(link - 1))
        } else {
            Err(Error::Damaged(Fault {
                at: link,
                what: "the number of a page in a reserved extent",
            }))
        }
    }

    /// Completes a return to the heap that was interrupted when the returning process died.
    pub(crate) fn finish_return(&mut self, index: usize) -> Result<(), Error> {
        if self.shard_word(index, shard::RETURNING) == 0 {
            return Ok(());
        }
        let finished = step::run(self.segment, |heap| heap.finish_return(index));
        self.after_heap_step(finished)
    }
}
