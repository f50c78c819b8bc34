//! The handle of a store, and the operations that need no transaction. Every folder except
//! `structures` and `rdb_form` uses it.
//!
//! - `clock`: the clock for expiry, which tests can set.
//! - `events`: keyspace events, and which of them are published.
//! - `eviction_policy`: the policy that selects the keys to evict at the memory limit.
//! - `expired_seen`: expired keys that this thread's reads found.
//! - `file`: information about the store's file and the processes that use it.
//! - `parts`: state that higher modules keep in a handle.
//! - `reader`: read access to keys.
//! - `recency`: when keys were last used, or how often.
//! - `replica`: stores whose keys only their source may change.
//! - `store`: the handle itself.
//! - `warm`: prefetching keys into the CPU caches.

pub(crate) mod clock;
pub(crate) mod events;
pub(crate) mod eviction_policy;
pub(crate) mod expired_seen;
mod file;
pub(crate) mod parts;
pub(crate) mod reader;
mod recency;
mod replica;
pub(crate) mod store;
mod warm;
