//! The hot methods.
//!
//! - `counters`: `incr`, `incrby`, `decr` and `decrby`.
//! - `hashes`: `hget` and `hset`.
//! - `keys`: `delete`, `exists`, `expire` and `ttl`.
//! - `lists`: the methods on lists that programs call most.
//! - `multi_key`: `mget` and `mset`.
//! - `sets`: `sadd` and `sismember`.
//! - `strings`: `get` and `set`.

use pyo3::prelude::*;

use crate::method::add;

mod counters;
mod hashes;
mod keys;
mod lists;
mod multi_key;
mod sets;
mod strings;

/// Adds them to the class.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    add::<strings::Get>(py)?;
    add::<strings::Set>(py)?;
    add::<multi_key::Mget>(py)?;
    add::<multi_key::Mset>(py)?;
    add::<keys::Delete>(py)?;
    add::<keys::Exists>(py)?;
    add::<keys::Expire>(py)?;
    add::<keys::Ttl>(py)?;
    add::<lists::Lpush>(py)?;
    add::<lists::Rpush>(py)?;
    add::<lists::Lpop>(py)?;
    add::<lists::Rpop>(py)?;
    add::<lists::Lrange>(py)?;
    add::<lists::Llen>(py)?;
    add::<counters::Incr>(py)?;
    add::<counters::Incrby>(py)?;
    add::<counters::Decr>(py)?;
    add::<counters::Decrby>(py)?;
    add::<hashes::Hget>(py)?;
    add::<hashes::Hset>(py)?;
    add::<sets::Sadd>(py)?;
    add::<sets::Sismember>(py)
}
