//! Hashes: fields with their values.
//! `types/registry` asks its contract; commands make its calls.
//!
//! - `contract`: what hashes answer as a type of value.
//! - `fields`: both encodings, packed and large: reading fields, setting them, removing them.

mod contract;
mod fields;

pub(crate) use contract::Hashes;
pub(crate) use fields::{FEW, PACKED_MAX};
pub use fields::{Hash, Parts};
