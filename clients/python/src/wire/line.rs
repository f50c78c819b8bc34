//! Packs the commands of asyncio calls, queues the calls, and passes received replies to the calls
//! at the head of the queue.
//!
//! [`Line`] owns the queue and both buffers. It runs no Python code except to create an exception
//! from an error reply, and leaves all other work that needs Python to its caller. A daemon thread
//! that is unwound at interpreter shutdown therefore has no frame of this module on its stack. A
//! signal handler finds either both a command and its call in the queue, or neither.
//! `undercroft.remote.multiplexing.line` is the equivalent in Python.

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

/// A reply, and the call that receives it.
type CallAndReply<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>);

/// A connection's queues of unsent commands and of calls that wait for replies.
///
/// The interpreter lock excludes other threads. A mutex can only be locked on entry if one call
/// runs within another, for example from a finalizer. The inner call then fails.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Line {
    codec: Codec,
    /// `asyncio.Future.set_result`, and the exception that it raises if the future already has a
    /// result.
    settle: Py<PyAny>,
    invalid_state: Py<PyAny>,
    /// The class `asyncio.Task`.
    task: Py<PyAny>,
    sent: Mutex<Sent>,
    came: Mutex<Received>,
}

#[derive(Default)]
struct Sent {
    /// Packed commands for the next write.
    gathered: Vec<u8>,
    calls: VecDeque<Waiting>,
    /// Whether `answer` has returned the reply to the first call.
    is_taken: bool,
    is_closed: bool,
    /// A duplicate of the transport's socket, which stays open when the transport closes.
    socket: Option<OwnedFd>,
}

struct Received {
    replies: Replies,
    /// The error from decoding a reply, if decoding failed.
    undecodable: Option<PyErr>,
}

/// A call, or a batch of calls that receive their replies together.
struct Waiting {
    call: Py<PyAny>,
    /// Whether the reply may be decoded.
    decode: bool,
    /// Whether the reply itself is the result.
    is_result: bool,
    /// The list for a batch's replies, and their number.
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
    /// Create a line with the arguments of a [`Wire`](super::Wire).
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
            came: Mutex::new(Received {
                replies: Replies::new(error.unbind(), sets),
                undecodable: None,
            }),
        })
    }

    /// Pack a command and queue its call, or do neither if an error occurs.
    ///
    /// `callbacks` contains the commands whose replies need further processing.
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

    /// Pack several commands and queue them as a batch, or queue none if an error occurs.
    ///
    /// Their replies are appended to the batch's `replies`.
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

    /// Attach the socket with the given open descriptor, which [`Line::send`] then uses.
    fn attach(&self, descriptor: i32) -> PyResult<()> {
        let invalid = || PyOSError::new_err(format!("file descriptor {descriptor} is not open"));
        if descriptor < 0 {
            return Err(invalid());
        }
        // SAFETY: the number is not negative and is only used to duplicate the descriptor, which
        // fails if the descriptor is not open.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let own = borrowed.try_clone_to_owned().map_err(|_| invalid())?;
        self.open()?.socket = Some(own);
        Ok(())
    }

    /// Send the packed commands.
    ///
    /// Return the bytes that the socket did not accept for any reason. Return all bytes if no
    /// socket is attached.
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

    /// Remove and return the packed commands.
    fn gathered<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut sent = used(&self.sent)?;
        let bytes = PyBytes::new(py, &sent.gathered);
        sent.gathered.clear();
        sent.gathered.shrink_to(KEPT);
        Ok(bytes)
    }

    /// Accept received bytes, and pass replies to the calls at the head of the queue.
    fn receive<'py>(
        &self,
        data: &Bound<'py, PyAny>,
        woken: &Bound<'py, PyList>,
    ) -> PyResult<Option<CallAndReply<'py>>> {
        feed(&mut used(&self.came)?.replies, data)?;
        self.answer(data.py(), woken)
    }

    /// Set replies as the results of their calls.
    ///
    /// Each answered call with a waiter is added to `woken`. If the waiter is a task, the entry is
    /// instead the task's wakeup function and context as the call stored them.
    ///
    /// Return the first reply that is not itself a result, together with its call, which stays in
    /// the queue until the next call to this method. The call is None for a message or for a reply
    /// that matches no call.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        woken: &Bound<'py, PyList>,
    ) -> PyResult<Option<CallAndReply<'py>>> {
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

    /// The call at the head of the queue.
    #[getter]
    fn first(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let sent = used(&self.sent)?;
        Ok(sent.calls.front().map(|first| first.call.clone_ref(py)))
    }

    /// The call at the head of the queue if its reply was the last one returned, otherwise None.
    #[getter]
    fn taken(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let is_taken = used(&self.sent)?.is_taken;
        if is_taken { self.first(py) } else { Ok(None) }
    }

    /// The number of bytes missing from a partly received string.
    #[getter]
    fn missing(&self) -> PyResult<usize> {
        Ok(used(&self.came)?.replies.missing())
    }

    /// Return the queued calls.
    fn calls(&self, py: Python<'_>) -> PyResult<Vec<Py<PyAny>>> {
        let sent = used(&self.sent)?;
        Ok(sent.calls.iter().map(|it| it.call.clone_ref(py)).collect())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(used(&self.sent)?.calls.len())
    }

    /// Reject further commands, discard unsent commands, and return the queued calls.
    fn close(&self) -> PyResult<Vec<Py<PyAny>>> {
        let mut sent = used(&self.sent)?;
        let calls = std::mem::take(&mut *sent).calls;
        sent.is_closed = true;
        Ok(calls.into_iter().map(|waiting| waiting.call).collect())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Skip a queue that is in use, because it is reachable and therefore not garbage.
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
        // `close` releases the lock before the calls are dropped.
        drop(self.close());
    }
}

