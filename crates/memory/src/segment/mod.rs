//! The handle to a mapped store, and all operations that need only the mapping and the process:
//! lock waits, membership, settings, and the counters and hints that processes share. All modules
//! above `processes` may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `shard_set`: a set of shards.
//! - `counter`: the version counter of a shard, which is odd while the shard is being changed.
//! - `state`: the handle and the state that the threads of this process share.
//! - `settings`: settings that all processes share.
//! - `waiting`: waits for a lock.
//! - `membership`: this process's process table entry, and the file's location.
//! - `durability`: records in the header that the store is being changed.
//! - `marks`: marks shards in which dead processes may have left items to clean up.
//! - `change_counters`: modification counters, which show whether keys have changed since a given
//!   moment.
//! - `hints`: the hint table, which records when keys were last used.
//! - `upkeep`: decides which process performs the next upkeep step.
//! - `place`: checks before a write or a wait.
//! - `following`: the lock of the process that follows the source of a replica.

pub(crate) mod change_counters;
pub(crate) mod counter;
pub(crate) mod durability;
pub(crate) mod following;
pub(crate) mod hints;
pub(crate) mod marks;
pub(crate) mod membership;
pub(crate) mod place;
pub(crate) mod settings;
pub(crate) mod shard_set;
pub(crate) mod state;
pub(crate) mod upkeep;
pub(crate) mod waiting;

pub use state::Segment;
