//! Texts of numbers, as Redis reads and prints them: one rule for values in a store, arguments of commands, replies and
//! lengths on the wire.
//!
//! The lowest layer. Every other crate may call it.
//!
//! - `double`: texts of doubles in replies.
//! - `integer`: texts of integers.

mod double;
mod integer;

pub use double::{DoubleText, double_text};
pub use integer::parse_integer;