impl Line {
    /// Locks the unsent commands and the queue of calls. Fails if the line is closed.
    fn open(&self) -> PyResult<MutexGuard<'_, Sent>> {
        let sent = used(&self.sent)?;
        if sent.is_closed {
            return Err(ConnectionError::new_err(socket::CLOSED));
        }
        Ok(sent)
    }

    /// Returns the next reply or message, or the error for a reply that cannot be decoded.
    fn next<'py>(&self, py: Python<'py>, decode: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Received {
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

    /// Sets the result of a call that has no waiter or stores its waiter separately. Returns false
    /// without doing anything for any other call, because a result would run that call's callbacks.
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
                // Mark the waiter as no longer stored separately.
                call.setattr(known, false)?;
                woken.append(waiter)?;
            }
            Ok(_) if kept.is_some() => woken.append(call)?,
            Ok(_) => {}
            // A finalizer that ran in the meantime has cancelled the call.
            Err(error) if error.is_instance(py, self.invalid_state.bind(py)) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Whether a function is the wakeup method of an exact `asyncio.Task`.
    fn is_task(&self, function: Borrowed<'_, '_, PyAny>) -> bool {
        // SAFETY: the object is valid and the thread is attached. The function's receiver is
        // borrowed and only used while the function lives.
        unsafe {
            if ffi::PyCFunction_CheckExact(function.as_ptr()) == 0 {
                return false;
            }
            let owner = ffi::PyCFunction_GetSelf(function.as_ptr());
            !owner.is_null() && ffi::Py_TYPE(owner).cast() == self.task.as_ptr()
        }
    }

    /// Removes the first call if it is `call`. If `call` is None, removes the first call if its
    /// reply was returned.
    fn leave(&self, call: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let mut sent = used(&self.sent)?;
        let is_taken = std::mem::take(&mut sent.is_taken);
        let left = match (sent.calls.front(), call) {
            (Some(first), Some(call)) if first.call.is(call) => sent.calls.pop_front(),
            (Some(_), None) if is_taken => sent.calls.pop_front(),
            _ => None,
        };
        // Release the lock first, because finalizers of the dropped call may use the line.
        drop(sent);
        drop(left);
        Ok(())
    }
}

/// Locks one of the line's mutexes. Fails if it is already locked.
fn used<T>(part: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    match part.try_lock() {
        Ok(used) => Ok(used),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(PyRuntimeError::new_err("the connection is in use")),
    }
}
