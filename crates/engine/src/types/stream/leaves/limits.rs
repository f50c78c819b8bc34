//! Defines the limits at which a leaf of a stream is full.

/// The maximum number of entries in a leaf.
pub(crate) const ENTRIES_MAX: usize = 0xfff;

/// The limits at which a leaf of a stream is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The maximum number of entries in a leaf. 0 means that there is no limit except the size of
    /// the leaf.
    pub entries: u64,
    /// The maximum size of a leaf's entries in bytes, as counted by Redis. The limit must be at
    /// most 4,096. 0 means that there is no limit except the size of the leaf.
    pub bytes: u64,
}

impl StreamLimits {
    /// Redis' default limits.
    pub const DEFAULT: StreamLimits = StreamLimits {
        entries: 100,
        bytes: 4096,
    };

    /// Returns the maximum number of entries that one approximate trim removes, which is the
    /// capacity of 100 leaves.
    pub fn trimmed_at_once(&self) -> u64 {
        match self.entries.saturating_mul(100) {
            0 => 10_000,
            most => most.min(1_000_000),
        }
    }

    pub(in crate::types::stream) fn entries(&self) -> u64 {
        let most = ENTRIES_MAX as u64;
        if self.entries == 0 {
            most
        } else {
            self.entries.min(most)
        }
    }

    pub(in crate::types::stream) fn bytes(&self) -> u64 {
        if self.bytes == 0 {
            u64::MAX
        } else {
            self.bytes
        }
    }
}
