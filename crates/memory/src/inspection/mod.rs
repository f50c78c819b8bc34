//! A store looked at as a whole: whether it is sound, what it holds, who uses it.
//!
//! - `check`: the structural check: every page, every list, every block.
//! - `check_arenas`: the structural check of arenas.
//! - `statistics`: what a store holds, and who has its locks, for people.
//! - `users`: who has the store mapped, readers included.

pub(crate) mod check;
mod check_arenas;
pub(crate) mod statistics;
pub(crate) mod users;
