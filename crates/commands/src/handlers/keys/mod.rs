//! The commands on keys of any type. `execute` calls them; `connections` and `server` read numbers of databases here.
//!
//! - `expiry`: deadlines of keys.
//! - `keyspace`: deleting, finding, renaming, copying.
//! - `object`: DUMP and RESTORE, OBJECT, MEMORY USAGE and DEBUG OBJECT: values from outside and from inside.
//! - `sort`: SORT and SORT_RO.

pub(crate) mod expiry;
pub(crate) mod keyspace;
pub(crate) mod object;
pub(crate) mod sort;
