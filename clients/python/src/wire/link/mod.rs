//! The asyncio client's hot path: from a command to the connection's next write, and from what
//! came to whoever waits for it.
//!
//! The classes are Python's (`undercroft.asyncio`), and do without these steps what is unusual.
//! What both halves look at is kept in [`Line`].
//!
//! - `receive`: what came, given to the calls that wait for it in order, and whoever waits for
//!   those called.
//! - `send`: a command that leaves with the others of its turn.
//! - `wait`: how a call learns who waits for it.

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::Wire;

mod receive;
mod send;
mod wait;

/// What this uses of the Python half of the package.
struct Parts {
    /// What the classes had in the place of the native methods.
    execute_command: Py<PyAny>,
    data_received: Py<PyAny>,
    add_done_callback: Py<PyAny>,
    /// What a command's reply is given to; the same for a turn's first; several of them.
    call: Py<PyType>,
    first: Py<PyType>,
    batch: Py<PyType>,
    /// Tells who counts and times commands.
    measured: Py<PyAny>,
    /// `asyncio.Future.set_result`, which does not call who is kept apart as a call's `waiter`.
    settle: Py<PyAny>,
    /// Tells which task a loop runs.
    current: Py<PyAny>,
    task: Py<PyType>,
    /// The type of native functions.
    builtin: Py<PyType>,
    getattr: Py<PyAny>,
    copy_context: Py<PyAny>,
    monotonic: Py<PyAny>,
    /// What a future raises that has a result.
    invalid_state: Py<PyAny>,
    /// Options of which none says anything of the reply.
    no_options: Py<PyDict>,
}

static PARTS: PyOnceLock<Parts> = PyOnceLock::new();

