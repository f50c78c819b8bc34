//! Redis data structures in shared memory, and a cache trait for both stores in memory and Redis
//! servers.
//!
//! A [`Store`] is mapped into the process: its calls are look-ups in memory that all processes on
//! the machine share.
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
//! A [`Cache`] is in shared memory or on a server, depending on its URL. Many tasks share one
//! connection to a server.
//!
//! ```
//! use undercroft::SetOptions;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> undercroft::Result<()> {
//! # let directory = undercroft_testkit::fresh::directory();
//! # let url = format!("undercroft://{}/store", directory.path().display());
//! let cache = undercroft::cache(&url)?; // undercroft://sessions, redis://localhost, ...
//! cache.set(b"key", b"value").await?;
//! assert_eq!(cache.get(b"key").await?.as_deref(), Some(&b"value"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! - `address`: the syntax of cache URLs, and the servers or stores that they name.
//! - `cache`: the trait that all caches implement.
//! - `cache_commands`: commands that were built step by step, on caches.
//! - `caching`: options for caching computed values.
//! - `command`: commands, their arguments, and the conversion of their replies.
//! - `computing`: the values that a thread or a task is computing.
//! - `error`: the crate's error type, for both stores in this process and servers.
//! - `mock`: a cache for the tests of programs that use a cache.
//! - `objects`: bytes and arrays that processes exchange without copying.
//! - `observe`: spans of calls, counters, and connection events.
//! - `get_or_insert`: the computation of missing values, by one caller at a time.
//! - `lease`: leases, whose holders compute the values of keys.
//! - `open`: the function that opens the cache that a URL names.
//! - `options`: connection options for caches on a server.
//! - `remote`: connections to servers, and caches on them.
//! - `set_options`: the expiry and the condition of a SET.
//! - `store`: a store in this process, with typed calls and a call that runs any command.
//! - `store_cache`: the cache in shared memory.
//! - `subscription`: messages from channels as a stream.
//! - `values`: values of types that implement serde's traits, stored as JSON.

mod address;
mod cache;
mod cache_commands;
mod caching;
mod command;
mod computing;
mod error;
mod get_or_insert;
mod lease;
#[cfg(feature = "mock")]
mod mock;
mod objects;
mod observe;
mod open;
mod options;
mod remote;
mod set_options;
mod store;
mod store_cache;
mod subscription;
#[cfg(feature = "serde")]
mod values;

pub use cache::Cache;
pub use caching::Caching;
pub use command::{Args, Cmd, ConnectionLike, FromReply, Reply, ToArgs, ToSingleArg, cmd};
pub use error::{Error, Result};
pub use get_or_insert::GetOrInsert;
pub use lease::Lease;
#[cfg(feature = "mock")]
pub use mock::MockCache;
pub use objects::{Object, ObjectKind, Objects};
pub use open::{cache, cache_with};
pub use options::CacheOptions;
#[cfg(feature = "cluster")]
pub use remote::ClusterCache;
pub use remote::{Messages, PipelinedCache, Pool, PooledCache};
pub use set_options::SetOptions;
pub use store::{Durability, EvictionPolicy, Session, Store, StoreBuilder};
pub use store_cache::StoreCache;
pub use subscription::{Event, Message, Subscription};
#[cfg(feature = "serde")]
pub use values::CacheExt;
