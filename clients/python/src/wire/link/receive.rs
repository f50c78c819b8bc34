//! What came, given to the calls that wait for it in order, and whoever waits for those called.

use std::ptr;

use pyo3::exceptions::{PyException, PyUnicodeDecodeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple, PyType};

use super::{Line, Parts, now, of, parts};
use crate::outside::{self, Arguments, Next, Steps};
use crate::wire::Wire;
use crate::wire::many::is_shaped;

pub(super) fn install<'py>(class: &Bound<'py, PyType>) -> PyResult<Bound<'py, PyAny>> {
    let doc = c"data_received($self, data, /)\n--\n\n\
                Give replies to those who wait for them.";
    outside::install(class, c"data_received", doc, data_received)
}

/// The C function of the method.
unsafe extern "C-unwind" fn data_received(
    link: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    positional: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls this with its arguments, and with the thread attached.
    unsafe {
        outside::run(Receiving {
            arguments: Arguments::new(&link, arguments, positional, &names),
            stage: Stage::Left,
            call: ptr::null_mut(),
            woken: ptr::null_mut(),
            place: 0,
            raised: ptr::null_mut(),
            is_first: false,
        })
    }
}

/// What was called last.
#[derive(Clone, Copy)]
enum Stage {
    /// The method that does everything.
    Left,
    /// What gives a call its result; whether somebody waits for it.
    Settled { is_waited_for: bool },
    /// What makes something else of a reply.
    Finished,
    /// What fails the call for which that was interrupted.
    Failed,
    /// What takes the next reply, whatever it is.
    Taken,
    /// What fails the connection.
    Broken,
    /// Whether the loop is one in which tasks run others.
    Nests,
    /// Which task runs.
    Current,
    /// Somebody who waits.
    Woken,
    /// What reports that he raised an error.
    Reported,
    /// What leaves all of them to the loop.
    Delayed,
    /// What has commands written, now or later.
    Planned,
    /// What writes them.
    Written,
}

/// One call of the method. The pointers are references of its own, or null.
#[derive(Clone, Copy)]
struct Receiving<'a> {
    arguments: Arguments<'a>,
    stage: Stage,
    /// The call that is given its result.
    call: *mut ffi::PyObject,
    /// The list of calls whose waiters are called, and how many of them have been.
    woken: *mut ffi::PyObject,
    place: usize,
    /// What is raised in the end.
    raised: *mut ffi::PyObject,
    /// Whether nothing waited to be written before they were.
    is_first: bool,
}

impl<'a, 'py: 'a> Steps<'py> for Receiving<'a> {
    fn begin(&mut self, py: Python<'py>) -> PyResult<Next> {
        let Some(data) = self.arguments.first(py) else {
            return self.arguments.call(py, &parts(py).data_received);
        };
        let link = self.link(py);
        let interval = link.borrow().interval;
        if interval != 0.0 {
            let due = now(py)? + interval;
            link.borrow_mut().due = due;
        }
        let fed = of(link, |line| &line.replies).borrow_mut().feed(data);
        match fed {
            Ok(()) => self.answer(py),
            Err(error) => self.broken(py, error),
        }
    }

    fn resume(&mut self, py: Python<'py>, came: PyResult<Bound<'py, PyAny>>) -> PyResult<Next> {
        if let Stage::Left = self.stage {
            return came.map(Next::done);
        }
        match self.go_on(py, came) {
            Ok(next) => Ok(next),
            Err(error) => {
                self.keep(py, error);
                self.delay(py)
            }
        }
    }

    fn release(&mut self, py: Python<'py>) {
        drop([&mut self.call, &mut self.woken, &mut self.raised].map(|held| taken(py, held)));
        if let Ok(mut line) = self.link(py).try_borrow_mut() {
            line.waking = false;
        }
    }
}

