//! The handle of a mapped store, and everything that needs only the mapping and the process:
//! waiting for locks, membership, settings, and counters and hints that processes share. Every
//! folder above `processes` may use it.
//!
//! From the lowest-level file to the highest:
//!
//! - `shard_set`: a set of shards.
//! - `counter`: the version counter of a shard, odd while the shard is being changed.
//! - `state`: the handle and the state that the threads of this process share.
//! - `settings`: settings that the processes share.
//! - `waiting`: waiting for a lock.
//! - `membership`: this process's entry in the process table, and the file's location.
//! - `durability`: the note in the header that the store is being changed.
//! - `marks`: marked shards, in which dead processes may have left something.
//! - `change_counters`: modification counters: whether keys have changed since a given moment.
//! - `hints`: the hint table: when keys were last used.
//! - `upkeep`: the turn to do a step of upkeep.
//! - `place`: checks before a write or a wait.

pub(crate) mod change_counters;
pub(crate) mod counter;
pub(crate) mod durability;
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
