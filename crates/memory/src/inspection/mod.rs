//! Inspection of an entire store: whether it is sound, what it holds, and which processes use it.
//! No other folder uses this one.
//!
//! From the lowest file to the highest:
//!
//! - `report`: the result of a structural check, and the facts it collects.
//! - `check_pools`: the check of a shard's or an arena's runs and lists.
//! - `check_arenas`: the check of arenas.
//! - `check_pages`: the check of the heap, page by page.
//! - `check`: the structural check of every page, list and block.
//! - `statistics`: the store's sizes, members and held locks, for people to read.
//! - `users`: the processes that have the store mapped, readers included.

mod check;
mod check_arenas;
mod check_pages;
mod check_pools;
pub(crate) mod report;
pub(crate) mod statistics;
pub(crate) mod users;
