//! The text form of numbers, as Redis parses and prints them: one rule for values in a store,
//! arguments of commands, replies and lengths on the wire.
//!
//! This is the lowest layer: every other crate may call it.
//!
//! - `double`: the text form of doubles in replies.
//! - `integer`: the text form of integers.

mod double;
mod integer;

pub use double::{DoubleText, double_text};
pub use integer::parse_integer;