fn parts(py: Python<'_>) -> &'static Parts {
    let Some(parts) = PARTS.get(py) else {
        unreachable!("the methods are there once their parts are");
    };
    parts
}

/// The state of a connection that many tasks use at once. `undercroft.asyncio.link.Link` adds
/// to it whatever is not looked at in every call.
#[pyclass(subclass, module = "undercroft._native")]
pub(crate) struct Line {
    #[pyo3(get, set, name = "loop")]
    event_loop: Option<Py<PyAny>>,
    /// The arguments that make a future of it.
    #[pyo3(get, set, name = "_of_loop")]
    of_loop: Option<Py<PyDict>>,
    /// Why the connection can be used no more.
    #[pyo3(get, set)]
    failure: Option<Py<PyAny>>,
    /// Those who wait until the peer takes what is sent.
    #[pyo3(get, set, name = "_waiting")]
    waiting: Option<Py<PyAny>>,
    /// After how many seconds of silence the peer is asked whether it is there, or zero.
    #[pyo3(get, set, name = "_interval")]
    interval: f64,
    #[pyo3(get, set, name = "_due")]
    due: f64,
    #[pyo3(get, set, name = "_packer")]
    packer: Option<Py<Wire>>,
    #[pyo3(get, set, name = "_replies")]
    replies: Option<Py<Wire>>,
    /// A deque of calls and batches, in order.
    #[pyo3(get, set, name = "_pending")]
    pending: Option<Py<PyAny>>,
    #[pyo3(get, set, name = "_append")]
    append: Option<Py<PyAny>>,
    #[pyo3(get, set, name = "_popleft")]
    popleft: Option<Py<PyAny>>,
    /// Why the reply to the first of them is not decoded.
    #[pyo3(get, set, name = "_undecodable")]
    undecodable: Option<Py<PyAny>>,
    /// A list of calls with replies, for which somebody waits.
    #[pyo3(get, set, name = "_woken")]
    woken: Option<Py<PyAny>>,
    /// Whether those are being woken.
    #[pyo3(get, set, name = "_waking")]
    waking: bool,
    /// Whether commands wait to be written.
    #[pyo3(get, set, name = "_unsent")]
    unsent: bool,
    /// What the loop has still to run in this turn, if that can be seen.
    #[pyo3(get, set, name = "_ready")]
    ready: Option<Py<PyAny>>,
    #[pyo3(get, set, name = "_transport")]
    transport: Option<Py<PyAny>>,
    /// Seconds after which a silent peer is given up, and what looks after that.
    #[pyo3(get, set, name = "_timeout")]
    timeout: Option<Py<PyAny>>,
    #[pyo3(get, set, name = "_watch")]
    watch: Option<Py<PyAny>>,
    /// A future that has a result.
    #[pyo3(get, set, name = "_plain")]
    plain: Option<Py<PyAny>>,
    /// Whether a task may run the loop, as `nest_asyncio` makes it possible.
    #[pyo3(get, set, name = "_nests")]
    nests: bool,
    thread: std::thread::ThreadId,
}

#[pymethods]
impl Line {
    /// The arguments are a link's.
    #[new]
    #[pyo3(signature = (*_arguments))]
    fn new(_arguments: &Bound<'_, PyTuple>) -> Line {
        Line {
            event_loop: None,
            of_loop: None,
            failure: None,
            waiting: None,
            interval: 0.0,
            due: 0.0,
            packer: None,
            replies: None,
            pending: None,
            append: None,
            popleft: None,
            undecodable: None,
            woken: None,
            waking: false,
            unsent: false,
            ready: None,
            transport: None,
            timeout: None,
            watch: None,
            plain: None,
            nests: false,
            thread: std::thread::current().id(),
        }
    }

    /// Gives three classes native methods, which leave to those that they had what is unusual:
    /// a link's `data_received`, a client's `execute_command`, a call's `add_done_callback`.
    ///
    /// `first` is the class of a turn's first call, `batch` that of several calls; `measured`
    /// has a `_provider_manager` while calls are measured; `current` tells which task a loop
    /// runs.
    #[staticmethod]
    fn shorten(
        link: &Bound<'_, PyType>,
        client: &Bound<'_, PyType>,
        calls: (Bound<'_, PyType>, Bound<'_, PyType>, Bound<'_, PyType>),
        measured: &Bound<'_, PyAny>,
        current: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = link.py();
        if PARTS.get(py).is_some() {
            return Ok(());
        }
        let (call, first, batch) = calls;
        let asyncio = py.import("asyncio")?;
        let builtins = py.import("builtins")?;
        let parts = Parts {
            execute_command: send::install(client)?.unbind(),
            data_received: receive::install(link)?.unbind(),
            add_done_callback: wait::install(&call)?.unbind(),
            call: call.unbind(),
            first: first.unbind(),
            batch: batch.unbind(),
            measured: measured.clone().unbind(),
            settle: asyncio.getattr("Future")?.getattr("set_result")?.unbind(),
            current: current.clone().unbind(),
            task: asyncio.getattr("Task")?.cast_into()?.unbind(),
            builtin: builtins.getattr("len")?.get_type().unbind(),
            getattr: builtins.getattr("getattr")?.unbind(),
            copy_context: py.import("contextvars")?.getattr("copy_context")?.unbind(),
            monotonic: py.import("time")?.getattr("monotonic")?.unbind(),
            invalid_state: asyncio.getattr("InvalidStateError")?.unbind(),
            no_options: PyDict::new(py).unbind(),
        };
        // The interpreter's lock is held since the look above.
        let _ = PARTS.set(py, parts);
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        visit.call(&self.of_loop)?;
        visit.call(&self.failure)?;
        visit.call(&self.waiting)?;
        visit.call(&self.packer)?;
        visit.call(&self.replies)?;
        visit.call(&self.pending)?;
        visit.call(&self.append)?;
        visit.call(&self.popleft)?;
        visit.call(&self.undecodable)?;
        visit.call(&self.woken)?;
        visit.call(&self.ready)?;
        visit.call(&self.transport)?;
        visit.call(&self.timeout)?;
        visit.call(&self.watch)?;
        visit.call(&self.plain)
    }

    fn __clear__(&mut self) {
        self.failure = None;
        self.waiting = None;
        self.pending = None;
        self.append = None;
        self.popleft = None;
        self.undecodable = None;
        self.woken = None;
        self.transport = None;
        self.watch = None;
        self.plain = None;
        self.event_loop = None;
        self.of_loop = None;
        self.ready = None;
    }
}

impl Line {
    /// Whether a command may be sent now, if the loop runs.
    fn is_open(&self, py: Python<'_>) -> PyResult<bool> {
        let is_usable = self.failure.is_none()
            && self.waiting.is_none()
            && std::thread::current().id() == self.thread;
        Ok(is_usable && (self.interval == 0.0 || now(py)? < self.due))
    }
}

/// `time.monotonic()`, in seconds.
fn now(py: Python<'_>) -> PyResult<f64> {
    parts(py).monotonic.bind(py).call0()?.extract()
}

/// What a link has since it was made. It is looked at for no longer than that takes: whatever
/// makes an object may have the interpreter look for garbage, whose finalizers may use the link.
fn of<'py, T>(link: &Bound<'py, Line>, part: impl Fn(&Line) -> &Option<Py<T>>) -> Bound<'py, T> {
    let Some(part) = part(&link.borrow())
        .as_ref()
        .map(|part| part.bind(link.py()).clone())
    else {
        unreachable!("a link that is used has been made");
    };
    part
}
