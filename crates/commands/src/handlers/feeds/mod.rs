//! Implements the FEED commands, such as FEED.CREATE, FEED.ADD and FEED.RANGE. `execute` calls the
//! handlers, and clients call the public functions with typed arguments.
//!
//! - `parse`: parses attributes, filters and positions.
//! - `read`: implements the commands that read feeds.
//! - `values`: parses and formats values.
//! - `write`: implements the commands that change feeds.

mod parse;
pub(crate) mod read;
mod values;
pub(crate) mod write;

pub use parse::selection;
pub use read::{append_between, count_between};