impl<'a> Receiving<'a> {
    fn go_on<'py: 'a>(
        &mut self,
        py: Python<'py>,
        came: PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Next> {
        match self.stage {
            Stage::Left => came.map(Next::done),
            Stage::Settled { is_waited_for } => {
                let call = taken(py, &mut self.call);
                match came {
                    Ok(_) if is_waited_for => {
                        let woken = of(self.link(py), |line| &line.woken);
                        woken.cast::<PyList>()?.append(call)?;
                    }
                    Ok(_) => {}
                    // A finalizer that ran in between has cancelled it.
                    Err(error) if error.is_instance(py, parts(py).invalid_state.bind(py)) => {}
                    Err(error) => self.keep(py, error),
                }
                self.answer(py)
            }
            Stage::Finished => match came {
                Ok(_) => {
                    drop(taken(py, &mut self.call));
                    self.answer(py)
                }
                Err(error) => {
                    self.keep(py, error);
                    self.fail_call(py)
                }
            },
            Stage::Failed => {
                if let Err(error) = came {
                    self.keep(py, error);
                }
                self.answer(py)
            }
            Stage::Taken => match came {
                Ok(is_whole) if !is_whole.is_truthy()? => self.wake(py),
                Ok(_) => self.answer(py),
                Err(error) => {
                    self.keep(py, error);
                    self.answer(py)
                }
            },
            Stage::Broken => {
                if let Err(error) = came {
                    self.keep(py, error);
                }
                self.wake(py)
            }
            Stage::Nests => match came?.is_truthy()? {
                true => self.delay(py),
                false => self.look_for_task(py),
            },
            Stage::Current => match came?.is_none() {
                true => {
                    let mut line = self.link(py).borrow_mut();
                    line.waking = true;
                    self.is_first = !line.unsent;
                    drop(line);
                    self.wake_next(py)
                }
                false => self.delay(py),
            },
            Stage::Woken => match came {
                Ok(_) => self.wake_next(py),
                Err(error) => self.report(py, error),
            },
            Stage::Reported => {
                if let Err(error) = came {
                    self.keep(py, error);
                }
                self.wake_next(py)
            }
            Stage::Delayed | Stage::Planned => {
                if let Err(error) = came {
                    self.keep(py, error);
                }
                self.end(py)
            }
            Stage::Written => match came {
                Ok(_) => self.end(py),
                Err(error) => {
                    let args = (error.value(py),).into_pyobject(py)?;
                    if !error.is_instance_of::<PyException>(py) {
                        self.keep(py, error);
                    }
                    self.method(py, Stage::Planned, intern!(py, "_unwritten"), args)
                }
            },
        }
    }

    fn link<'py: 'a>(&self, py: Python<'py>) -> &'a Bound<'py, Line> {
        // SAFETY: the method is that of a link.
        unsafe { self.arguments.receiver(py).cast_unchecked() }
    }

    /// A call of one of the link's methods.
    fn method<'py: 'a>(
        &mut self,
        py: Python<'py>,
        stage: Stage,
        name: &Bound<'py, PyString>,
        args: Bound<'py, PyTuple>,
    ) -> PyResult<Next> {
        self.stage = stage;
        let method = self.link(py).getattr(name)?;
        Ok(Next::call(method, args, None))
    }

    /// Gives the next call its reply, as long as there is nothing special.
    fn answer<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        match next(self.link(py), parts(py)) {
            Ok(Answer::Result(call, result, is_waited_for)) => {
                self.stage = Stage::Settled { is_waited_for };
                let args = (&call, result).into_pyobject(py)?;
                self.call = call.into_ptr();
                Ok(Next::call(parts(py).settle.bind(py).clone(), args, None))
            }
            Ok(Answer::Reply(call, reply)) => {
                let args = (&call, reply).into_pyobject(py)?;
                self.call = call.into_ptr();
                self.method(py, Stage::Finished, intern!(py, "_finish"), args)
            }
            Ok(Answer::Special) => {
                let args = PyTuple::empty(py);
                self.method(py, Stage::Taken, intern!(py, "_next"), args)
            }
            Ok(Answer::None) => self.wake(py),
            Err(error) => self.broken(py, error),
        }
    }

