//! The native half of the Python package `undercroft`: the base class of
//! `undercroft.EmbeddedRedis`, and the codec of remote clients.
//!
//! Hot methods (`hot`) work on the store directly. Every other command runs through the shared
//! command table, called by a method in `methods` or by `execute`. `conversion` builds Python
//! objects from the reply while the command writes it. Unusual arguments are left to redis-py's own
//! classes. Remote clients communicate with their servers through `wire`. The module also contains
//! the undercroft command, so that a wheel includes it.
//!
//! - `channel`: bounded queues of messages between processes.
//! - `client`: the base class of `undercroft.Redis`.
//! - `conversion`: converts between Python objects and bytes, words and replies.
//! - `error`: converts errors to redis-py's exceptions.
//! - `execute`: executes any command through the shared command table.
//! - `feed`: reads and writes many feed items in one buffer.
//! - `hot`: the hot methods.
//! - `lease`: leases, and the header of cached values.
//! - `methods`: the methods of clients and pipelines, with their table and calling convention.
//! - `objects`: values that are assembled from pieces and read without a copy.
//! - `opening`: opens stores in this process and waits for their locks.
//! - `peer`: the in-process replacement for the socket of a redis-py connection.
//! - `pipeline`: runs many commands in one call, with and without a transaction.
//! - `queue`: the base class of `undercroft.embedded.pipeline.Pipeline`, which queues commands.
//! - `race`: changes the store during reads, only in test builds.
//! - `subscription`: native code for `undercroft.PubSub`, which receives messages.
//! - `taken`: records the elements that a call removes from the store, so that they are restored
//!   after an interruption.
//! - `threads`: state that threads share, and calls that do not wait for locks.
//! - `waiters`: the tasks of one event loop that wait for keys, all at one seat (a futex slot in
//!   the store).
//! - `wire`: sends a remote client's calls from Python to the socket and receives the replies.

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

/// Run the undercroft command and return its exit status.
///
/// The first word is the program's name.
#[pyfunction]
fn command(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| undercroft_cli::run(&words))
}

/// The module `undercroft._native`.
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
    module.add("MustSync", py.get_type::<nonblocking::MustSync>())?;
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
