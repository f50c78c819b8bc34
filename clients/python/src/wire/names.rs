//! What this module uses of the Python half of the package.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;

fn of_resp<'py>(
    py: Python<'py>,
    slot: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let object = slot.get_or_try_init(py, || {
        let object = py.import("undercroft.resp")?.getattr(name)?;
        Ok::<_, PyErr>(object.unbind())
    })?;
    Ok(object.bind(py).clone())
}

/// `undercroft.resp.MISSING`.
pub(super) fn missing(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static MISSING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    of_resp(py, &MISSING, "MISSING")
}

/// A message as a `undercroft.resp.Push`.
pub(super) fn push<'py>(items: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyAny>> {
    static PUSH: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    of_resp(items.py(), &PUSH, "Push")?.call1((items,))
}
