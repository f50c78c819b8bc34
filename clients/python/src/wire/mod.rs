//! Makes a remote client's calls, from Python to the socket and back: one native call packs, sends,
//! receives and parses.
//!
//! Connecting, TLS, retries and everything else remain redis-py's Python code, which can also call
//! the functions of this module separately.
//!
//! - `fast_path`: makes a synchronous client's common calls in one step.
//! - `line`: the unsent commands and waiting calls of one connection of the asyncio client.
//! - `long`: receives a long value directly into its result object.
//! - `names`: the objects that this module uses from the package's Python code.
//! - `pack`: encodes commands in the wire format.
//! - `pipeline`: packs all commands, and parses all replies, in one call each.
//! - `plug`: installs a native method in a Python class.
//! - `replies`: builds Python objects from the replies that `undercroft_resp` parses.
//! - `socket`: sends and receives while other threads run Python.

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

/// An outgoing buffer with more capacity than this, in bytes, is freed after use.
const KEPT: usize = 1 << 20;

/// A connection's command encoder and reply parser.
#[pyclass(module = "undercroft._native")]
pub(crate) struct Wire {
    /// A duplicate of the caller's descriptor. Another thread can close the original at any time,
    /// and its number may be reused while an earlier call still waits.
    socket: Option<Arc<OwnedFd>>,
    codec: Codec,
    replies: Replies,
    out: Vec<u8>,
    /// Whether each reply of the exchange that has begun is decoded.
    decodes: Vec<bool>,
    patience: Patience,
    /// Whether a command has been sent whose reply has not been read yet. The reply may still be on
    /// its way.
    owed: bool,
    /// Whether the peer runs on this machine. Sending to a closed local peer fails, and unsolicited
    /// data from a local peer is always a message, which cannot be mistaken for a reply.
    local: bool,
    /// Whether only complete calls have used a local socket since its last check.
    trusted: bool,
}

