//! Undo logs: the old contents of memory, saved before they change. The heap and the modules above
//! it may use this module.
//!
//! From the lowest-level file to the highest:
//!
//! - `log`: the undo log of a shard or of the heap.
//! - `saved_words`: tracks the words that a long log already contains.
//! - `log_memory`: grows the memory of a log.

pub(crate) mod log;
pub(crate) mod log_memory;
pub(crate) mod saved_words;
