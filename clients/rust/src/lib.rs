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
//! - `error`: errors: one type for a store in the process and for servers.
//! - `reply`: replies of commands, whoever ran them, and what becomes of them.
//! - `set_options`: how a value is set: for how long, and on which condition.
//! - `store`: a store in this process: typed calls, and any command by its words.

mod error;
mod reply;
mod set_options;
mod store;

pub use error::{Error, Result};
pub use reply::{FromReply, Reply};
pub use set_options::SetOptions;
pub use store::{Session, Store};
