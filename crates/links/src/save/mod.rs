//! Writes a store as an RDB file.
//!
//! - `encode`: encodes the keys of one shard, except those that an RDB file cannot contain.
//! - `file`: replaces a file when the new one is complete.
//! - `store`: writes the snapshot of a store to any output.

mod encode;
mod file;
mod store;

pub use encode::Own;
pub use file::save_to_file;
pub use store::{SaveError, SaveOptions, Saved, save};
