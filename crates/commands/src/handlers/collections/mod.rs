//! The commands on lists, hashes, sets and sorted sets. `execute` calls them, and `feeds` shares
//! code with the list commands.
//!
//! - `blocking`: blocking commands, which wait until a key has an element for them.
//! - `geo`: geospatial indexes: sorted sets whose scores encode positions on the earth.
//! - `hashes`: HSET, HGET and the other hash commands.
//! - `lists`: LPUSH, LRANGE and the other list commands.
//! - `sampling`: random samples of elements for HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
//! - `sets`: SADD, SINTER and the other set commands.
//! - `sorted`: ZADD, ZRANGE and the other sorted set commands.

pub(crate) mod blocking;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod lists;
pub(crate) mod sampling;
pub(crate) mod sets;
pub(crate) mod sorted;
