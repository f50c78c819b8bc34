//! The commands on lists, hashes, sets and sorted sets. `execute` calls them, and `feeds` what lists share with it.
//!
//! - `blocking`: commands that wait until a key has something for them.
//! - `geo`: positions: sorted sets whose scores stand for places on the earth.
//! - `hashes`: HSET, HGET and their like.
//! - `lists`: LPUSH, LRANGE and their like.
//! - `sampling`: items chosen by chance, as HRANDFIELD and its like return them.
//! - `sets`: SADD, SINTER and their like.
//! - `sorted`: ZADD, ZRANGE and their like.

pub(crate) mod blocking;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod lists;
pub(crate) mod sampling;
pub(crate) mod sets;
pub(crate) mod sorted;
