//! The native half of the Python package `undercroft`: the class that
//! `undercroft.EmbeddedRedis` is built on, and the codec of remote clients.
//!
//! Its hot methods (`hot`) work on the store directly; every other command
//! goes through the one command table (most of them by a method of `methods`, any by
//! `execute`), and its reply becomes Python objects at once (`conversion`). All leave what is unusual to redis-py's own
//! classes. Remote clients speak with their servers through `wire`. The undercroft command is in it,
//! too, so that a wheel brings it.
//!
//! - `channel`: channels: messages that processes hand to each other.
//! - `client`: the class that `undercroft.Redis` is built on.
//! - `conversion`: between Python's objects and bytes, words and replies.
//! - `error`: errors as redis-py's exceptions.
//! - `execute`: any command, through the one command table.
//! - `feed`: many items of a feed in one buffer, either way.
//! - `hot`: the hot methods.
//! - `lease`: leases, and what stands in front of cached values.
//! - `methods`: the methods of clients and pipelines: how they are called, and their table.
//! - `objects`: values that are put into a store in pieces, and read there without a copy.
//! - `opening`: how this process opens stores, and waits for their locks.
//! - `peer`: what a connection of redis-py's has in the place of a socket, when its server is this process.
//! - `pipeline`: many commands in one call, with and without a transaction.
//! - `queue`: what `undercroft.embedded.pipeline.Pipeline` is built on: the commands that wait.
//! - `race`: changes in the midst of reads, only in a build for tests.
//! - `subscription`: what `undercroft.PubSub` is built on: one receiver of messages.
//! - `taken`: what a call took out of the store, to be given back where its caller does not get it.
//! - `threads`: state that threads share, and calls that do not wait for locks.
//! - `waiters`: what `undercroft.asyncio` waits for keys with: the tasks of one event loop, all at
//!   one seat.
//! - `wire`: the way from a remote client's call to the socket and back.

use std::ffi::OsString;

use pyo3::prelude::*;

mod channel;
mod client;
mod conversion;
mod error;
mod execute;
mod feed;
mod hot;
mod lease;
mod methods;
mod objects;
mod opening;
mod peer;
mod pipeline;
mod queue;
#[cfg(feature = "races")]
mod race;
mod subscription;
mod taken;
mod threads;
mod waiters;
mod wire;

use conversion::{known, shape};
use methods::{table, typed};
use threads::{busy, nonblocking};

/// Run the undercroft command with these words, of which the first is its own name, and return its exit status.
#[pyfunction]
fn command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| undercroft_cli::run(&words))
}

/// `undercroft._native`.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<client::Client>()?;
    module.add_class::<subscription::Subscription>()?;
    module.add_class::<peer::Peer>()?;
    module.add_class::<waiters::Waiters>()?;
    module.add_class::<waiters::Wait>()?;
    module.add_class::<nonblocking::Parked>()?;
    module.add_class::<nonblocking::Beside>()?;
    module.add_class::<nonblocking::Backlog>()?;
    let py = module.py();
    module.add("Locked", py.get_type::<nonblocking::Locked>())?;
    module.add("TakesLong", py.get_type::<nonblocking::TakesLong>())?;
    module.add("StoreError", py.get_type::<error::StoreError>())?;
    module.add("CommandError", py.get_type::<error::CommandError>())?;
    module.add("BusyError", py.get_type::<error::BusyError>())?;
    module.add("UnavailableError", py.get_type::<error::UnavailableError>())?;
    module.add_class::<wire::Wire>()?;
    module.add_class::<wire::Line>()?;
    module.add_class::<queue::Queue>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    module.add_function(wrap_pyfunction!(waiters::waits, module)?)?;
    module.add_function(wrap_pyfunction!(shape::know, module)?)?;
    module.add_function(wrap_pyfunction!(pipeline::errors, module)?)?;
    module.add_function(wrap_pyfunction!(pipeline::shape_replies, module)?)?;
    lease::install(module)?;
    known::install(module)?;
    objects::install(module)?;
    channel::install(module)?;
    busy::watch_forks(module)?;
    typed::install(module)?;
    taken::install(module)?;
    table::install(module)
}
