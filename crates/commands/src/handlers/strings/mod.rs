//! Implements the string commands. Only `execute` calls the handlers.
//!
//! - `bitfield`: implements BITFIELD and BITFIELD_RO, which access integers in a string.
//! - `bits`: implements the commands that access, count, search and combine the bits of strings.
//! - `hyperloglog`: implements PFADD, PFCOUNT and PFMERGE, which count distinct elements
//!   approximately.
//! - `substrings`: implements the commands for substrings and floating-point counters, as well as
//!   LCS.
//! - `values`: implements the commands that read and write complete strings.

pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod hyperloglog;
pub(crate) mod substrings;
pub(crate) mod values;
