//! Tests the exchange of data with real servers of Redis and Valkey, by files.
//!
//! - `aof`: imports append-only files that real servers wrote.
//! - `compare`: compares all data of two servers.
//! - `damage`: damaged and hostile files.
//! - `data`: data of every type and encoding.
//! - `export`: writes RDB files that real servers read.
//! - `import`: imports RDB files that real servers wrote.
//! - `save`: SAVE and BGSAVE of a server with a folder for snapshots.
//! - `support`: runs the command and the servers.

mod aof;
mod compare;
mod damage;
mod data;
mod export;
mod import;
mod save;
mod support;
