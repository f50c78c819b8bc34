//! Undo logs: old contents, saved before they change. The heap and the layers above it may use
//! them.
//!
//! From the lowest-level file to the highest:
//!
//! - `log`: the undo log of a shard or of the heap.
//! - `saved_words`: the words that a long log already holds.
//! - `log_memory`: how the memory of a log grows.

pub(crate) mod log;
pub(crate) mod log_memory;
pub(crate) mod saved_words;
