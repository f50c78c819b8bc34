//! Sets: members without an order.
//!
//! - `intset`: small sets of integers in one piece.
//! - `members`: all encodings: reading members, adding them, removing them, and unions and their like.

mod intset;
mod members;

pub use members::{Set, SetOperation};
