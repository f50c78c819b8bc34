//! Algorithms, which know nothing of commands. Anything in this crate may call them.
//!
//! - `double`: doubles as arguments: what C's `strtod` makes of a text.
//! - `extended`: the floating point of INCRBYFLOAT, bit for bit as Redis on x86-64 computes it.
//! - `geohash`: positions on the earth as integers of 52 bits.
//! - `hyperloglog`: HyperLogLogs as the strings that Redis stores: 16,384 registers of six bits, sparse or dense.
//! - `lcs`: the longest common subsequence of two strings, as the LCS command finds it.
//! - `partial_sort`: sorting only as much as is shown, with Redis' own choice among equals.

pub(crate) mod double;
pub mod extended;
pub(crate) mod geohash;
pub(crate) mod hyperloglog;
pub mod lcs;
pub(crate) mod partial_sort;
