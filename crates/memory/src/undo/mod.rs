//! Undo logs: old contents, saved before they are changed. The heap and the floors above it may call it.
//!
//! From the lowest file to the highest:
//!
//! - `log`: the undo log of a shard or of the heap.
//! - `saved_words`: the words that a long log holds already.
//! - `log_memory`: how the memory of a log grows.

pub(crate) mod log;
pub(crate) mod log_memory;
pub(crate) mod saved_words;
