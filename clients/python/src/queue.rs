//! What `undercroft.pipeline.Pipeline` is built on: the commands that wait to be run together.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::attached::Attached;

/// Commands that wait. The methods that queue most of them are `rows`.
#[pyclass(frozen, subclass, module = "undercroft._native")]
pub(crate) struct Queue {
    /// Each a tuple of a command's words and of what is said about its reply.
    stack: Attached<Py<PyList>>,
    /// Keys are watched: commands are run at once, up to MULTI.
    watching: AtomicBool,
    /// There was a MULTI.
    explicit: AtomicBool,
}

impl Queue {
    /// Whether a command is not to be queued.
    pub(crate) fn runs_at_once(&self) -> bool {
        self.watching.load(Ordering::Relaxed) && !self.explicit.load(Ordering::Relaxed)
    }

    /// Adds a command.
    pub(crate) fn add(&self, py: Python<'_>, command: &Bound<'_, PyTuple>) -> PyResult<()> {
        let stack = self.stack.with(py, |stack| stack.clone_ref(py));
        stack.bind(py).append(command)
    }
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (*_args, **_options))]
    fn new(
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _options: Option<&Bound<'_, PyDict>>,
    ) -> Queue {
        Queue {
            stack: Attached::new(PyList::empty(py).unbind()),
            watching: AtomicBool::new(false),
            explicit: AtomicBool::new(false),
        }
    }

    /// The commands that wait.
    #[getter]
    fn get_command_stack<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        self.stack
            .with(py, |stack| stack.clone_ref(py))
            .into_bound(py)
    }

    #[setter]
    fn set_command_stack(&self, py: Python<'_>, stack: Py<PyList>) {
        let replaced = self.stack.with(py, |old| std::mem::replace(old, stack));
        drop(replaced);
    }

    /// Whether keys are watched.
    #[getter]
    fn get_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_watching(&self, watching: bool) {
        self.watching.store(watching, Ordering::Relaxed);
    }

    /// Whether there was a MULTI.
    #[getter]
    fn get_explicit_transaction(&self) -> bool {
        self.explicit.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_explicit_transaction(&self, explicit: bool) {
        self.explicit.store(explicit, Ordering::Relaxed);
    }
}
