//! Hashes: fields with their values. `types/registry` uses the contract; commands call the
//! operations on fields.
//!
//! - `contract`: the implementation of the type interface.
//! - `fields`: reads, sets and removes fields in both encodings, packed and large.

mod contract;
mod fields;

pub(crate) use contract::Hashes;
pub(crate) use fields::{FEW, PACKED_MAX};
pub use fields::{Hash, Parts};
