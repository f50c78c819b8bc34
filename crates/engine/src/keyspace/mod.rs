//! What is asked of keys whatever they hold: which there are, how large they are, whether all is sound. The folders from
//! `messages` upwards make its calls.
//!
//! - `check`: the structural check of every dictionary and every entry.
//! - `dump`: values of any type in RDB form.
//! - `inspect`: what commands ask about keys beside their values.
//! - `parts`: large collections read in parts, without any lock.
//! - `scan`: SCAN, and the walks built on it.
//! - `snapshot`: all keys as they are at one moment, for an export.
//! - `torn_tests`: what torn words say, part by part.
//! - `warm`: bringing keys into the processor's caches ahead of their use.

mod check;
pub(crate) mod dump;
mod inspect;
pub(crate) mod parts;
pub(crate) mod scan;
pub(crate) mod snapshot;
#[cfg(test)]
mod torn_tests;
mod warm;

pub use parts::Gathered;
pub use snapshot::Item;
