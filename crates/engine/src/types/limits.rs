//! Size limits up to which collections stay packed.

/// The size up to which a collection stays packed in one block. Packing saves memory and is fast
/// only for small collections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedLimits {
    /// Maximum number of fields or members.
    pub entries: u64,
    /// Maximum length of each field, value or member in bytes.
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

/// The sizes up to which collections of each type stay packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits for hashes.
    pub hash: PackedLimits,
    /// Maximum number of members in an integer set.
    pub integers: u64,
    /// Limits for sorted sets.
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
