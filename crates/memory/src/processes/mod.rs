//! Processes: which of them are alive, and the locks that they take. Every folder above `mapped` may call it.
//!
//! From the lowest file to the highest:
//!
//! - `lock`: the lock word, taken with one compare-and-swap.
//! - `tenant`: the holder of an entry of the process table, in one word.
//! - `patience`: how long a thread waits, and what may end its wait.
//! - `user_marks`: locks on bytes that say which processes have the store mapped.
//! - `process`: a process' entry in the process table.
//! - `liveness`: whether owners are alive: asking the kernel, and earlier answers.

pub(crate) mod liveness;
pub(crate) mod lock;
pub(crate) mod patience;
pub(crate) mod process;
pub(crate) mod tenant;
pub(crate) mod user_marks;
