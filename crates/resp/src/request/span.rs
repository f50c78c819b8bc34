//! The position of an argument in a request.

use std::ops::Range;

/// The position of an argument: `len` bytes, starting at byte `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The offset of the first byte.
    pub start: usize,
    /// The number of bytes.
    pub len: usize,
}

impl Span {
    /// Returns the span as a range, for slicing.
    pub fn range(self) -> Range<usize> {
        self.start..self.start + self.len
    }
}
