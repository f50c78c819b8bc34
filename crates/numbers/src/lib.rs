//! The text form of numbers, as Redis parses and formats them. The same rules apply to values in a
//! store, command arguments, replies and lengths in the protocol.
//!
//! This is the lowest layer, so every other crate may call it.
//!
//! - `double`: formats doubles as they appear in replies.
//! - `integer`: parses integers in text form.

mod double;
mod integer;

pub use double::{DoubleText, double_text};
pub use integer::parse_integer;
