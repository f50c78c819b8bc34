//! What the asyncio client does for every call: a command is packed and its call put in line, and
//! what came is given to the calls at the head of the line.
//!
//! [`Line`] owns the queue and both buffers, and runs no Python code but what makes an exception
//! of an error: whatever else needs that, it gives to its caller. So a daemon thread that an
//! ending interpreter unwinds has no frame of this on its stack, and a signal's handler finds a
//! command and its call both there or neither.
//! `undercroft.asyncio.multiplexing.line` is the same in Python.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyBaseException, PyOSError, PyRuntimeError, PyUnicodeDecodeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use pyo3::{Borrowed, ffi, intern};

use crate::conversion::codec::Codec;
use crate::error::{ConnectionError, Raises};

use super::pipeline::{is_message, is_shaped};
use super::replies::Replies;
use super::{KEPT, feed, pack, socket};

/// Who a reply is for, and the reply.
type Given<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>);

/// Commands that wait to be written, and calls that wait for the replies in order.
///
/// The interpreter's lock keeps other threads out. What is in the mutexes is in use only where
/// one call comes within another, as a finalizer's: that one is refused.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Line {
    codec: Codec,
    /// `asyncio.Future.set_result`, and what it raises where there is a result.
    settle: Py<PyAny>,
    invalid_state: Py<PyAny>,
    /// `asyncio.Task`.
    task: Py<PyAny>,
    sent: Mutex<Sent>,
    came: Mutex<Came>,
}

#[derive(Default)]
struct Sent {
    /// Commands that leave together.
    gathered: Vec<u8>,
    calls: VecDeque<Waiting>,
    /// The first call's reply has been given to who asked for what comes.
    is_taken: bool,
    is_closed: bool,
    /// The peer's socket, for itself alone: whoever closes a transport does not close this.
    socket: Option<OwnedFd>,
}

struct Came {
    replies: Replies,
    /// Why the reply to the first call is not decoded, against its caller's wish.
    undecodable: Option<PyErr>,
}

/// A call, or several that get their replies together.
struct Waiting {
    call: Py<PyAny>,
    /// Its reply may be decoded.
    decode: bool,
    /// Its reply is its result.
    is_result: bool,
    /// The list of the replies to several calls, and their number.
    replies: Option<(Py<PyList>, usize)>,
}

impl Waiting {
    fn clone_ref(&self, py: Python<'_>) -> Waiting {
        let replies = self.replies.as_ref();
        Waiting {
            call: self.call.clone_ref(py),
            replies: replies.map(|(replies, count)| (replies.clone_ref(py), *count)),
            ..*self
        }
    }
}

#[pymethods]
impl Line {
    /// The arguments are those of a [`Wire`](super::Wire).
    #[new]
    #[pyo3(signature = (error, decode_responses=false, encoding="utf-8", encoding_errors="strict", sets=false))]
    fn new(
        error: Bound<'_, PyAny>,
        decode_responses: bool,
        encoding: &str,
        encoding_errors: &str,
        sets: bool,
    ) -> PyResult<Line> {
        let asyncio = error.py().import("asyncio")?;
        Ok(Line {
            codec: Codec::new(
                encoding,
                encoding_errors,
                decode_responses,
                Raises::RedisPys,
            )?,
            settle: asyncio.getattr("Future")?.getattr("set_result")?.unbind(),
            invalid_state: asyncio.getattr("InvalidStateError")?.unbind(),
            task: asyncio.getattr("Task")?.unbind(),
            sent: Mutex::default(),
            came: Mutex::new(Came {
                replies: Replies::new(error.unbind(), sets),
                undecodable: None,
            }),
        })
    }

    /// Puts a command behind those that leave next, and its call in line; after an error neither.
    /// `callbacks` has the names of commands whose replies are made into something else.
    #[pyo3(signature = (call, args, decode=true, callbacks=None))]
    fn put(
        &self,
        call: Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        decode: bool,
        callbacks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let is_result = match callbacks.map(Bound::cast::<PyDict>) {
            None => true,
            Some(Ok(callbacks)) => {
                let name = args.get_borrowed_item(0)?;
                !is_shaped(callbacks, &name)?
            }
            Some(Err(_)) => false,
        };
        let mut sent = self.open()?;
        pack::command(&self.codec, args.iter_borrowed(), &mut sent.gathered)?;
        sent.calls.push_back(Waiting {
            call: call.unbind(),
            decode,
            is_result,
            replies: None,
        });
        Ok(())
    }

