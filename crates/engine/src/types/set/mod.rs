//! Implements sets of unordered, distinct members. `types/registry` uses `contract`, and commands
//! call the other modules.
//!
//! - `contract`: implements the type interface.
//! - `intset`: implements small integer sets, packed in one block.
//! - `members`: reads, adds and removes members in all encodings, and computes unions,
//!   intersections and differences.
//! - `pop`: removes random members.

mod contract;
mod intset;
mod members;
mod pop;

pub(crate) use contract::Sets;
pub use members::{NewMembers, Set, SetOperation};
