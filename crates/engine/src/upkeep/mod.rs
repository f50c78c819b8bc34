//! Removing keys and memory that are no longer needed: expiry, eviction and freeing in bounded
//! steps. The modules in the layers above, up to `store`, use this folder.
//!
//! - `counters`: counters of evicted and expired keys.
//! - `detached`: freeing subtrees that were cut off a value that is still in use.
//! - `freed_structures`: the kinds of structures that are freed in steps.
//! - `eviction`: making room when the store reaches `maxmemory`.
//! - `expiry`: the sweep for expired keys that no client accesses.
//! - `graveyard`: freeing the structures in a shard's graveyard, the queue of structures to free.
//! - `reclaim`: freeing memory before a call fails for lack of memory.
//! - `resizing`: resizing the dictionaries of databases.
//! - `space`: making room when the store itself is full.

pub(crate) mod counters;
pub(crate) mod detached;
pub(crate) mod eviction;
pub(crate) mod expiry;
pub(crate) mod freed_structures;
pub(crate) mod graveyard;
pub(crate) mod reclaim;
mod resizing;
pub(crate) mod space;
