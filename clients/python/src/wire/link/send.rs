//! A command that leaves with the others of its turn.

use std::ptr;

use pyo3::exceptions::PyException;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString, PyTuple, PyType};

use super::{Line, of, parts};
use crate::outside::{self, Arguments, Next, Steps};
use crate::wire::{Wire, pack};

pub(super) fn install<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let doc = c"execute_command($self, /, *args, **options)\n--\n\n\
                Run any command, and give its reply to who awaits it, in the form redis-py gives it.";
    outside::install(class, c"execute_command", doc, execute_command)
}

/// The C function of the method.
unsafe extern "C-unwind" fn execute_command(
    client: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with its arguments, and with the thread attached.
    unsafe {
        outside::run(Sending {
            arguments: Arguments::new(&client, arguments, positional, &names),
            stage: Stage::Asked,
            link: ptr::null_mut(),
            call: ptr::null_mut(),
        })
    }
}

/// What was called last.
#[derive(Clone, Copy)]
enum Stage {
    /// Whether the loop runs.
    Asked,
    /// A call's class.
    Made { is_first: bool },
    /// What has the loop write at the end of the turn.
    Planned,
    /// The method that does what is unusual.
    Left,
}

/// One call of the method.
#[derive(Clone, Copy)]
struct Sending<'a> {
    arguments: Arguments<'a>,
    stage: Stage,
    /// The client's link, and the call that is made: references of their own, or null.
    link: *mut ffi::PyObject,
    call: *mut ffi::PyObject,
}

impl<'a, 'py: 'a> Steps<'py> for Sending<'a> {
    fn begin(&mut self, py: Python<'py>) -> PyResult<Next> {
        let Some(link) = self.usual(py)? else {
            return self.leave(py);
        };
        let (is_waking, of_loop) = (link.borrow().waking, of(&link, |line| &line.event_loop));
        self.link = link.into_ptr();
        // Whoever wakes others is called by the loop.
        if is_waking {
            return self.make(py);
        }
        self.stage = Stage::Asked;
        let runs = of_loop.getattr(intern!(py, "is_running"))?;
        Ok(Next::call(runs, PyTuple::empty(py), None))
    }

    fn resume(&mut self, py: Python<'py>, came: PyResult<Bound<'py, PyAny>>) -> PyResult<Next> {
        let came = came?;
        match self.stage {
            Stage::Asked if came.is_truthy()? => self.make(py),
            Stage::Asked => self.leave(py),
            Stage::Made { is_first } => {
                self.call = came.into_ptr();
                if is_first {
                    self.plan(py)
                } else {
                    self.send(py)
                }
            }
            Stage::Planned => {
                self.line(py).borrow_mut().unsent = true;
                self.send(py)
            }
            Stage::Left => Ok(Next::done(came)),
        }
    }

    fn release(&mut self, py: Python<'py>) {
        for held in [&mut self.link, &mut self.call] {
            let held = std::mem::replace(held, ptr::null_mut());
            // SAFETY: a reference of its own, which nobody uses any more.
            drop(unsafe { Bound::from_owned_ptr_or_opt(py, held) });
        }
    }
}

impl<'a> Sending<'a> {
    /// The link, if it can take this command.
    fn usual<'py: 'a>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, Line>>> {
        let client = self.arguments.receiver(py);
        let Ok(link) = client.getattr(intern!(py, "_link"))?.cast_into::<Line>() else {
            return Ok(None);
        };
        let Some(Ok(name)) = self.arguments.first(py).map(Bound::cast_exact::<PyString>) else {
            return Ok(None);
        };
        // From a command's second call on it is known that it needs no connection of its own.
        let alone = client.getattr(intern!(py, "_alone"))?;
        let alone = match alone.cast::<PyDict>() {
            Ok(alone) => alone.get_item(name)?,
            Err(_) => None,
        };
        if !alone.is_some_and(|alone| alone.is(PyBool::new(py, false))) {
            return Ok(None);
        }
        let measured = parts(py).measured.bind(py);
        let is_measured = !measured
            .getattr(intern!(py, "_provider_manager"))?
            .is_none();
        let is_open = link.borrow().is_open(py)?;
        Ok((is_open && !is_measured).then_some(link))
    }

    fn line<'py: 'a>(&self, py: Python<'py>) -> &Bound<'py, Line> {
        // SAFETY: it is a link, of which this has a reference.
        unsafe { Bound::ref_from_ptr(py, &self.link).cast_unchecked() }
    }

    /// Makes a call, which is the turn's first if nobody is to write yet.
    fn make<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        let link = self.line(py);
        let of_loop = of(link, |line| &line.of_loop);
        let line = link.borrow();
        let is_first = !line.unsent && !line.waking;
        drop(line);
        self.stage = Stage::Made { is_first };
        let parts = parts(py);
        let class = if is_first { &parts.first } else { &parts.call };
        let class = class.bind(py).clone().into_any();
        Ok(Next::call(class, PyTuple::empty(py), Some(of_loop)))
    }

    /// Has the loop write behind whatever else it runs in this turn.
    fn plan<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        let link = self.line(py);
        // SAFETY: this has a reference of its own.
        let call = unsafe { Bound::ref_from_ptr(py, &self.call) };
        call.setattr(intern!(py, "link"), link)?;
        let flush = link.getattr(intern!(py, "_flush"))?;
        let soon = of(link, |line| &line.event_loop).getattr(intern!(py, "call_soon"))?;
        self.stage = Stage::Planned;
        Ok(Next::call(soon, (flush,).into_pyobject(py)?, None))
    }

    /// Puts the command behind those that leave next, and the call behind those who wait.
    fn send<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        // SAFETY: this has a reference of its own.
        let call = unsafe { Bound::from_borrowed_ptr(py, self.call) };
        let options = match self.says_nothing(py)? {
            true => parts(py).no_options.bind(py).clone(),
            false => self.arguments.options(py)?,
        };
        let args = PyTuple::new(py, self.arguments.positional(py))?;
        let request = (self.arguments.receiver(py), &args, options);
        call.setattr(intern!(py, "request"), request)?;
        call.setattr(intern!(py, "waiter"), py.None().into_bound(py))?;
        let link = self.line(py);
        let packer = of(link, |line| &line.packer);
        let append = of(link, |line| &line.append);
        // A handler of a signal may have closed it meanwhile.
        if link.borrow().failure.is_some() {
            return self.leave(py);
        }
        let put = Wire::put(&packer, &append, &call, |codec, out| {
            pack::command(codec, args.iter_borrowed(), out)
        });
        match put {
            Ok(()) => {}
            // Who awaits it is to be told.
            Err(error) if error.is_instance_of::<PyException>(py) => return self.leave(py),
            Err(error) => return Err(error),
        }
        let mut line = link.borrow_mut();
        line.unsent |= line.waking;
        drop(line);
        self.release(py);
        Ok(Next::done(call))
    }

    /// Whether no option is about the reply. That which names a command's keys is for clusters.
    fn says_nothing<'py: 'a>(&self, py: Python<'py>) -> PyResult<bool> {
        let keys = intern!(py, "keys");
        for name in self.arguments.names(py) {
            if !name.is(keys) && name.cast::<PyString>()?.to_cow()? != "keys" {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Leaves it to Python, with nothing done.
    fn leave<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        self.release(py);
        self.stage = Stage::Left;
        self.arguments.call(py, &parts(py).execute_command)
    }
}
