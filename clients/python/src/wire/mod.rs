//! The way from a remote client's call to the socket and back: packing, sending,
//! receiving and parsing in one call.
//!
//! Making connections, TLS, retries and everything else is redis-py's code in
//! Python; it can use the parts of this one by one as well.
//!
//! - `fast_path`: the usual call of a synchronous client in one step.
//! - `line`: commands and calls of one connection of the asyncio client.
//! - `long`: a long value, received into the very object that it becomes.
//! - `names`: what this module uses of the Python half of the package.
//! - `pack`: commands as the protocol has them.
//! - `pipeline`: all commands packed, and all replies parsed, in one call each.
//! - `plug`: a native method of a class of Python's.
//! - `replies`: replies as Python objects, built from what `undercroft_resp` reads.
//! - `socket`: sending and receiving, while other threads run Python.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple, PyType};

use crate::conversion::codec::Codec;
use crate::error::{ConnectionError, Raises};

mod fast_path;
mod line;
mod long;
mod names;
mod pack;
mod pipeline;
mod plug;
mod replies;
mod socket;

pub(crate) use line::Line;
use replies::Replies;
use socket::Patience;

/// An outgoing buffer that has grown beyond this is given back after use.
const KEPT: usize = 1 << 20;

/// Commands as bytes and bytes as replies, for one connection.
#[pyclass(module = "undercroft._native")]
pub(crate) struct Wire {
    /// A descriptor of its own. Another thread may close the caller's at any time, whose
    /// number is then the next file's, while a call that began before still waits.
    socket: Option<Arc<OwnedFd>>,
    codec: Codec,
    replies: Replies,
    out: Vec<u8>,
    patience: Patience,
    /// Something was sent whose replies have not been read. They may not even have come.
    owed: bool,
    /// A peer on this machine, which cannot have closed its end when something is sent. What
    /// else it may have sent is a message, which is told from a reply.
    local: bool,
    /// Nothing but whole calls has gone over a local socket since somebody looked at it.
    trusted: bool,
}

#[pymethods]
impl Wire {
    /// `error` makes the exception of an error reply's text. With `sets` sets are
    /// sets, else lists.
    #[new]
    #[pyo3(signature = (error, decode_responses=false, encoding="utf-8", encoding_errors="strict", sets=false))]
    fn new(
        error: Py<PyAny>,
        decode_responses: bool,
        encoding: &str,
        encoding_errors: &str,
        sets: bool,
    ) -> PyResult<Wire> {
        Ok(Wire {
            socket: None,
            codec: Codec::new(
                encoding,
                encoding_errors,
                decode_responses,
                Raises::RedisPys,
            )?,
            replies: Replies::new(error, sets),
            out: Vec::new(),
            patience: Patience::default(),
            owed: false,
            local: false,
            trusted: false,
        })
    }

