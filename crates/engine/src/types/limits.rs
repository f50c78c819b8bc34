//! Up to where collections stay in one piece.

/// Up to where a collection stays in one piece, which takes less memory and is
/// quick while it is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedLimits {
    /// Fields or members at most.
    pub entries: u64,
    /// Bytes of each field, value or member at most.
    pub value: u64,
}

impl PackedLimits {
    /// Redis' defaults for hashes.
    pub const HASH: PackedLimits = PackedLimits {
        entries: 512,
        value: 64,
    };
    /// Redis' defaults for sorted sets.
    pub const SORTED_SET: PackedLimits = PackedLimits {
        entries: 128,
        value: 64,
    };

    pub(crate) fn too_long(&self, texts: &[&[u8]]) -> bool {
        texts.iter().any(|text| text.len() as u64 > self.value)
    }
}

/// Up to where collections stay in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Hashes.
    pub hash: PackedLimits,
    /// The most that a set of integers may have.
    pub integers: u64,
    /// Sorted sets.
    pub sorted: PackedLimits,
}

impl Limits {
    /// Redis' defaults.
    pub const DEFAULT: Limits = Limits {
        hash: PackedLimits::HASH,
        integers: 512,
        sorted: PackedLimits::SORTED_SET,
    };
}
