//! The native half of the Python package `undercroft`: the class that
//! `undercroft.EmbeddedRedis` is built on, and the codec of remote clients.
//!
//! Its hot methods (`hot`) work on the store directly; every other command
//! goes through the one command table, and its reply becomes Python objects at
//! once (`reply`). Both leave what is unusual to redis-py's own classes. Remote
//! clients speak with their servers through `wire`. The undercroft command is in it,
//! too, so that a wheel brings it.

use std::ffi::OsString;

use pyo3::prelude::*;

mod attached;
mod busy;
mod client;
mod codec;
mod error;
mod execute;
mod held;
mod hot;
mod many;
mod method;
mod opening;
mod outside;
#[cfg(feature = "races")]
mod race;
mod reply;
mod subscription;
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
    module.add_class::<waiters::Waiters>()?;
    module.add_class::<waiters::Wait>()?;
    module.add_class::<wire::Wire>()?;
    module.add_class::<wire::Line>()?;
    module.add_function(wrap_pyfunction!(command, module)?)?;
    busy::watch_forks(module)?;
    hot::install(module.py())
}