    /// Puts several commands there, all or, after an error, none. Their replies are added to the
    /// batch's `replies`.
    fn put_many(&self, batch: Bound<'_, PyAny>, commands: &Bound<'_, PyList>) -> PyResult<()> {
        let replies = batch.getattr(intern!(batch.py(), "replies"))?;
        let replies = replies.cast_into::<PyList>()?.unbind();
        let mut packed = Vec::new();
        pack::commands(&self.codec, commands, &mut packed)?;
        let mut sent = self.open()?;
        sent.gathered.extend_from_slice(&packed);
        sent.calls.push_back(Waiting {
            call: batch.unbind(),
            decode: true,
            is_result: false,
            replies: Some((replies, commands.len())),
        });
        Ok(())
    }

    /// Lets [`Line::send`] use a socket, given as the number of a descriptor that is open.
    fn attach(&self, descriptor: i32) -> PyResult<()> {
        let invalid = || PyOSError::new_err(format!("no descriptor is open as {descriptor}"));
        if descriptor < 0 {
            return Err(invalid());
        }
        // SAFETY: the number is no less than 0, and is used only to ask the system for another
        // descriptor of the same socket, which it refuses where none is open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let own = borrowed.try_clone_to_owned().map_err(|_| invalid())?;
        self.open()?.socket = Some(own);
        Ok(())
    }

    /// Sends the commands that leave now. Returns what the socket does not take, whatever the
    /// reason; all of them where none is attached.
    fn send<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut sent = used(&self.sent)?;
        let count = match &sent.socket {
            Some(socket) if !sent.gathered.is_empty() => {
                socket::send_now(socket.as_fd(), &sent.gathered)
            }
            _ => 0,
        };
        let left = PyBytes::new(py, &sent.gathered[count..]);
        sent.gathered.clear();
        sent.gathered.shrink_to(KEPT);
        Ok(left)
    }

    /// The commands that leave now.
    fn gathered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut sent = used(&self.sent)?;
        let bytes = PyBytes::new(py, &sent.gathered);
        sent.gathered.clear();
        sent.gathered.shrink_to(KEPT);
        Ok(bytes)
    }

    /// Takes bytes that came, and answers the calls at the head of the line.
    fn receive<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        woken: &Bound<'py, PyList>,
    ) -> PyResult<Option<Given<'py>>> {
        feed(&mut used(&self.came)?.replies, data)?;
        self.answer(data.py(), woken)
    }

    /// Gives calls the replies that have come, as far as these are their results as they are.
    /// Adds to `woken` each for which somebody waits; in the place of one for which a task does,
    /// what the task is to be called with and in which context, as the call has kept it.
    ///
    /// Returns the first that is something else, and the call that it is for, which keeps its
    /// place in line until it is asked for the next; None in a call's place where a message came,
    /// or a reply to nobody.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        woken: &Bound<'py, PyList>,
    ) -> PyResult<Option<Given<'py>>> {
        self.leave(None)?;
        loop {
            let first = used(&self.sent)?.calls.front().map(|it| it.clone_ref(py));
            let decode = first.as_ref().is_none_or(|first| first.decode);
            let Some(mut reply) = self.next(py, decode)? else {
                return Ok(None);
            };
            let Some(first) = first.filter(|_| !is_message(&reply)) else {
                return Ok(Some((None, reply)));
            };
            if let Some((replies, count)) = first.replies {
                let replies = replies.into_bound(py);
                replies.append(reply)?;
                while replies.len() < count {
                    match self.next(py, true)? {
                        None => return Ok(None),
                        Some(reply) if is_message(&reply) => return Ok(Some((None, reply))),
                        Some(reply) => replies.append(reply)?,
                    }
                }
                reply = replies.into_any();
            } else if first.is_result && !reply.is_instance_of::<PyBaseException>() {
                let call = first.call.bind(py);
                if self.settle(call, &reply, woken)? {
                    self.leave(Some(call))?;
                    continue;
                }
            }
            used(&self.sent)?.is_taken = true;
            return Ok(Some((Some(first.call.into_bound(py)), reply)));
        }
    }

    /// The call at the head of the line.
    #[getter]
    fn first(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let sent = used(&self.sent)?;
        Ok(sent.calls.front().map(|first| first.call.clone_ref(py)))
    }

    /// The same, if its reply was given last.
    #[getter]
    fn taken(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let is_taken = used(&self.sent)?.is_taken;
        if is_taken { self.first(py) } else { Ok(None) }
    }

    /// How many bytes of a string that has begun are announced, and have not come.
    #[getter]
    fn missing(&self) -> PyResult<usize> {
        Ok(used(&self.came)?.replies.missing())
    }

    /// The calls in line.
    fn calls(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let sent = used(&self.sent)?;
        Ok(sent.calls.iter().map(|it| it.call.clone_ref(py)).collect())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(used(&self.sent)?.calls.len())
    }

    /// Takes no more commands, and forgets what has not left. Returns the calls in line.
    fn close(&self) -> PyResult<Vec<Py<PyAny>>> {
        let mut sent = used(&self.sent)?;
        let calls = std::mem::take(&mut *sent).calls;
        sent.is_closed = true;
        Ok(calls.into_iter().map(|waiting| waiting.call).collect())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // What is in use is no garbage.
        if let Ok(sent) = self.sent.try_lock() {
            for waiting in &sent.calls {
                visit.call(&waiting.call)?;
                if let Some((replies, _)) = &waiting.replies {
                    visit.call(replies)?;
                }
            }
        }
        Ok(())
    }

    fn __clear__(&self) {
        // They are dropped when nothing is in use any more.
        drop(self.close());
    }
}

