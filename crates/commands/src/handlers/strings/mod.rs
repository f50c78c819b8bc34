//! The commands on strings. Only `execute` calls them.
//!
//! - `bitfield`: BITFIELD: integers of any width at any bit of a string.
//! - `bits`: strings as arrays of bits: single bits, counts, searches, combinations.
//! - `hyperloglog`: counting different elements approximately: PFADD, PFCOUNT, PFMERGE.
//! - `substrings`: parts of strings, floating point counters, and LCS.
//! - `values`: reading and writing whole strings.

pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod hyperloglog;
pub(crate) mod substrings;
pub(crate) mod values;
