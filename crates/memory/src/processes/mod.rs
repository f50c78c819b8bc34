//! Processes: which of them are alive, and the locks that they take.
//!
//! - `lock`: the lock word, taken with one compare-and-swap.
//! - `process`: who is alive: a process' entry in the process table.
//! - `tenant`: who holds an entry of the process table, in one word.
//! - `wait`: waiting for a lock: how long, and what is asked meanwhile.

pub(crate) mod lock;
pub(crate) mod process;
pub(crate) mod tenant;
pub(crate) mod wait;
