//! Implements the commands on keys of any type. `execute` calls the handlers, and `connections` and
//! `server` call the parser for database numbers.
//!
//! - `expiry`: implements the commands on deadlines and times to live of keys.
//! - `keyspace`: implements the commands that delete, find, rename and copy keys of any type.
//! - `object`: implements DUMP, RESTORE, OBJECT, MEMORY USAGE and DEBUG OBJECT, which serialize or
//!   inspect values.
//! - `sort`: implements SORT and SORT_RO.

pub(crate) mod expiry;
pub(crate) mod keyspace;
pub(crate) mod object;
pub(crate) mod sort;
