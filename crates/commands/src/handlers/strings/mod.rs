//! Implements the commands on strings. Only `execute` calls the handlers.
//!
//! - `bitfield`: implements BITFIELD and BITFIELD_RO, which access integers in a string.
//! - `bits`: implements the commands that treat strings as bit arrays.
//! - `hyperloglog`: implements PFADD, PFCOUNT and PFMERGE, which count distinct elements
//!   approximately.
//! - `substrings`: implements the commands on substrings and floating-point counters, and LCS.
//! - `values`: implements the commands that read and write complete strings.

pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod hyperloglog;
pub(crate) mod substrings;
pub(crate) mod values;
