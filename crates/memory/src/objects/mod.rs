//! Large blocks outside of transactions, which are filled before they are published, or read in
//! place (W8, R7). Modules above this one may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `owners`: checks whether the processes that staged or pinned blocks are alive.
//! - `pinned`: blocks that are read in place.
//! - `staged`: blocks that are filled without the lock and published in one step.

pub(crate) mod owners;
pub(crate) mod pinned;
pub(crate) mod staged;
