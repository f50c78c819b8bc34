//! The hot methods: typed calls of the engine, for what programs call most, beside the rows of the table.
//!
//! - `counters`: `incr`, `incrby`, `decr` and `decrby`.
//! - `hashes`: `hget` and `hset`.
//! - `keys`: `delete`, `exists`, `expire` and `ttl`.
//! - `lists`: the methods on lists that programs call most.
//! - `multi_key`: `mget` and `mset`.
//! - `pops`: what takes a string or a member out of the store.
//! - `sets`: `sadd` and `sismember`.
//! - `streams`: the methods on streams that programs call most; their rows are redis-py's.
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

/// A typed call. What it does not know it leaves to the row of the same method.
pub(crate) trait Hot {
    /// Makes the call.
    fn call(call: &Call<'_, '_>) -> Outcome;
}

/// A typed call that takes something out of the store.
pub(crate) trait Taking {
    /// Makes the call. What was taken goes onto the list.
    fn take<'py>(call: &Call<'_, 'py>, taken: &Bound<'py, PyList>) -> Outcome;
}
