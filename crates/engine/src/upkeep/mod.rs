//! Removes keys and frees memory that are no longer needed, by expiry, eviction and freeing in
//! bounded steps. The modules in the layers above, up to `store`, use this folder.
//!
//! - `counters`: counts evicted and expired keys.
//! - `detached`: frees subtrees that were cut off a value that is still in use.
//! - `freed_structures`: defines the kinds of structures that are freed in steps.
//! - `eviction`: makes room when the store reaches `maxmemory`.
//! - `expiry`: removes expired keys that no client accesses.
//! - `graveyard`: frees the structures in a shard's graveyard, the queue of structures to free.
//! - `reclaim`: frees memory before a call fails for lack of memory.
//! - `resizing`: resizes the dictionaries of databases.
//! - `space`: makes room when the store itself is full.

pub(crate) mod counters;
pub(crate) mod detached;
pub(crate) mod eviction;
pub(crate) mod expiry;
pub(crate) mod freed_structures;
pub(crate) mod graveyard;
pub(crate) mod reclaim;
mod resizing;
pub(crate) mod space;
