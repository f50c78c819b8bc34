//! The handle on a mapped store, and what needs no more than the mapping and the process: waiting for locks, membership,
//! settings, counters and hints that processes leave for one another. Every folder above `processes` may call it.
//!
//! From the lowest file to the highest:
//!
//! - `shard_set`: a set of shards.
//! - `counter`: the version counter of a shard: odd while it is changed.
//! - `state`: the handle: the state that the threads of this process share.
//! - `settings`: settings that the processes share.
//! - `waiting`: waiting for a lock.
//! - `membership`: this process' entry in the process table, and the file's place.
//! - `durability`: the note that the store is being changed.
//! - `marks`: marked shards, in which dead processes may have left something.
//! - `change_counters`: modification counters: whether keys changed since a moment.
//! - `hints`: the hint table: when keys were last used.
//! - `upkeep`: the turn to do a step of upkeep.
//! - `place`: what precedes a write or a wait.

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
