//! Implements hashes, which map fields to values. `types/registry` uses `contract`, and commands
//! call `fields`.
//!
//! - `contract`: implements the type interface.
//! - `fields`: reads, sets and removes fields in both encodings, packed and large.

mod contract;
mod fields;

pub(crate) use contract::Hashes;
pub(crate) use fields::{FEW, PACKED_MAX};
pub use fields::{Hash, Parts};
