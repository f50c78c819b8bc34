//! Sending and receiving, while other threads run Python.

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send as send_some};

use crate::error::{ConnectionError, TimeoutError};

/// What a peer that has closed its end is told as; redis-py's words.
pub(super) const CLOSED: &str = "Connection closed by server.";
/// Nobody waits longer than this, which is a hundred years.
const FOREVER: f64 = 3.2e9;

/// Whether the socket has neither data nor an end.
pub(super) fn quiet(socket: BorrowedFd<'_>) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut waiting = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    matches!(poll(&mut waiting, Some(&now)), Ok(0))
}

/// When a wait of so many seconds that begins now ends; None for never.
pub(super) fn deadline(timeout: Option<f64>) -> Option<Instant> {
    let seconds = timeout?.clamp(0.0, FOREVER);
    Some(Instant::now() + Duration::from_secs_f64(seconds))
}

/// Waits until the socket is ready, or it is too late.
fn wait(socket: BorrowedFd<'_>, ready: PollFlags, until: Option<Instant>) -> Result<(), Errno> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(
        &mut [PollFd::from_borrowed_fd(socket, ready)],
        left.as_ref(),
    )? {
        0 => Err(Errno::TIMEDOUT),
        _ => Ok(()),
    }
}

/// Waits until the socket has something to receive. Returns false if it has not in time. A signal's
/// handler is run and may raise.
pub(super) fn readable(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    until: Option<Instant>,
) -> PyResult<bool> {
    loop {
        match py.detach(|| wait(socket, PollFlags::IN, until)) {
            Ok(()) => return Ok(true),
            Err(Errno::TIMEDOUT) => return Ok(false),
            Err(Errno::INTR) => py.check_signals()?,
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Appends what the socket has now to a buffer with room for it. Returns whether it had something.
pub(super) fn receive_now(socket: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> PyResult<bool> {
    match buffer.receive(socket, RecvFlags::DONTWAIT) {
        Ok(0) => Err(ConnectionError::new_err(CLOSED)),
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::INTR) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

fn failed(error: Errno) -> PyErr {
    let error = std::io::Error::from(error);
    PyOSError::new_err((error.raw_os_error(), error.to_string()))
}

/// Does one step until it is done, without the interpreter's lock. A socket
/// that is not ready is waited for, until it is too late, or for so many seconds from
/// then on; a signal's handler is run and may raise.
fn complete<R: Send>(
    py: Python<'_>,
    (socket, ready): (BorrowedFd<'_>, PollFlags),
    timeout: Option<f64>,
    mut until: Option<Instant>,
    doing: &'static str,
    mut step: impl FnMut() -> Result<R, Errno> + Send,
) -> PyResult<R> {
    loop {
        let result = py.detach(|| {
            loop {
                match step() {
                    Err(Errno::AGAIN) => {
                        if until.is_none() {
                            until = deadline(timeout);
                        }
                        wait(socket, ready, until)?;
                    }
                    result => return result,
                }
            }
        });
        match result {
            Ok(result) => return Ok(result),
            Err(Errno::INTR) => py.check_signals()?,
            Err(Errno::TIMEDOUT) if timeout.is_some() => {
                return Err(TimeoutError::new_err(format!("Timeout {doing} socket")));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Sends all of these bytes.
pub(super) fn send(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    mut bytes: &[u8],
    timeout: Option<f64>,
) -> PyResult<()> {
    while !bytes.is_empty() {
        let waited = (socket, PollFlags::OUT);
        let sent = complete(py, waited, timeout, None, "writing to", || {
            send_some(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
        })?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Sends as many of these bytes as the socket takes at once. Returns their number; none after an
/// error, which whoever sends the rest meets again.
pub(super) fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send_some(socket, bytes, flags).unwrap_or(0)
}

/// The time for which the socket itself waits in a `recv`, once it has been told.
///
/// To ask it whether something is there, and only then to receive, would be one more call
/// of the system's for each reply.
#[derive(Default)]
pub(super) struct Patience(Option<f64>);

impl Patience {
    /// Lets the socket wait for so many seconds, or says that it cannot. Python's sockets
    /// with a timeout do not wait, but look first whether they have to, which they still do.
    fn lend(&mut self, socket: BorrowedFd<'_>, timeout: f64) -> bool {
        if self.0 != Some(timeout) {
            let told = Duration::try_from_secs_f64(timeout.min(FOREVER)).is_ok_and(|timeout| {
                let timeout = Some(timeout);
                set_socket_timeout(socket, Timeout::Recv, timeout).is_ok()
                    && set_socket_timeout(socket, Timeout::Send, timeout).is_ok()
                    && ioctl_fionbio(socket, false).is_ok()
            });
            self.0 = told.then_some(timeout);
        }
        self.0.is_some()
    }

    /// How to receive first where that may take so many seconds, and when these end, if a
    /// `recv` waits for them.
    fn begin(
        &mut self,
        socket: BorrowedFd<'_>,
        timeout: Option<f64>,
    ) -> (RecvFlags, Option<Instant>) {
        match timeout {
            None => (RecvFlags::empty(), None),
            Some(seconds) if self.lend(socket, seconds) => (RecvFlags::empty(), deadline(timeout)),
            Some(_) => (RecvFlags::DONTWAIT, None),
        }
    }
}

/// Where bytes go that are received.
pub(super) trait Room: Send {
    /// Receives as many bytes as there are now, or, without `DONTWAIT`, waits for some. Returns their number.
    fn receive(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<usize, Errno>;
}

impl Room for Vec<u8> {
    fn receive(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<usize, Errno> {
        recv(socket, spare_capacity(self), flags).map(|(count, _)| count)
    }
}

impl Room for &mut [MaybeUninit<u8>] {
    fn receive(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<usize, Errno> {
        recv(socket, &mut **self, flags).map(|(_, count)| count)
    }
}

/// Sends a command to a peer that owes nothing, and appends what comes first to a buffer with
/// room for it. Returns false, with nothing sent, where nothing can be sent as it is.
pub(super) fn ask(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    buffer: &mut Vec<u8>,
    timeout: Option<f64>,
    patience: &mut Patience,
) -> PyResult<bool> {
    let (flags, until) = patience.begin(socket, timeout);
    let (sent, came) = py.detach(|| {
        let sent = send_some(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        let whole = sent == Ok(bytes.len());
        (sent, whole.then(|| buffer.receive(socket, flags)))
    });
    if let Some(first) = came {
        received(py, socket, buffer, (timeout, until), patience, first)?;
        return Ok(true);
    }
    let sent = match sent {
        Ok(sent) => sent,
        Err(Errno::AGAIN | Errno::INTR) => 0,
        Err(_) => return Ok(false),
    };
    send(py, socket, &bytes[sent..], timeout)?;
    receive(py, socket, buffer, timeout, patience)?;
    Ok(true)
}

/// Puts what the socket has where there is room for it. Returns the number of bytes.
pub(super) fn receive(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    room: &mut impl Room,
    timeout: Option<f64>,
    patience: &mut Patience,
) -> PyResult<usize> {
    let (flags, until) = patience.begin(socket, timeout);
    let first = py.detach(|| room.receive(socket, flags));
    received(py, socket, room, (timeout, until), patience, first)
}

/// Goes on after the first attempt to receive, until something has come. Returns the number of bytes.
fn received(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    room: &mut impl Room,
    (timeout, until): (Option<f64>, Option<Instant>),
    patience: &mut Patience,
    first: Result<usize, Errno>,
) -> PyResult<usize> {
    let count = match first {
        Ok(count) => count,
        Err(error) => {
            // Python may have told the socket not to wait.
            *patience = Patience::default();
            let mut first = Some(error);
            let waited = (socket, PollFlags::IN);
            // Whatever ended the first wait, the rest of the time is waited for by `poll`.
            complete(py, waited, timeout, until, "reading from", || {
                match first.take() {
                    Some(error) => Err(error),
                    None => room.receive(socket, RecvFlags::DONTWAIT),
                }
            })?
        }
    };
    if count == 0 {
        return Err(ConnectionError::new_err(CLOSED));
    }
    Ok(count)
}
