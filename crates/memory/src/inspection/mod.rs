//! A store looked at as a whole: whether it is sound, what it holds, which processes use it. No other folder calls it.
//!
//! From the lowest file to the highest:
//!
//! - `report`: the result of a structural check, and what it collects.
//! - `check_pools`: the check of a shard's or an arena's runs and lists.
//! - `check_arenas`: the check of arenas.
//! - `check_pages`: the check of the heap, page by page.
//! - `check`: the structural check: every page, every list, every block.
//! - `statistics`: what a store holds, and which locks are held, for people.
//! - `users`: the processes that have the store mapped, readers included.

mod check;
mod check_arenas;
mod check_pages;
mod check_pools;
pub(crate) mod report;
pub(crate) mod statistics;
pub(crate) mod users;
