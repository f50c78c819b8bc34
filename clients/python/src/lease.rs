//! Native code for the `cache` decorator: leases in a local store, and the header of cached values.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use undercroft_engine::leases::{Cached, LEASE_SCRIPT, Lease, Leased};
use undercroft_engine::{Error, Expiry, Store};

use crate::client::Client;
use crate::error;

/// A cached value without its header, and whether it is due for recomputation.
type Found<'py> = (Bound<'py, PyBytes>, bool);

/// Makes a call on the client's database, raising errors as the client's methods do. If the store's
/// file was removed, the call uses the store that now has the client's store name.
fn ask<R>(
    py: Python<'_>,
    client: &Client,
    mut call: impl FnMut(&Store, usize) -> Result<R, Error>,
) -> PyResult<R> {
    client.again(py, || {
        let shared = client.enter(py)?;
        let done = call(&shared.store, client.database(py));
        done.map_err(|error| error::raise(py, client.codec.raises, &shared.store, error))
    })
}

/// Return a key's cached value and whether it is due for recomputation, or None if no value exists.
#[pyfunction]
pub(crate) fn find_cached<'py>(
    py: Python<'py>,
    client: &Client,
    key: &[u8],
    now: u64,
    haste: f64,
) -> PyResult<Option<Found<'py>>> {
    let mut stored = Vec::new();
    let found = ask(py, client, |store, database| {
        store.get(database, key, &mut stored)
    })?;
    Ok(found.then(|| open_cached(py, &stored, now, haste)))
}

/// Return a stored value without its header, and whether it is due at `now` in Unix milliseconds.
#[pyfunction]
pub(crate) fn open_cached<'py>(py: Python<'py>, stored: &[u8], now: u64, haste: f64) -> Found<'py> {
    let cached = Cached::of(stored);
    let value = PyBytes::new(py, &stored[cached.start..]);
    (value, cached.is_due(now, haste))
}

/// Return the stored form of a cached value that took `took` seconds to compute.
///
/// `due` is the Unix time in milliseconds at which the value is due for recomputation, or 0 if it
/// is never due.
#[pyfunction]
pub(crate) fn close_cached<'py>(
    py: Python<'py>,
    value: &[u8],
    due: u64,
    took: f64,
) -> Bound<'py, PyBytes> {
    let took = Duration::try_from_secs_f64(took).unwrap_or_default();
    PyBytes::new(py, &Cached::stored(value, due, took))
}

/// Return the key under which the lease on another key's value is stored.
#[pyfunction]
pub(crate) fn lease_key<'py>(py: Python<'py>, key: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &undercroft_engine::leases::lease_key(key))
}

/// Return a client's text encoding, its encoding error handler, and whether it decodes replies.
#[pyfunction]
pub(crate) fn decoding(client: &Client) -> (String, String, bool) {
    let text = |it: &std::ffi::CStr| it.to_string_lossy().into_owned();
    let codec = &client.codec;
    (text(&codec.encoding), text(&codec.errors), codec.decode)
}

/// Acquire the lease on a key's value for `term` milliseconds.
///
/// `number` must be unique among leases. Return the lease and the key's current value, or None if
/// another caller holds the lease.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "one flag for each Python argument")]
pub(crate) fn take_lease<'py>(
    py: Python<'py>,
    client: &Client,
    key: &[u8],
    term: u64,
    number: u64,
) -> PyResult<Option<(Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>)>> {
    let term = Duration::from_millis(term);
    let leased = ask(py, client, |store, database| {
        store.take_lease(database, key, term, number)
    })?;
    Ok(match leased {
        Leased::Held => None,
        Leased::Taken(lease, value) => Some((
            PyBytes::new(py, lease.as_bytes()),
            value.map(|value| PyBytes::new(py, &value)),
        )),
    })
}

/// Release a lease and store a value, if given, that expires after `expires` milliseconds.
///
/// If `expires` is 0, the value never expires. Return whether the lease was still valid. If the
/// lease has expired, nothing is stored.
#[pyfunction]
#[pyo3(signature = (client, key, lease, value=None, expires=0))]
pub(crate) fn end_lease(
    py: Python<'_>,
    client: &Client,
    key: &[u8],
    lease: &[u8],
    value: Option<&[u8]>,
    expires: u64,
) -> PyResult<bool> {
    let lease = Lease::from_bytes(lease);
    // A lease is not valid in another store. Nothing is stored there, but the caller still has the
    // computed value.
    ask(py, client, |store, database| {
        let Some(value) = value else {
            return store.release_lease(database, key, &lease);
        };
        let expiry = match expires {
            0 => Expiry::Never,
            after => Expiry::At(store.now().saturating_add(after).min(i64::MAX as u64)),
        };
        store.set_leased(database, key, value, expiry, &lease)
    })
}

/// Wait until the lease on a key's value is free, for at most `seconds` seconds.
#[pyfunction]
pub(crate) fn wait_for_lease(
    py: Python<'_>,
    client: &Client,
    key: &[u8],
    seconds: f64,
) -> PyResult<()> {
    let most = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    ask(py, client, |store, database| {
        store.wait_for_lease(database, key, most)
    })
}

/// Adds the functions for leases and cached values to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LEASE_SCRIPT", LEASE_SCRIPT)?;
    module.add_function(wrap_pyfunction!(find_cached, module)?)?;
    module.add_function(wrap_pyfunction!(open_cached, module)?)?;
    module.add_function(wrap_pyfunction!(close_cached, module)?)?;
    module.add_function(wrap_pyfunction!(decoding, module)?)?;
    module.add_function(wrap_pyfunction!(lease_key, module)?)?;
    module.add_function(wrap_pyfunction!(take_lease, module)?)?;
    module.add_function(wrap_pyfunction!(end_lease, module)?)?;
    module.add_function(wrap_pyfunction!(wait_for_lease, module)?)
}