impl Line {
    /// What was sent, as long as the line takes commands.
    fn open(&self) -> PyResult<MutexGuard<'_, Sent>> {
        let sent = used(&self.sent)?;
        if sent.is_closed {
            return Err(ConnectionError::new_err(socket::CLOSED));
        }
        Ok(sent)
    }

    /// The next reply or message, or the error for a reply that cannot be decoded.
    fn next<'py>(&self, py: Python<'py>, decode: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Came {
            replies,
            undecodable,
        } = &mut *used(&self.came)?;
        let reply = match replies.next(py, &self.codec, decode && undecodable.is_none()) {
            Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => {
                if !replies.is_push() {
                    *undecodable = Some(error);
                }
                replies.next(py, &self.codec, false)
            }
            reply => reply,
        };
        let Some(reply) = reply? else {
            return Ok(None);
        };
        Ok(Some(match undecodable.take_if(|_| !is_message(&reply)) {
            Some(error) => error.into_value(py).into_bound(py).into_any(),
            None => reply,
        }))
    }

    /// Gives a call its result. Returns false, with nothing done, where that would call others:
    /// whoever waits for the call must be kept apart, or be nobody.
    fn settle<'py>(
        &self,
        call: &Bound<'py, PyAny>,
        result: &Bound<'py, PyAny>,
        woken: &Bound<'py, PyList>,
    ) -> PyResult<bool> {
        let py = call.py();
        let known = intern!(py, "waiter");
        let waiter = call.getattr(known)?;
        let kept = waiter.cast_exact::<PyTuple>().ok();
        let is_task = match kept {
            Some(kept) => self.is_task(kept.get_borrowed_item(0)?),
            None if waiter.is_none() => {
                call.setattr(known, false)?;
                false
            }
            None => return Ok(false),
        };
        match self.settle.bind(py).call1((call, result)) {
            Ok(_) if is_task => {
                // Nobody is kept apart any more.
                call.setattr(known, false)?;
                woken.append(waiter)?;
            }
            Ok(_) if kept.is_some() => woken.append(call)?,
            Ok(_) => {}
            // A finalizer that ran in between has cancelled it.
            Err(error) if error.is_instance(py, self.invalid_state.bind(py)) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Whether a function is that of a task of asyncio's, no other class's, which lets it go on.
    fn is_task(&self, function: Borrowed<'_, '_, PyAny>) -> bool {
        // SAFETY: the object is valid and the thread attached; a built-in function's own object is
        // borrowed from it, and looked at only while it is there.
        unsafe {
            if ffi::PyCFunction_CheckExact(function.as_ptr()) == 0 {
                return false;
            }
            let owner = ffi::PyCFunction_GetSelf(function.as_ptr());
            !owner.is_null() && ffi::Py_TYPE(owner).cast() == self.task.as_ptr()
        }
    }

    /// Takes the first call off the line, if it is this one, or the one whose reply was given.
    fn leave(&self, call: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut sent = used(&self.sent)?;
        let is_taken = std::mem::take(&mut sent.is_taken);
        let left = match (sent.calls.front(), call) {
            (Some(first), Some(call)) if first.call.is(call) => sent.calls.pop_front(),
            (Some(_), None) if is_taken => sent.calls.pop_front(),
            _ => None,
        };
        // Whatever goes with it may use the line.
        drop(sent);
        drop(left);
        Ok(())
    }
}

/// What nobody else uses.
fn used<T>(part: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    match part.try_lock() {
        Ok(used) => Ok(used),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("the connection is in use")),
    }
}
