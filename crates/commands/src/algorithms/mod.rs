//! Algorithms that are independent of commands. Any code in this crate may call them.
//!
//! - `double`: parsing of doubles with the rules of C's `strtod`.
//! - `extended`: floating-point arithmetic of INCRBYFLOAT, bit for bit as Redis computes it on
//!   x86-64.
//! - `geohash`: positions on the earth as 52-bit integers.
//! - `hyperloglog`: HyperLogLogs in Redis' string format: 16,384 registers of six bits, sparse or
//!   dense.
//! - `lcs`: the longest common subsequence of two strings, for the LCS command.
//! - `partial_sort`: partial sorting that orders equal items as Redis does.

pub(crate) mod double;
pub mod extended;
pub(crate) mod geohash;
pub(crate) mod hyperloglog;
pub mod lcs;
pub(crate) mod partial_sort;
