//! Tests replicas of `undercroft serve`, most of them real servers.
//!
//! - `data`: replicas have the data of the store.
//! - `required`: `min-replicas-to-write`.
//! - `waiting`: WAIT of many clients.

mod data;
mod required;
mod waiting;