#[pymethods]
impl Wire {
    /// Create an encoder and parser for one connection.
    ///
    /// `error` creates an exception from an error reply's text. With `sets`, RESP3 sets become
    /// `set` objects, otherwise lists.
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
            decodes: Vec::new(),
            patience: Patience::default(),
            owed: false,
            local: false,
            trusted: false,
        })
    }

    /// Return a command as a list with one `bytes` object.
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

    /// Return several commands as a list with one `bytes` object.
    fn pack_many<'py>(
        &mut self,
        py: Python<'py>,
        commands: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.out.clear();
        pack::commands(&self.codec, commands, &mut self.out)?;
        self.packed(py)
    }

    /// Accept received bytes.
    fn feed(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        feed(&mut self.replies, data)
    }

    /// Return whether unread bytes exist or a reply is pending.
    fn has_data(&self) -> bool {
        self.owed || self.replies.has_data()
    }

    /// Return the next reply, or `undercroft.remote.resp.MISSING` if it is incomplete.
    #[pyo3(signature = (decode=true))]
    fn gets<'py>(&mut self, py: Python<'py>, decode: bool) -> PyResult<Bound<'py, PyAny>> {
        match self.replies.next(py, &self.codec, decode)? {
            Some(reply) => Ok(reply),
            None => names::missing(py),
        }
    }

    /// Use a socket, which is duplicated and stays open while this object lives.
    ///
    /// Shutting the socket down still ends the connection. `local` means a Unix socket.
    fn attach(&mut self, socket: RawFd, local: bool) -> PyResult<()> {
        if socket < 0 {
            return Err(ConnectionError::new_err(socket::CLOSED));
        }
        // SAFETY: the descriptor is not -1, and the caller has it open. No other thread runs before
        // it is duplicated.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        self.socket = Some(Arc::new(socket.try_clone_to_owned()?));
        self.patience = Patience::default();
        self.local = local;
        Ok(())
    }

    /// Return whether no data has arrived, either in the buffer or at the socket.
    fn quiet(&self) -> bool {
        !self.has_data() && attached(&self.socket).is_ok_and(socket::quiet)
    }

    /// Record that other code has used the socket, so that the next call checks it first.
    ///
    /// Return whether replies are pending that no call is waiting for. The connection is then
    /// unusable, because a check may not find those replies.
    fn suspect(&mut self) -> bool {
        self.trusted = false;
        self.owed
    }

    /// Replace `execute_command` of a client class with a native method.
    ///
    /// The method makes common calls in one step and calls the client's `_go_on` for all other
    /// calls.
    #[staticmethod]
    #[pyo3(signature = (class_, /))]
    fn plug(class_: &Bound<'_, PyType>) -> PyResult<()> {
        let doc = c"execute_command($self, /, *args, **options)\n--\n\n\
            Run any command and return its reply, in the form redis-py gives it.";
        plug::install(class_, c"execute_command", doc, fast_path::execute_command)
    }

    /// Send a command and return its reply, or a message that arrived before it.
    ///
    /// Error replies are returned as well.
    fn call<'py>(
        &mut self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        decode: bool,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.out.clear();
        pack::command(&self.codec, args.iter_borrowed(), &mut self.out)?;
        // After a command such as SUBSCRIBE, each call first checks for unsolicited bytes.
        self.local &= !pack::streams(pack::name(&self.out));
        let socket = attached(&self.socket)?;
        self.owed = true;
        socket::send(py, socket, &self.out, timeout)?;
        self.give_back();
        self.receive(py, decode, timeout)
    }

    /// Receive and return the next reply.
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

    /// Return the next published message in redis-py's format, or any other reply unchanged.
    ///
    /// Return `undercroft.remote.resp.MISSING` if nothing arrives within `timeout` seconds. Other threads
    /// may use this object while it waits.
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
                        // Skip the string that cannot be decoded, so that later messages still
                        // arrive.
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

    /// Send the commands of a redis-py pipeline.
    ///
    /// `end_exchange` must be called before the next command. Return False without sending anything if
    /// a command needs redis-py's own processing.
    fn begin_exchange<'py>(
        &mut self,
        py: Python<'py>,
        commands: &Bound<'py, PyList>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        self.out.clear();
        let Some(packed) = pipeline::pack(&self.codec, commands, &mut self.out)? else {
            return Ok(false);
        };
        self.local &= !packed.streams;
        let socket = attached(&self.socket)?;
        self.owed = true;
        socket::send(py, socket, &self.out, timeout)?;
        self.give_back();
        self.decodes = packed.decodes;
        Ok(true)
    }

    /// Return the replies to the commands that `begin_exchange` sent.
    ///
    /// The list includes error replies. Messages that arrive in the meantime are appended to
    /// `messages`.
    fn end_exchange<'py>(
        &mut self,
        py: Python<'py>,
        messages: &Bound<'py, PyList>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let replies = PyList::empty(py);
        for decode in std::mem::take(&mut self.decodes) {
            let mut reply = self.next(py, decode, timeout)?;
            while pipeline::is_message(&reply) {
                messages.append(reply)?;
                reply = self.next(py, decode, timeout)?;
            }
            replies.append(reply)?;
        }
        self.owed = false;
        Ok(replies)
    }

    /// Return the indexes of a pipeline's replies that need Python code.
    ///
    /// These replies are errors, or replies that redis-py converts or may convert.
    #[staticmethod]
    fn unusual(
        callbacks: &Bound<'_, PyDict>,
        commands: &Bound<'_, PyList>,
        replies: &Bound<'_, PyList>,
    ) -> PyResult<Vec<usize>> {
        pipeline::unusual(callbacks, commands, replies)
    }
}

/// Accepts received bytes from any buffer object.
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
    /// Sends a command and returns its reply or a message that arrived before it.
    ///
    /// Returns None without sending anything if the connection may be unusable or the peer is gone.
    /// An error also means that nothing was sent, unless a reply is `owed`. A command to a
    /// `trusted` Unix socket needs no check first, because the system refuses to send to a closed
    /// peer. Over TCP, such a send may succeed.
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

    /// Returns the next reply or message, receiving from the socket as needed.
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
