//! The place of an argument in a request.

use std::ops::Range;

/// Where an argument lies: `len` bytes from byte `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Number of bytes.
    pub len: usize,
}

impl Span {
    /// The same as a range, for slicing.
    pub fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}
