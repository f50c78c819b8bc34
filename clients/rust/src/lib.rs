//! Redis data structures in shared memory, and one cache trait over them and over every way of reaching a Redis.
//!
//! A [`Store`] is mapped into the process: its calls are look-ups in memory that all processes of the machine share.
//!
//! ```
//! # let directory = undercroft_testkit::fresh::directory();
//! # let url = format!("undercroft://{}/store", directory.path().display());
//! let store = undercroft::Store::open(&url)?; // undercroft://sessions, say
//! store.set("greeting", "hello")?;
//! assert_eq!(store.get("greeting")?.as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), undercroft::Error>(())
//! ```
//!
//! A [`Cache`] is wherever its URL says: in shared memory, or on a server that many tasks reach over one connection.
//!
//! ```
//! use undercroft::SetOptions;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> undercroft::Result<()> {
//! # let directory = undercroft_testkit::fresh::directory();
//! # let url = format!("undercroft://{}/store", directory.path().display());
//! let cache = undercroft::cache(&url)?; // undercroft://sessions, redis://localhost, ...
//! cache.set(b"key", b"value", SetOptions::new()).await?;
//! assert_eq!(cache.get(b"key").await?.as_deref(), Some(&b"value"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! - `address`: where a cache is: what its URL says.
//! - `cache`: the trait of all caches.
//! - `caching`: how a computed value is cached.
//! - `computing`: the values that a thread or a task is computing.
//! - `error`: errors: one type for a store in the process and for servers.
//! - `objects`: objects: bytes and arrays that processes hand to each other without copying.
//! - `observe`: what can be watched of caches: spans of calls, counters, and what happens to connections.
//! - `get_or_insert`: values that are computed where they are missing, by one caller at a time.
//! - `lease`: leases: who has a key's computes its value.
//! - `open`: the cache that a URL names.
//! - `options`: how a cache reaches its server.
//! - `remote`: servers: connections, and caches on them.
//! - `reply`: replies of commands, whoever ran them, and what becomes of them.
//! - `set_options`: how a value is set: for how long, and on which condition.
//! - `store`: a store in this process: typed calls, and any command by its words.
//! - `store_cache`: the cache in shared memory.
//! - `subscription`: messages of channels as a stream.
//! - `values`: values of types that serde knows, kept as JSON.

mod address;
mod cache;
mod caching;
mod computing;
mod error;
mod get_or_insert;
mod lease;
mod objects;
mod observe;
mod open;
mod options;
mod remote;
mod reply;
mod set_options;
mod store;
mod store_cache;
mod subscription;
#[cfg(feature = "serde")]
mod values;

pub use cache::Cache;
pub use caching::Caching;
pub use error::{Error, Result};
pub use get_or_insert::GetOrInsert;
pub use lease::Lease;
pub use objects::{Object, ObjectKind, Objects};
pub use open::{cache, cache_with};
pub use options::CacheOptions;
#[cfg(feature = "cluster")]
pub use remote::ClusterCache;
pub use remote::{Messages, PipelinedCache, Pool, PooledCache};
pub use reply::{FromReply, Reply};
pub use set_options::SetOptions;
pub use store::{Session, Store};
pub use store_cache::StoreCache;
pub use subscription::{Event, Message, Subscription};
#[cfg(feature = "serde")]
pub use values::CacheExt;
