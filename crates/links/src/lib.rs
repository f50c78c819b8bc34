//! The files of Redis and Valkey, which move data between those servers and a store.
//!
//! - `aof`: reads append-only files.
//! - `follow`: follows a server as its replica.
//! - `load`: loads the keys of RDB files into a store.
//! - `rdb`: reads and writes RDB files, the snapshots of Redis and Valkey.
//! - `save`: writes a store as an RDB file.
//! - `send`: sends the changes of a store to its replicas.

pub mod aof;
pub mod follow;
pub mod load;
pub mod rdb;
pub mod save;
pub mod send;
