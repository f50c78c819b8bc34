//! What becomes of keys and memory that are not needed any more: expiry, eviction, freeing in bounded steps. `store`,
//! and the modules between, use it.
//!
//! - `counters`: keys that this process evicted, and removed because they had expired.
//! - `detached`: freeing subtrees that were cut off a value that lives on.
//! - `dying`: what a structure that is being freed consists of.
//! - `eviction`: making room where `maxmemory` is reached.
//! - `expiry`: the sweep for expired keys that are not asked for.
//! - `graveyard`: freeing what is on the list of a shard.
//! - `reclaim`: memory that is found before a caller is told that there is none.
//! - `resizing`: resizing the dictionaries of databases.
//! - `space`: making room where the store itself is full.

pub(crate) mod counters;
pub(crate) mod detached;
pub(crate) mod dying;
pub(crate) mod eviction;
pub(crate) mod expiry;
pub(crate) mod graveyard;
pub(crate) mod reclaim;
mod resizing;
pub(crate) mod space;