    /// Gives a call whose reply is lost what was raised instead, unless it has it.
    #[cold]
    fn fail_call<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        let call = taken(py, &mut self.call);
        // SAFETY: this has a reference of its own, or it is null.
        let raised = unsafe { Bound::from_borrowed_ptr_or_opt(py, self.raised) };
        let (Some(call), Some(raised)) = (call, raised) else {
            return self.answer(py);
        };
        if call.call_method0(intern!(py, "done"))?.is_truthy()? {
            return self.answer(py);
        }
        self.stage = Stage::Failed;
        let fail = call.getattr(intern!(py, "set_exception"))?;
        Ok(Next::call(fail, (raised,).into_pyobject(py)?, None))
    }

    /// Fails the connection over which this came.
    #[cold]
    fn broken<'py: 'a>(&mut self, py: Python<'py>, error: PyErr) -> PyResult<Next> {
        let args = (error.into_value(py),).into_pyobject(py)?;
        self.method(py, Stage::Broken, intern!(py, "fail"), args)
    }

    /// Calls those who wait for what has come, unless a task runs, in which no other may.
    fn wake<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        let link = self.link(py);
        if of(link, |line| &line.woken).len()? == 0 {
            return self.end(py);
        }
        let others = PyList::empty(py).into_any().unbind();
        let woken = link.borrow_mut().woken.replace(others);
        self.woken = woken.map_or(ptr::null_mut(), Py::into_ptr);
        if !link.borrow().nests {
            return self.look_for_task(py);
        }
        let of_loop = of(link, |line| &line.event_loop);
        self.stage = Stage::Nests;
        let args = (of_loop, intern!(py, "_nest_patched"), false).into_pyobject(py)?;
        Ok(Next::call(parts(py).getattr.bind(py).clone(), args, None))
    }

    fn look_for_task<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        self.stage = Stage::Current;
        let of_loop = of(self.link(py), |line| &line.event_loop);
        let args = (of_loop,).into_pyobject(py)?;
        Ok(Next::call(parts(py).current.bind(py).clone(), args, None))
    }

    fn wake_next<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        // SAFETY: a list, of which this has a reference of its own.
        let woken = unsafe { Bound::ref_from_ptr(py, &self.woken).cast_unchecked::<PyList>() };
        while self.place < woken.len() {
            let call = woken.get_item(self.place)?;
            self.place += 1;
            let known = intern!(py, "waiter");
            let Ok(kept) = call.getattr(known)?.cast_into_exact::<PyTuple>() else {
                continue;
            };
            call.setattr(known, PyBool::new(py, false))?;
            let waiter = kept.get_item(0)?;
            let run = match kept.get_borrowed_item(1)?.getattr(intern!(py, "run")) {
                Ok(run) => run,
                Err(error) => return self.report(py, error),
            };
            // A task finds out in far less time from a plain future than from another that it
            // may go on; its result it has from the call in either case.
            let told = match is_task(&waiter, parts(py)) {
                true => of(self.link(py), |line| &line.plain),
                false => call,
            };
            self.stage = Stage::Woken;
            return Ok(Next::call(run, (waiter, told).into_pyobject(py)?, None));
        }
        self.link(py).borrow_mut().waking = false;
        self.write(py)
    }

    /// Lets the loop know what somebody who waited has raised.
    #[cold]
    fn report<'py: 'a>(&mut self, py: Python<'py>, error: PyErr) -> PyResult<Next> {
        let args = (error.into_value(py),).into_pyobject(py)?;
        self.method(py, Stage::Reported, intern!(py, "_report"), args)
    }

    /// Lets the loop call those who wait and have not been called.
    #[cold]
    fn delay<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        self.link(py).borrow_mut().waking = false;
        let woken = taken(py, &mut self.woken);
        let woken = woken.unwrap_or_else(|| PyList::empty(py).into_any());
        let args = (woken,).into_pyobject(py)?;
        self.method(py, Stage::Delayed, intern!(py, "_delay"), args)
    }

    /// Writes what those who were called have sent, unless the loop has more to run in this turn.
    fn write<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        let link = self.link(py);
        if !self.is_first || !link.borrow().unsent {
            return self.end(py);
        }
        let ready = link
            .borrow()
            .ready
            .as_ref()
            .map(|ready| ready.bind(py).clone());
        let is_last = match ready {
            Some(ready) => ready.len()? == 0,
            None => false,
        };
        if !is_last {
            let flush = link.getattr(intern!(py, "_flush"))?;
            let soon = of(link, |line| &line.event_loop).getattr(intern!(py, "call_soon"))?;
            self.stage = Stage::Planned;
            return Ok(Next::call(soon, (flush,).into_pyobject(py)?, None));
        }
        let line = link.borrow();
        let is_usual = line.failure.is_none() && (line.timeout.is_none() || line.watch.is_some());
        drop(line);
        if !is_usual {
            let flush = intern!(py, "_flush");
            return self.method(py, Stage::Planned, flush, PyTuple::empty(py));
        }
        let write = of(link, |line| &line.transport).getattr(intern!(py, "write"))?;
        let packer = of(link, |line| &line.packer);
        // What a finalizer sends from here on has a turn of its own.
        link.borrow_mut().unsent = false;
        let leaving = packer.borrow_mut().gathered(py);
        self.stage = Stage::Written;
        Ok(Next::call(write, (leaving,).into_pyobject(py)?, None))
    }

    fn end<'py: 'a>(&mut self, py: Python<'py>) -> PyResult<Next> {
        drop([&mut self.call, &mut self.woken].map(|held| taken(py, held)));
        Ok(match taken(py, &mut self.raised) {
            Some(error) => Next::failed(py, PyErr::from_value(error)),
            None => Next::done(py.None().into_bound(py)),
        })
    }

    /// Keeps an error to raise in the end.
    #[cold]
    fn keep(&mut self, py: Python<'_>, error: PyErr) {
        if self.raised.is_null() {
            self.raised = error.into_value(py).into_ptr();
        }
    }
}

