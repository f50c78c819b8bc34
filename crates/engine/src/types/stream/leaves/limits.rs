//! Up to where a leaf of a stream is added to.

/// The most entries of a leaf.
pub(crate) const ENTRIES_MAX: usize = 0xfff;

/// Up to where a leaf of a stream is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The most entries of a leaf; 0 is as many as fit.
    pub entries: u64,
    /// The most bytes that its entries take in Redis, 4,096 at most; 0 is as many as fit.
    pub bytes: u64,
}

impl StreamLimits {
    /// Redis' defaults.
    pub const DEFAULT: StreamLimits = StreamLimits {
        entries: 100,
        bytes: 4096,
    };

    /// How many entries go at once where about so many as are wanted are to stay: those of a hundred leaves.
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
