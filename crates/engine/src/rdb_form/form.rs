//! The RDB encodings of lengths, strings and short integers, and the versions of the format.

// The first bytes of the four length encodings. A first byte with both high bits set starts a
// special string encoding instead.
pub(super) const LENGTH_6: u8 = 0 << 6;
pub(super) const LENGTH_14: u8 = 1 << 6;
pub(super) const LENGTH_32: u8 = 0x80;
pub(super) const LENGTH_64: u8 = 0x81;
pub(super) const SPECIAL: u8 = 3 << 6;
pub(super) const INTEGER_8: u8 = 0;
pub(super) const INTEGER_16: u8 = 1;
pub(super) const INTEGER_32: u8 = 2;
pub(super) const LZF: u8 = 3;

/// A version of the format in which values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RdbVersion {
    /// The version of Redis 5 and 6.
    V9 = 9,
    /// The version of Redis 7.0, which DUMP writes.
    V10 = 10,
    /// The version of Redis 7.2 and Valkey 7.2 to 8.
    V11 = 11,
}

/// Decodes a signed little-endian integer of at most eight bytes.
pub(crate) fn signed(bytes: &[u8]) -> i64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let unused = 64 - 8 * bytes.len() as u32;
    (u64::from_le_bytes(word) << unused) as i64 >> unused
}