    /// A command in one piece, in a list.
    #[pyo3(signature = (*args))]
    fn pack<'py>(
        &mut self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.out.clear();
        pack::command(&self.codec, args.iter_borrowed(), &mut self.out)?;
        self.packed(py)
    }

    /// Several commands in one piece, in a list.
    fn pack_many<'py>(
        &mut self,
        py: Python<'py>,
        commands: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.out.clear();
        pack::commands(&self.codec, commands, &mut self.out)?;
        self.packed(py)
    }

    /// Takes bytes that came.
    fn feed(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        feed(&mut self.replies, data)
    }

    /// Whether there are bytes that are no part of a reply given so far, or will be.
    fn has_data(&self) -> bool {
        self.owed || self.replies.has_data()
    }

    /// The next reply, or `undercroft.resp.MISSING` if it has not come as a whole.
    #[pyo3(signature = (decode=true))]
    fn gets<'py>(&mut self, py: Python<'py>, decode: bool) -> PyResult<Bound<'py, PyAny>> {
        match self.replies.next(py, &self.codec, decode)? {
            Some(reply) => Ok(reply),
            None => names::missing(py),
        }
    }

    /// Uses a socket, which stays open until this is gone. Shut down, it ends. A `local` one
    /// is a unix socket.
    fn attach(&mut self, socket: RawFd, local: bool) -> PyResult<()> {
        if socket < 0 {
            return Err(ConnectionError::new_err(socket::CLOSED));
        }
        // SAFETY: it is not -1, and the caller has it open: no other thread runs
        // before it has been copied.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        self.socket = Some(Arc::new(socket.try_clone_to_owned()?));
        self.patience = Patience::default();
        self.local = local;
        Ok(())
    }

    /// Whether nothing has come, neither here nor to the socket.
    fn quiet(&self) -> bool {
        !self.has_data() && attached(&self.socket).is_ok_and(socket::quiet)
    }

    /// Says that others have used the socket, which is to be looked at before the next call.
    /// Returns whether replies are to come that nobody waits for any more: then it is of no
    /// use, as a look need not tell.
    fn suspect(&mut self) -> bool {
        self.trusted = false;
        self.owed
    }

    /// Makes `execute_command` of a class of clients a native method, which makes usual calls in one step and calls the
    /// client's `_go_on` for all others.
    #[staticmethod]
    #[pyo3(signature = (class_, /))]
    fn plug(class_: &Bound<'_, PyType>) -> PyResult<()> {
        let doc = c"execute_command($self, /, *args, **options)\n--\n\n\
            Run any command and return its reply, in the form redis-py gives it.";
        plug::install(class_, c"execute_command", doc, fast_path::execute_command)
    }

    /// Sends a command and returns its reply, or a message that came before it.
    /// Error replies are returned, too.
    fn call<'py>(
        &mut self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        decode: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.out.clear();
        pack::command(&self.codec, args.iter_borrowed(), &mut self.out)?;
        // Bytes that come later are to be looked for before each call.
        self.local &= !pack::streams(pack::name(&self.out));
        let socket = attached(&self.socket)?;
        self.owed = true;
        socket::send(py, socket, &self.out, timeout)?;
        self.give_back();
        self.receive(py, decode, timeout)
    }

    /// The next reply, received from the socket.
    fn receive<'py>(
        &mut self,
        py: Python<'py>,
        decode: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reply = self.next(py, decode, timeout)?;
        self.owed = pipeline::is_message(&reply);
        Ok(reply)
    }

    /// The next published message as redis-py shows it, or what else comes before one, as it is.
    /// `undercroft.resp.MISSING` where nothing has come in so many seconds.
    ///
    /// Other threads may use this while it waits.
    fn message<'py>(
        receiver: &Bound<'py, Wire>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = receiver.py();
        let mut until = None;
        loop {
            let socket = {
                let wire = &mut *receiver.try_borrow_mut()?;
                match wire.replies.next(py, &wire.codec, true) {
                    Ok(Some(reply)) => return replies::published(reply),
                    Ok(None) => {}
                    Err(error) => {
                        // A text that cannot be decoded keeps no later message from its receiver.
                        if error.is_instance_of::<PyUnicodeDecodeError>(py) {
                            wire.replies.next(py, &wire.codec, false)?;
                        }
                        return Err(error);
                    }
                }
                let socket = wire.socket.as_ref().map(Arc::clone);
                let socket = socket.ok_or_else(|| ConnectionError::new_err(socket::CLOSED))?;
                if socket::receive_now(socket.as_fd(), wire.replies.input())? {
                    continue;
                }
                socket
            };
            if timeout.is_some() && until.is_none() {
                until = socket::deadline(timeout);
            }
            if timeout == Some(0.0) || !socket::readable(py, socket.as_fd(), until)? {
                return names::missing(py);
            }
        }
    }

    /// Sends the commands of a redis-py pipeline and returns their replies, with
    /// error replies among them. Messages that come meanwhile go to `messages`.
    /// None, with nothing sent, where a command cannot be sent as it is.
    fn exchange<'py>(
        &mut self,
        py: Python<'py>,
        commands: &Bound<'py, PyList>,
        messages: &Bound<'py, PyList>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        self.out.clear();
        let Some(packed) = pipeline::pack(&self.codec, commands, &mut self.out)? else {
            return Ok(None);
        };
        self.local &= !packed.streams;
        let socket = attached(&self.socket)?;
        self.owed = true;
        socket::send(py, socket, &self.out, timeout)?;
        self.give_back();
        let replies = PyList::empty(py);
        for decode in packed.decodes {
            let mut reply = self.next(py, decode, timeout)?;
            while pipeline::is_message(&reply) {
                messages.append(reply)?;
                reply = self.next(py, decode, timeout)?;
            }
            replies.append(reply)?;
        }
        self.owed = false;
        Ok(Some(replies))
    }

    /// The places of those replies to a pipeline that are errors, that redis-py
    /// makes something else of, or of which only Python can tell.
    #[staticmethod]
    fn unusual(
        callbacks: &Bound<'_, PyDict>,
        commands: &Bound<'_, PyList>,
        replies: &Bound<'_, PyList>,
    ) -> PyResult<Vec<usize>> {
        pipeline::unusual(callbacks, commands, replies)
    }
}

