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
//! A [`Client`] is a store or a pool of connections to a server, with blocking calls. Feeds,
//! [`Objects`] and [`Channel`]s work on both.
//!
//! - `address`: the syntax of cache URLs, and the servers or stores that they name.
//! - `cache`: the trait that all caches implement.
//! - `cache_commands`: commands that were built step by step, on caches.
//! - `caching`: options for caching computed values.
//! - `client`: a store or a server, whichever a URL names.
//! - `command`: commands, their arguments, and the conversion of their replies.
//! - `computed`: the value of a leased key, computed by this caller or another one.
//! - `computing`: the values that a thread or a task is computing.
//! - `error`: the crate's error type, for both stores in this process and servers.
//! - `exchange`: values that processes pass to each other without copying long ones.
//! - `feed`: feeds, lists of small values with attributes.
//! - `message`: the events of a subscription.
//! - `mock`: a cache for the tests of programs that use a cache.
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
#[cfg(feature = "async")]
mod cache;
#[cfg(feature = "async")]
mod cache_commands;
mod caching;
mod client;
mod command;
mod computed;
mod computing;
mod error;
mod exchange;
mod feed;
#[cfg(feature = "async")]
mod get_or_insert;
mod lease;
mod message;
#[cfg(feature = "mock")]
mod mock;
mod observe;
#[cfg(feature = "async")]
mod open;
mod options;
mod remote;
mod set_options;
mod store;
#[cfg(feature = "async")]
mod store_cache;
#[cfg(feature = "async")]
mod subscription;
#[cfg(feature = "serde")]
mod values;

#[cfg(feature = "async")]
pub use cache::Cache;
pub use caching::Caching;
pub use client::Client;
pub use command::{
    Args, Cmd, ConnectionLike, FromReply, Pipeline, Reply, Script, ScriptInvocation, ToArgs,
    ToSingleArg, cmd, pipe,
};
pub use error::{Error, Result};
pub use exchange::{Channel, ChannelMessage, ChannelValue, Delivery, Object, ObjectKind, Objects};
pub use feed::{Feed, FeedEnd, FeedInfo, FeedQuery, FeedSchema, FeedSeen};
#[cfg(feature = "async")]
pub use get_or_insert::GetOrInsert;
pub use lease::Lease;
pub use message::{Event, Message};
#[cfg(feature = "mock")]
pub use mock::MockCache;
#[cfg(feature = "async")]
pub use open::{cache, cache_with};
pub use options::CacheOptions;
#[cfg(feature = "cluster")]
pub use remote::ClusterCache;
pub use remote::{Messages, Pool};
#[cfg(feature = "async")]
pub use remote::{PipelinedCache, PooledCache};
pub use set_options::SetOptions;
pub use store::{
    Durability, EvictionPolicy, Scan, Session, Store, StoreBuilder, StoreMessages, StreamEntry,
    StreamReadOptions,
};
#[cfg(feature = "async")]
pub use store_cache::StoreCache;
#[cfg(feature = "async")]
pub use subscription::Subscription;
#[cfg(all(feature = "async", feature = "serde"))]
pub use values::CacheExt;
