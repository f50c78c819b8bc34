//! Implements the commands for lists, hashes, sets and sorted sets. `execute` calls the handlers,
//! and `feeds` shares code with the list commands.
//!
//! - `blocking`: implements blocking commands, which wait until a key contains an element for them.
//! - `geo`: implements geospatial indexes, which are sorted sets whose scores encode positions.
//! - `hashes`: implements HSET, HGET and the other hash commands.
//! - `lists`: implements LPUSH, LRANGE and the other list commands.
//! - `sampling`: chooses random elements for HRANDFIELD, SRANDMEMBER and ZRANDMEMBER.
//! - `sets`: implements SADD, SINTER and the other set commands.
//! - `sorted`: implements ZADD, ZRANGE and the other sorted set commands.

pub(crate) mod blocking;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod lists;
pub(crate) mod sampling;
pub(crate) mod sets;
pub(crate) mod sorted;
