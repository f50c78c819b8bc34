//! Encodes values in the RDB format: lengths, strings and numbers.

use undercroft_numbers::parse_integer;

use super::form::{
    INTEGER_8, INTEGER_16, INTEGER_32, LENGTH_6, LENGTH_14, LENGTH_32, LENGTH_64, LZF, SPECIAL,
};
use super::{listpack, lzf};
use crate::structures::ranges::Ranges;

/// The maximum length in bytes of a string that is not worth compressing.
const LONGEST_UNCOMPRESSED: usize = 20;
/// The maximum length in bytes of a string that can be a 32-bit integer.
const LONGEST_INTEGER: usize = 11;

/// A buffer into which a value is encoded.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
}

impl Output {
    /// Returns a buffer that appends to `bytes`.
    pub(crate) fn appending_to(bytes: Vec<u8>) -> Output {
        Output { bytes }
    }

    /// Returns the encoded bytes.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes the byte that identifies the value's encoding.
    pub(crate) fn kind(&mut self, kind: u8) {
        self.bytes.push(kind);
    }

    /// Writes raw bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes each item as a string, in order.
    pub(crate) fn strings(&mut self, items: &Ranges) {
        items.iter().for_each(|item| self.string(item));
    }

    /// Writes `texts` as a listpack, which RDB stores as a string.
    pub(crate) fn listpack<'t>(&mut self, texts: impl Iterator<Item = &'t [u8]>) {
        self.string(&listpack::write(texts));
    }

    /// Writes a string. It is stored as an integer or compressed in the same cases as in Redis.
    pub(crate) fn string(&mut self, value: &[u8]) {
        let short = value.len() <= LONGEST_INTEGER;
        let number = if short { parse_integer(value) } else { None };
        if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
            return self.integer(number);
        }
        let long = value.len() > LONGEST_UNCOMPRESSED;
        // Compress only if this saves at least four bytes.
        if let Some(stream) = long
            .then(|| lzf::compress(value, value.len() - 4))
            .flatten()
        {
            self.bytes.push(SPECIAL | LZF);
            self.length(stream.len());
            self.length(value.len());
            self.raw(&stream);
            return;
        }
        self.length(value.len());
        self.raw(value);
    }

    fn integer(&mut self, number: i32) {
        if let Ok(number) = i8::try_from(number) {
            self.bytes.push(SPECIAL | INTEGER_8);
            self.raw(&number.to_le_bytes());
        } else if let Ok(number) = i16::try_from(number) {
            self.bytes.push(SPECIAL | INTEGER_16);
            self.raw(&number.to_le_bytes());
        } else {
            self.bytes.push(SPECIAL | INTEGER_32);
            self.raw(&number.to_le_bytes());
        }
    }

    /// Writes a length in as few bytes as possible.
    pub(crate) fn length(&mut self, length: usize) {
        if length < 1 << 6 {
            self.bytes.push(LENGTH_6 | length as u8);
        } else if length < 1 << 14 {
            self.raw(&[LENGTH_14 | (length >> 8) as u8, length as u8]);
        } else if let Ok(length) = u32::try_from(length) {
            self.bytes.push(LENGTH_32);
            self.raw(&length.to_be_bytes());
        } else {
            self.bytes.push(LENGTH_64);
            self.raw(&(length as u64).to_be_bytes());
        }
    }
}
