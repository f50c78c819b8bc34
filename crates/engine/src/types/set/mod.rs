//! Sets: members without an order.
//! `types/registry` asks its contract; commands make its calls.
//!
//! - `contract`: what sets answer as a type of value.
//! - `intset`: small sets of integers in one piece.
//! - `members`: all encodings: reading members, adding them, removing them, and unions and their like.
//! - `pop`: taking members out by chance.

mod contract;
mod intset;
mod members;
mod pop;

pub(crate) use contract::Sets;
pub use members::{NewMembers, Set, SetOperation};
