//! Tests replicas of `undercroft serve`, most of them real servers.
//!
//! - `absence`: a sender that was away while many changes were made.
//! - `data`: replicas have the data of the store.
//! - `limits`: keys that replicas cannot receive, and replicas that do not read.
//! - `messages`: messages of PUBLISH and SPUBLISH.
//! - `older`: replicas older than Redis 7.0.
//! - `played`: a replica that the test plays.
//! - `required`: `min-replicas-to-write`.
//! - `tools`: the commands of RedisShake.
//! - `waiting`: WAIT of many clients.

mod absence;
mod data;
mod limits;
mod messages;
mod older;
mod played;
mod required;
mod tools;
mod waiting;
