//! A new store file that is being filled from a journal.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::mapped::layout::EXTENT;
use crate::mapped::mapping::Mapping;
use crate::mapped::platform;

/// The unit in which a new store file is backed with memory.
const UNIT: u64 = EXTENT;

/// A new store file that is being filled.
pub(crate) struct NewStore<'a> {
    file: &'a File,
    mapping: &'a Mapping,
    /// The units that are backed with memory, as bits.
    backed: Vec<u64>,
}

pub(super) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}

impl<'a> NewStore<'a> {
    pub(crate) fn new(file: &'a File, mapping: &'a Mapping) -> NewStore<'a> {
        NewStore {
            file,
            mapping,
            backed: Vec::new(),
        }
    }

    /// Checks that a range of words lies in the file. Returns its end.
    fn end_of(&self, at: u64, length: u64) -> io::Result<u64> {
        at.checked_add(length)
            .filter(|&end| at.is_multiple_of(8) && end <= self.mapping.layout().file_length)
            .ok_or_else(|| invalid(format!("a range of {length} bytes at {at:#x}")))
    }

    /// Writes a part of a checkpoint. A write to the file needs no zeroed page and no page fault, so
    /// it is faster than a copy to the mapping.
    pub(crate) fn load(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.end_of(at, bytes.len() as u64)?;
        self.file.write_all_at(bytes, at)
    }

    /// Writes words, which are few, at an offset.
    #[inline]
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = self.end_of(at, bytes.len() as u64)?;
        for unit in at / UNIT..end.div_ceil(UNIT) {
            let (word, bit) = ((unit / 64) as usize, unit % 64);
            if self
                .backed
                .get(word)
                .is_none_or(|bits| bits >> bit & 1 == 0)
            {
                self.back_unit(unit)?;
            }
        }
        self.mapping.copy_from(at, bytes);
        Ok(())
    }

    /// Backs a unit with memory, so that writes to it cannot fail (H2).
    #[cold]
    fn back_unit(&mut self, unit: u64) -> io::Result<()> {
        let start = unit * UNIT;
        let length = UNIT.min(self.mapping.layout().file_length - start);
        // Makes the pages present as well, which saves page faults. Old kernels cannot do this.
        match self.mapping.populate(start, length) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                platform::allocate(self.file, start, length)?;
            }
            populated => populated?,
        }
        let word = (unit / 64) as usize;
        if word >= self.backed.len() {
            self.backed.resize(word + 1, 0);
        }
        self.backed[word] |= 1 << (unit % 64);
        Ok(())
    }

    /// Backs a range with memory, so that writes to it cannot fail (H2).
    pub(crate) fn back(&self, at: u64, length: u64) -> io::Result<()> {
        self.end_of(at, length)?;
        platform::allocate(self.file, at, length)
    }
}
