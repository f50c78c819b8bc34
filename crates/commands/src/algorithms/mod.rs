//! Contains algorithms that do not depend on commands. All code in this crate can call them.
//!
//! - `double`: parses doubles by the rules of C's `strtod`.
//! - `extended`: implements the floating-point arithmetic of INCRBYFLOAT, bit for bit as Redis
//!   computes it on x86-64.
//! - `geohash`: encodes positions on the earth as 52-bit integers.
//! - `hyperloglog`: implements HyperLogLogs in Redis' string format.
//! - `lcs`: computes the longest common subsequence of two strings, for the LCS command.
//! - `partial_sort`: sorts part of a slice, ordering equal items as Redis does.
//! - `words`: splits a line into words by the rules of Redis' configuration files.

pub(crate) mod double;
pub mod extended;
pub(crate) mod geohash;
pub(crate) mod hyperloglog;
pub mod lcs;
pub(crate) mod partial_sort;
pub(crate) mod words;
