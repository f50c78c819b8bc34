//! The handlers, one file for each family of commands.
//!
//! - `absent`: what other servers have and this one has not: a cluster, a master to follow, modules.
//! - `bitfield`: BITFIELD: integers of any width at any bit of a string.
//! - `bits`: strings as arrays of bits: single bits, counts, searches, combinations.
//! - `blocking`: commands that wait until a key has something for them.
//! - `client`: CLIENT: connections, this one and the others.
//! - `command`: COMMAND: the table, told to clients.
//! - `connection`: the connection itself: PING, SELECT, HELLO, AUTH and their like.
//! - `embedded`: the processes that map the store, as CLIENT LIST shows them beside connections.
//! - `expire`: deadlines of keys.
//! - `feeds`: FEED.ADD, FEED.RANGE and their like, which Redis does not have.
//! - `geo`: positions: sorted sets whose scores stand for places on the earth.
//! - `hashes`: HSET, HGET and their like.
//! - `hyperloglog`: counting different elements approximately: PFADD, PFCOUNT, PFMERGE.
//! - `info`: INFO: figures about the server and the store, in Redis' form.
//! - `keys`: keys of any type: deleting, finding, renaming, copying.
//! - `latency`: LATENCY: what took long, and how long commands take.
//! - `lists`: LPUSH, LRANGE and their like.
//! - `lolwut`: LOLWUT: a picture and the version.
//! - `memory`: MEMORY DOCTOR, STATS, PURGE and MALLOC-STATS: the memory of the store.
//! - `monitor`: MONITOR: each command that was run, as a line for the connections that want to see them.
//! - `object`: DUMP and RESTORE, OBJECT, MEMORY USAGE and DEBUG OBJECT: values from outside and from inside.
//! - `string_parts`: parts of strings, floating point counters, and LCS.
//! - `pubsub`: messages: SUBSCRIBE, PUBLISH, PUBSUB and their like.
//! - `replication`: what is asked of a server about copies of it, of which there are none: ROLE, WAIT, LASTSAVE,
//!   MIGRATE.
//! - `scripting`: EVAL and its like, for scripts that are known by their SHA-1.
//! - `server`: the server and its databases: FLUSHALL, INFO, CONFIG, SLOWLOG, DEBUG, SHUTDOWN.
//! - `sets`: SADD, SINTER and their like.
//! - `sort`: SORT and SORT_RO.
//! - `sorted`: ZADD, ZRANGE and their like.
//! - `streams`: XADD, XREAD, XREADGROUP and their like.
//! - `strings`: reading and writing whole strings.
//! - `transaction`: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//! - `walk`: HSCAN and its like: walks over one collection.

pub(crate) mod absent;
pub(crate) mod bitfield;
pub(crate) mod bits;
pub(crate) mod blocking;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod connection;
pub(crate) mod embedded;
pub(crate) mod expire;
pub(crate) mod feeds;
pub(crate) mod geo;
pub(crate) mod hashes;
pub(crate) mod hyperloglog;
pub(crate) mod info;
pub(crate) mod keys;
pub(crate) mod latency;
pub(crate) mod lists;
pub(crate) mod lolwut;
pub(crate) mod memory;
pub(crate) mod monitor;
pub(crate) mod object;
pub(crate) mod pubsub;
pub(crate) mod replication;
pub(crate) mod scripting;
pub(crate) mod server;
pub(crate) mod sets;
pub(crate) mod sort;
pub(crate) mod sorted;
pub(crate) mod streams;
pub(crate) mod string_parts;
pub(crate) mod strings;
pub(crate) mod transaction;
pub(crate) mod walk;
