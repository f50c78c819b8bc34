//! Hot methods: the most frequently called methods, implemented as typed engine calls. They are
//! tried before the rows of the method table.
//!
//! - `counters`: `incr`, `incrby`, `decr` and `decrby`.
//! - `hashes`: `hget` and `hset`.
//! - `keys`: `delete`, `exists`, `expire` and `ttl`.
//! - `lists`: the most frequently called list methods.
//! - `multi_key`: `mget` and `mset`.
//! - `pops`: methods that remove a string or a member from the store.
//! - `sets`: `sadd` and `sismember`.
//! - `streams`: the most frequently called stream methods. They fall back to redis-py's methods,
//!   not to table rows.
//! - `strings`: `get` and `set`.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::methods::fastcall::{Call, Outcome};

pub(crate) mod counters;
pub(crate) mod hashes;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod multi_key;
pub(crate) mod pops;
pub(crate) mod sets;
pub(crate) mod streams;
pub(crate) mod strings;

pub(crate) use keys::items;

/// A typed call. It leaves unusual arguments to the table row of the same method.
pub(crate) trait Hot {
    /// Makes the call.
    fn call(call: &Call<'_, '_>) -> Outcome;
}

/// A typed call that removes elements from the store.
pub(crate) trait Taking {
    /// Makes the call and records the removed elements in `taken`.
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome;
}
