//! Inspects an entire store: checks it for consistency, computes statistics, and lists the
//! processes that use it. No other module uses this one.
//!
//! From the lowest-level file to the highest:
//!
//! - `report`: the result of a structural check, and the facts it collects.
//! - `check_pools`: checks the runs and lists of a shard or an arena.
//! - `check_arenas`: checks arenas.
//! - `check_pages`: checks the heap, page by page.
//! - `check`: checks every page, list and block.
//! - `statistics`: the store's sizes, members and held locks, for display.
//! - `users`: the processes that have the store mapped, including readers.

mod check;
mod check_arenas;
mod check_pages;
mod check_pools;
pub(crate) mod report;
pub(crate) mod statistics;
pub(crate) mod users;
