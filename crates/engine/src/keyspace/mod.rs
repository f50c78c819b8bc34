//! Operations on keys of any type, such as listing keys, measuring their size and checking the
//! store. The folders from `messages` upwards use this module.
//!
//! - `check`: the structural check of every dictionary and every entry.
//! - `delta`: the current state of parts of a key.
//! - `dump`: values of any type in the RDB format.
//! - `inspect`: statistics about keys that commands report.
//! - `parts`: reading large collections in parts, without locks.
//! - `scan`: SCAN, and the walks that build on it.
//! - `snapshot`: a consistent snapshot of all keys, for an export.
//! - `state`: the complete state of a key.
//! - `torn_tests`: tests of each structure with torn words.
//! - `warm`: prefetching elements of collections into the CPU caches.

mod check;
mod delta;
pub(crate) mod dump;
mod inspect;
pub(crate) mod parts;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod state;
#[cfg(test)]
mod torn_tests;
mod warm;

pub use delta::{Delta, ListEnds, StreamDelta};
pub use parts::Gathered;
pub use snapshot::{Item, Snapshot};
pub use state::KeyState;
