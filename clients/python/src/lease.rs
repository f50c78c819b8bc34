//! What the decorator `cache` is made of: leases of a store in this process, and what stands in front of cached values.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use undercroft_engine::leases::{Cached, LEASE_SCRIPT, Lease, Leased};
use undercroft_engine::{Error, Expiry, Store};

use crate::client::Client;
use crate::error;

/// A value without what stands in front of it, and whether it is due to be made anew.
type Found<'py> = (Bound<'py, PyBytes>, bool);

/// Makes a call on the client's database, and raises its error as a method of the client does. If the store's file was
/// removed, the call is made in the store that the name means now.
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

/// Return what a key holds, and whether it is due.
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

/// Return the value in what is stored, and whether it is due at a time, Unix milliseconds.
#[pyfunction]
pub(crate) fn open_cached<'py>(py: Python<'py>, stored: &[u8], now: u64, haste: f64) -> Found<'py> {
    let cached = Cached::of(stored);
    let value = PyBytes::new(py, &stored[cached.start..]);
    (value, cached.is_due(now, haste))
}

/// Return what is stored for a value that is due at a time, or never (0), and took so many seconds to make.
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

/// Return the key of the lease of a key's value.
#[pyfunction]
pub(crate) fn lease_key<'py>(py: Python<'py>, key: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &undercroft_engine::leases::lease_key(key))
}

/// Return how a client encodes text, what it does with errors, and whether it decodes.
#[pyfunction]
pub(crate) fn decoding(client: &Client) -> (String, String, bool) {
    let text = |it: &std::ffi::CStr| it.to_string_lossy().into_owned();
    let codec = &client.codec;
    (text(&codec.encoding), text(&codec.errors), codec.decode)
}

/// Take the lease of a key's value for so many milliseconds, by a number that no other has. Return it and what the key
/// holds; None where somebody else has it.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a pair of Python's")]
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

/// Give a lease back, with a value that expires after so many milliseconds, or does not (0). Return whether it was not
/// over; otherwise nothing is stored.
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
    // In another store the lease is over, and the caller has what it computed.
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

/// Wait until the lease of a key's value may be had, for so many seconds at most.
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

/// Adds all that to the module.
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
