//! The handle of a store, and what it tells without a transaction. Every folder but `structures` and `rdb_form` uses it.
//!
//! - `clock`: the time that expiry goes by, which tests may set.
//! - `events`: events of keys, and which of them are told.
//! - `eviction_policy`: which keys make room for others where the memory limit is reached.
//! - `expired_seen`: expired keys that reads of this thread met.
//! - `file`: what a handle tells of the store's file and of the processes that use it.
//! - `parts`: state that the modules above keep in a handle.
//! - `reader`: read access to keys.
//! - `recency`: when keys were used last, or how often.
//! - `store`: the handle itself.
//! - `warm`: bringing keys into the processor's caches ahead of their use.

pub(crate) mod clock;
pub(crate) mod events;
pub(crate) mod eviction_policy;
pub(crate) mod expired_seen;
mod file;
pub(crate) mod parts;
pub(crate) mod reader;
mod recency;
pub(crate) mod store;
mod warm;
