//! Implements hashes: fields with their values. `types/registry` uses `contract`; commands call
//! `fields`.
//!
//! - `contract`: the implementation of the type interface.
//! - `fields`: reads, sets and removes fields in both encodings, packed and large.

mod contract;
mod fields;

pub(crate) use contract::Hashes;
pub(crate) use fields::{FEW, PACKED_MAX};
pub use fields::{Hash, Parts};
