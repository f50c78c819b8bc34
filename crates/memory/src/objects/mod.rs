//! Large blocks outside of transactions: filled before they are published, or read in place (W8,
//! R7). The folders above may use this one.
//!
//! From the lowest file to the highest:
//!
//! - `owners`: whether the processes that staged or pinned blocks are alive.
//! - `pinned`: blocks that are read in place.
//! - `staged`: blocks that are filled outside the lock and published in one step.

pub(crate) mod owners;
pub(crate) mod pinned;
pub(crate) mod staged;
