//! The native half of the Python package `undercroft`: the class that
//! `undercroft.EmbeddedRedis` is built on, and the codec of remote clients.
//!
//! Its hot methods (`hot`) work on the store directly; every other command
//! goes through the one command table (most of them by a method of `rows`, any by
//! `execute`), and its reply becomes Python objects at once (`reply`, `shape`). All leave what is unusual to redis-py's own classes. Remote
//! clients speak with their servers through `wire`. The undercroft command is in it,
//! too, so that a wheel brings it.
//!
//! - `attached`: state that the interpreter's lock guards.
//! - `busy`: state that several threads use, each of which may wait for a lock of the store
//!   meanwhile.
//! - `channel`: channels: messages that processes hand to each other.
//! - `client`: the class that `undercroft.Redis` is built on.
//! - `codec`: between Python's objects and the store's bytes.
//! - `error`: errors as redis-py's exceptions.
//! - `execute`: any command, through the one command table.
//! - `feed`: many items of a feed in one buffer, either way.
//! - `haste`: calls made in an event loop: they do not wait for locks.
//! - `held`: objects that must outlive a wait.
//! - `hot`: the hot methods.
//! - `known`: bytes and arrays as objects, which need none of Python's code.
//! - `lease`: leases, and what stands in front of cached values.
//! - `method`: methods at the speed of the interpreter's own: one C function for each, called with
//!   an array of arguments.
//! - `objects`: values that are put into a store in pieces, and read there without a copy.
//! - `opening`: how this process opens stores, and waits for their locks.
//! - `peer`: what a connection of redis-py's has in the place of a socket, when its server is this process.
//! - `pipeline`: many commands in one call, with and without a transaction.
//! - `queue`: what `undercroft.embedded.pipeline.Pipeline` is built on: the commands that wait.
//! - `race`: changes in the midst of reads, only in a build for tests.
//! - `reply`: replies as Python objects, in the shapes of RESP2.
//! - `row`: one row of the table of methods: which words its parameters become, and its signature.
//! - `rows`: methods that hand their arguments on, in one table.
//! - `shape`: from a reply to what a method of redis-py's returns.
//! - `subscription`: what `undercroft.PubSub` is built on: one receiver of messages.
//! - `taken`: what a call took out of the store, to be given back where its caller does not get it.
//! - `typed`: methods that are a typed call of the engine, and else redis-py's.
//! - `waiters`: what `undercroft.asyncio` waits for keys with: the tasks of one event loop, all at
//!   one seat.
//! - `wire`: the way from a remote client's call to the socket and back.

use std::ffi::OsString;

use pyo3::prelude::*;

mod attached;
mod busy;
mod channel;
mod client;
mod codec;
mod error;
mod execute;
mod feed;
mod haste;
mod held;
mod hot;
mod known;
mod lease;
mod method;
mod objects;
mod opening;
mod peer;
mod pipeline;
mod queue;
#[cfg(feature = "races")]
mod race;
mod reply;
mod row;
mod rows;
mod shape;
mod subscription;
mod taken;
mod typed;
mod waiters;
mod wire;

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
    module.add_class::<haste::Parked>()?;
    module.add_class::<haste::Beside>()?;
    module.add_class::<haste::Backlog>()?;
    let py = module.py();
    module.add("Locked", py.get_type::<haste::Locked>())?;
    module.add("TakesLong", py.get_type::<haste::TakesLong>())?;
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
    rows::install(module)
}
