//! The top of the engine: opening a store, and what takes all modules together. Only `lib.rs` uses it.
//!
//! - `above`: what the modules do for a transaction that does not know them.
//! - `dead`: what dead processes leave in a store: tickets, mailboxes, subscriptions.
//! - `flush`: removing all keys of databases.
//! - `name`: how stores are named, and which there are.
//! - `open`: opening and creating stores.
//! - `terms`: what a process asks of a store that it opens.
//! - `upkeep`: the round of chores that keeps the store, a bounded step at a time.

mod above;
mod dead;
mod flush;
pub(crate) mod name;
mod open;
pub(crate) mod terms;
pub(crate) mod upkeep;
