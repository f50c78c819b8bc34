//! Hashes: fields with their values.
//!
//! - `fields`: both encodings, packed and large: reading fields, setting them, removing them.

mod fields;

pub(crate) use fields::{FEW, PACKED_MAX};
pub use fields::{Hash, PackedLimits, Parts};
