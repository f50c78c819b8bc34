//! The commands on strings. Only `execute` calls them.
//!
//! - `bitfield`: BITFIELD and BITFIELD_RO: integers of any width at any bit offset in a string.
//! - `bits`: strings as bit arrays: single bits, counts, searches, combinations.
//! - `hyperloglog`: approximate counts of distinct elements: PFADD, PFCOUNT, PFMERGE.
//! - `substrings`: substrings, floating-point counters, and LCS.
//! - `values`: reads and writes of whole strings.

pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod hyperloglog;
pub(crate) mod substrings;
pub(crate) mod values;
