//! Implements the commands for keys of any type. `execute` calls the handlers, and `connections`
//! and `server` call the parser for database numbers.
//!
//! - `expiry`: implements EXPIRE, TTL and the other commands that set or read the deadlines of
//!   keys.
//! - `keyspace`: implements the commands that delete, find, rename and copy keys of any type.
//! - `object`: implements DUMP, RESTORE, OBJECT, MEMORY USAGE and DEBUG OBJECT, which serialize or
//!   inspect values.
//! - `sort`: implements SORT and SORT_RO.

pub(crate) mod expiry;
pub(crate) mod keyspace;
pub(crate) mod object;
pub(crate) mod sort;
