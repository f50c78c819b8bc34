//! The native half of the Python package `undercroft`: the class that
//! `undercroft.Redis` is built on.
//!
//! Its hot methods (`hot`) work on the store directly; every other command
//! goes through the one command table, and its reply becomes Python objects at
//! once (`reply`). Both leave what is unusual to redis-py's own classes.

use pyo3::prelude::*;

mod attached;
mod client;
mod codec;
mod error;
mod execute;
mod held;
mod host;
mod hot;
mod many;
mod method;
mod reply;
mod shared;
mod subscription;

/// `undercroft._native`.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<client::Client>()?;
    module.add_class::<subscription::Subscription>()?;
    hot::install(module.py())
}
