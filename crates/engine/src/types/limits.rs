//! Defines the size limits for collections that are packed in one block.

/// The size limits for a collection that is packed in one block. Packing saves memory, but
/// operations on a packed collection are fast only while it is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedLimits {
    /// The maximum number of fields or members.
    pub entries: u64,
    /// The maximum length of each field, value or member in bytes.
    pub value: u64,
}

impl PackedLimits {
    /// Redis' default limits for hashes.
    pub const HASH: PackedLimits = PackedLimits {
        entries: 512,
        value: 64,
    };
    /// Redis' default limits for sorted sets.
    pub const SORTED_SET: PackedLimits = PackedLimits {
        entries: 128,
        value: 64,
    };

    pub(crate) fn too_long(&self, texts: &[&[u8]]) -> bool {
        texts.iter().any(|text| text.len() as u64 > self.value)
    }
}

/// The size limits for packed collections of each type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The limits for hashes.
    pub hash: PackedLimits,
    /// The maximum number of members of an integer set.
    pub integers: u64,
    /// The limits for sorted sets.
    pub sorted: PackedLimits,
}

impl Limits {
    /// Redis' default limits.
    pub const DEFAULT: Limits = Limits {
        hash: PackedLimits::HASH,
        integers: 512,
        sorted: PackedLimits::SORTED_SET,
    };
}
