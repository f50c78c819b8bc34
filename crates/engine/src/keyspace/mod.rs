//! What is asked of keys whatever they hold: which there are, how large they are, whether all is sound.
//!
//! - `check`: the structural check of every dictionary and every entry.
//! - `inspect`: what commands ask about keys beside their values.
//! - `parts`: large collections read in parts, without any lock.
//! - `scan`: SCAN, and the walks built on it.
//! - `snapshot`: all keys as they are at one moment, for an export.
//! - `torn_tests`: what torn words say, part by part.
//! - `warm`: bringing keys into the processor's caches ahead of their use.

pub(crate) mod check;
mod inspect;
pub(crate) mod parts;
pub(crate) mod scan;
pub(crate) mod snapshot;
#[cfg(test)]
mod torn_tests;
mod warm;
