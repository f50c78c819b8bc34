//! The FEED commands, such as FEED.CREATE, FEED.ADD and FEED.RANGE. `execute` calls the handlers,
//! and clients make typed calls to the public functions.
//!
//! - `parse`: parsing of attributes, filters and positions.
//! - `read`: commands that read feeds.
//! - `values`: parsing and formatting of values.
//! - `write`: commands that change feeds.

mod parse;
pub(crate) mod read;
mod values;
pub(crate) mod write;

pub use parse::selection;
pub use read::{append_between, count_between};
