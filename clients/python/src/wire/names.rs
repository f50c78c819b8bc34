//! The objects that this module uses from the package's Python code.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

fn found<'py>(
    py: Python<'py>,
    slot: &'static PyOnceLock<Py<PyAny>>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let object = slot.get_or_try_init(py, || {
        let object = py.import(module)?.getattr(name)?;
        Ok::<_, PyErr>(object.unbind())
    })?;
    Ok(object.bind(py).clone())
}

/// Returns `undercroft.remote.resp.MISSING`.
pub(super) fn missing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MISSING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    found(py, &MISSING, "undercroft.remote.resp", "MISSING")
}

/// Returns a message as an `undercroft.remote.resp.Push`.
pub(super) fn push<'py>(items: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
    static PUSH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    found(items.py(), &PUSH, "undercroft.remote.resp", "Push")?.call1((items,))
}

/// Returns `undercroft.remote.replies.observability`.
pub(super) fn observability(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static OBSERVABILITY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    found(
        py,
        &OBSERVABILITY,
        "undercroft.remote.replies",
        "observability",
    )
}
