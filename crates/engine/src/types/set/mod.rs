//! Implements sets: unordered, distinct members. `types/registry` uses `contract`; commands call
//! the other modules.
//!
//! - `contract`: the implementation of the type interface.
//! - `intset`: small integer sets, packed in one block.
//! - `members`: reads, adds and removes members in all encodings; unions, intersections and
//!   differences.
//! - `pop`: removes random members.

mod contract;
mod intset;
mod members;
mod pop;

pub(crate) use contract::Sets;
pub use members::{NewMembers, Set, SetOperation};
