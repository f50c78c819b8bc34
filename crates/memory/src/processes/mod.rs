//! Process liveness and the locks that processes acquire. All modules above `mapped` may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `lock`: the lock word, acquired with one compare-and-swap.
//! - `tenant`: the process that holds a process table entry, packed into one word.
//! - `patience`: how long a thread waits, and what may interrupt its wait.
//! - `user_marks`: byte locks that record which processes have the store mapped.
//! - `process`: this process's entry in the process table.
//! - `liveness`: asks the kernel whether lock owners are alive, and caches the answers.

pub(crate) mod liveness;
pub(crate) mod lock;
pub(crate) mod patience;
pub(crate) mod process;
pub(crate) mod tenant;
pub(crate) mod user_marks;
