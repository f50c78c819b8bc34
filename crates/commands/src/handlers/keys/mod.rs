//! The commands on keys of any type. `execute` calls them, and `connections` and `server` use the
//! parser for database numbers.
//!
//! - `expiry`: expiry of keys: deadlines and times to live.
//! - `keyspace`: commands that delete, find, rename and copy keys of any type.
//! - `object`: DUMP, RESTORE, OBJECT, MEMORY USAGE and DEBUG OBJECT: serialized values and their
//!   internals.
//! - `sort`: SORT and SORT_RO.

pub(crate) mod expiry;
pub(crate) mod keyspace;
pub(crate) mod object;
pub(crate) mod sort;