/// Takes bytes that came, in whatever holds them.
fn feed(replies: &mut Replies, data: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        replies.feed(data.py(), bytes.as_bytes());
    } else {
        let bytes = PyBuffer::<u8>::get(data)?.to_vec(data.py())?;
        replies.feed(data.py(), &bytes);
    }
    Ok(())
}

fn attached(socket: &Option<Arc<OwnedFd>>) -> PyResult<BorrowedFd<'_>> {
    let socket = socket.as_ref().map(|it| it.as_fd());
    socket.ok_or_else(|| ConnectionError::new_err(socket::CLOSED))
}

impl Wire {
    /// Sends a command, and returns its reply or a message that came before it.
    ///
    /// None, with nothing sent, where the connection may not be fit for a command, or the
    /// peer has gone; after an error, too, nothing has been sent unless a reply is `owed`.
    /// A command to a unix socket that is `trusted` needs no look before it: there the system
    /// itself refuses to send to a peer that has closed, while one elsewhere may be told.
    fn ask<'a, 'py: 'a>(
        &mut self,
        py: Python<'py>,
        args: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let trusted = std::mem::take(&mut self.trusted);
        if self.has_data() || !(trusted || self.quiet()) {
            return Ok(None);
        }
        self.out.clear();
        pack::command(&self.codec, args, &mut self.out)?;
        let socket = attached(&self.socket)?;
        let input = self.replies.input();
        self.owed = true;
        if !socket::ask(py, socket, &self.out, input, timeout, &mut self.patience)? {
            self.owed = false;
            return Ok(None);
        }
        self.give_back();
        let reply = self.receive(py, true, timeout)?;
        self.trusted = self.local && !self.owed;
        Ok(Some(reply))
    }

    /// The next reply or message, received from the socket.
    fn next<'py>(
        &mut self,
        py: Python<'py>,
        decode: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let socket = attached(&self.socket)?;
        loop {
            if let Some(reply) = self.replies.next(py, &self.codec, decode)? {
                return Ok(reply);
            }
            if let Some(long) = self.replies.long() {
                let room = &mut long.room(py);
                let count = socket::receive(py, socket, room, timeout, &mut self.patience)?;
                long.came(count);
                continue;
            }
            let input = self.replies.input();
            socket::receive(py, socket, input, timeout, &mut self.patience)?;
        }
    }

    fn packed<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        if !self.out.is_empty() {
            list.append(PyBytes::new(py, &self.out))?;
        }
        self.give_back();
        Ok(list)
    }

    fn give_back(&mut self) {
        if self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
    }
}
