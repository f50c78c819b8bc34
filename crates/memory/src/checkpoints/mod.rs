//! Checkpoints (J6): files that contain the entire store, written while all processes go on writing.
//!
//! From the lowest-level file to the highest:
//!
//! - `areas`: the parts of the store file that are state.
//! - `restart`: begins a new epoch of a journal that has failed.
//! - `checkpoint`: writes a checkpoint.
//! - `durability`: the durability mode of a store.

pub(crate) mod areas;
pub(crate) mod checkpoint;
pub(crate) mod durability;
pub(crate) mod restart;
