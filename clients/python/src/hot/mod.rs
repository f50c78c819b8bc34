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

use crate::client::Client;
use crate::method::add;

mod counters;
mod hashes;
mod keys;
mod lists;
mod multi_key;
mod sets;
mod strings;

pub(crate) use keys::items;

/// Adds them to the class.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    let class = &py.get_type::<Client>();
    add::<Client, strings::Get>(class)?;
    add::<Client, strings::Set>(class)?;
    add::<Client, multi_key::Mget>(class)?;
    add::<Client, multi_key::Mset>(class)?;
    add::<Client, keys::Delete>(class)?;
    add::<Client, keys::Exists>(class)?;
    add::<Client, keys::Expire>(class)?;
    add::<Client, keys::Ttl>(class)?;
    add::<Client, lists::Lpush>(class)?;
    add::<Client, lists::Rpush>(class)?;
    add::<Client, lists::Lpop>(class)?;
    add::<Client, lists::Rpop>(class)?;
    add::<Client, lists::Lrange>(class)?;
    add::<Client, lists::Llen>(class)?;
    add::<Client, counters::Incr>(class)?;
    add::<Client, counters::Incrby>(class)?;
    add::<Client, counters::Decr>(class)?;
    add::<Client, counters::Decrby>(class)?;
    add::<Client, hashes::Hget>(class)?;
    add::<Client, hashes::Hset>(class)?;
    add::<Client, sets::Sadd>(class)?;
    add::<Client, sets::Sismember>(class)
}