/// What a pointer of this held, which is null then.
fn taken<'py>(py: Python<'py>, held: &mut *mut ffi::PyObject) -> Option<Bound<'py, PyAny>> {
    let held = std::mem::replace(held, ptr::null_mut());
    // SAFETY: a reference of its own, which nobody uses any more.
    unsafe { Bound::from_owned_ptr_or_opt(py, held) }
}

/// What is at the front of a line.
enum Answer<'py> {
    /// A call with its result, and whether somebody waits for it.
    Result(Bound<'py, PyAny>, Bound<'py, PyAny>, bool),
    /// A call with a reply of which redis-py makes something else.
    Reply(Bound<'py, PyAny>, Bound<'py, PyAny>),
    /// Something that came, and may be no reply, or to no call.
    Special,
    None,
}

/// Takes the first call off a line, if a reply has come for it. Special are an error, a message
/// that nobody asked for, a reply that cannot be decoded or has not come as a whole, and
/// whatever comes while no call is the first.
fn next<'py>(link: &Bound<'py, Line>, parts: &Parts) -> PyResult<Answer<'py>> {
    let py = link.py();
    let calls = of(link, |line| &line.pending);
    let wire = of(link, |line| &line.replies);
    while link.borrow().undecodable.is_none() && !calls.is_empty()? {
        let call = calls.get_item(0)?;
        if call.get_type().is(&parts.batch) {
            break;
        }
        let request = Request::of(&call)?;
        let Some(reply) = next_plain(&wire, request.decode)? else {
            break;
        };
        of(link, |line| &line.popleft).call0()?;
        let known = intern!(py, "waiter");
        let waiter = call.getattr(known)?;
        let is_waited_for = waiter.is_exact_instance_of::<PyTuple>();
        if waiter.is_none() {
            call.setattr(known, PyBool::new(py, false))?;
        // Nobody waits for the reply to a call that was cancelled.
        } else if !is_waited_for && call.call_method0(intern!(py, "done"))?.is_truthy()? {
            continue;
        }
        return Ok(match request.is_result {
            true => Answer::Result(call, reply, is_waited_for),
            false => Answer::Reply(call, reply),
        });
    }
    let is_left = wire.borrow().replies.has_data();
    Ok(if is_left {
        Answer::Special
    } else {
        Answer::None
    })
}

/// The next reply, if it is a usual one.
fn next_plain<'py>(wire: &Bound<'py, Wire>, decode: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = wire.py();
    let Wire { replies, codec, .. } = &mut *wire.borrow_mut();
    if !replies.is_plain() {
        return Ok(None);
    }
    match replies.next(py, codec, decode) {
        Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => Ok(None),
        reply => reply,
    }
}

/// What is to be made of a reply.
struct Request {
    /// It may be decoded.
    decode: bool,
    /// It is the result as it is.
    is_result: bool,
}

impl Request {
    fn of(call: &Bound<'_, PyAny>) -> PyResult<Request> {
        let py = call.py();
        let request = call.getattr(intern!(py, "request"))?;
        let Ok(request) = request.cast::<PyTuple>() else {
            return Ok(Request {
                decode: request.is_truthy()?,
                is_result: true,
            });
        };
        let args = request.get_borrowed_item(1)?;
        let args = args.cast::<PyTuple>()?;
        let name = args.get_borrowed_item(0)?;
        let options = request.get_borrowed_item(2)?;
        let options = options.cast::<PyDict>()?;
        let callbacks = intern!(py, "response_callbacks");
        let callbacks = request.get_borrowed_item(0)?.getattr(callbacks)?;
        Ok(Request {
            decode: options.is_empty() || !options.contains(intern!(py, "NEVER_DECODE"))?,
            is_result: match callbacks.cast::<PyDict>() {
                Ok(callbacks) => !is_shaped(callbacks, &name)?,
                Err(_) => false,
            },
        })
    }
}

/// Whether who waits is a task.
fn is_task(waiter: &Bound<'_, PyAny>, parts: &Parts) -> bool {
    if !waiter.get_type().is(&parts.builtin) {
        return false;
    }
    // SAFETY: it is a native function, which keeps what it is bound to alive.
    unsafe {
        let bound = ffi::PyCFunction_GetSelf(waiter.as_ptr());
        let bound = Bound::from_borrowed_ptr_or_opt(waiter.py(), bound);
        bound.is_some_and(|bound| bound.get_type().is(&parts.task))
    }
}
