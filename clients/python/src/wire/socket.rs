//! Sends and receives while other threads run Python.

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

/// The error text for a peer that has closed the connection, as redis-py words it.
pub(super) const CLOSED: &str = "Connection closed by server.";
/// The maximum timeout in seconds, about a hundred years.
const FOREVER: f64 = 3.2e9;

/// Whether the socket has received neither data nor an end of stream.
pub(super) fn quiet(socket: BorrowedFd<'_>) -> bool {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut waiting = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    matches!(poll(&mut waiting, Some(&now)), Ok(0))
}

/// Returns the time at which a wait of `timeout` seconds ends, or None for an unlimited wait.
pub(super) fn deadline(timeout: Option<f64>) -> Option<Instant> {
    let seconds = timeout?.clamp(0.0, FOREVER);
    Some(Instant::now() + Duration::from_secs_f64(seconds))
}

/// Waits until the socket is ready or the deadline passes.
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

/// Waits until the socket has data to receive. Returns false on timeout. Signal handlers run and
/// may raise exceptions.
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

/// Appends the socket's available data to a buffer with spare capacity. Returns whether any data
/// was available.
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

/// Repeats one step until it completes, without the interpreter lock. If the socket is not ready,
/// waits until `until`, or for `timeout` seconds if `until` is None. Signal handlers run and may
/// raise exceptions.
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

/// Sends all bytes.
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

/// Sends as many bytes as the socket accepts without blocking and returns their number. Returns 0
/// after an error, which the next send reports.
pub(super) fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> usize {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send_some(socket, bytes, flags).unwrap_or(0)
}

/// The receive timeout that was set on the socket.
///
/// With this timeout, `recv` itself waits, which saves a separate system call to poll the socket
/// for each reply.
#[derive(Default)]
pub(super) struct Patience(Option<f64>);

impl Patience {
    /// Sets the socket's timeout and returns whether this succeeded. Python's own socket methods
    /// still work, because with a timeout they poll before each call.
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

    /// Returns the flags for the first `recv`, and its deadline if `recv` itself waits.
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

/// A destination for received bytes.
pub(super) trait ReceiveBuffer: Send {
    /// Receives the available bytes, waiting for data unless `DONTWAIT` is set. Returns the number
    /// of bytes.
    fn receive(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<usize, Errno>;
}

impl ReceiveBuffer for Vec<u8> {
    fn receive(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<usize, Errno> {
        recv(socket, spare_capacity(self), flags).map(|(count, _)| count)
    }
}

impl ReceiveBuffer for &mut [MaybeUninit<u8>] {
    fn receive(&mut self, socket: BorrowedFd<'_>, flags: RecvFlags) -> Result<usize, Errno> {
        recv(socket, &mut **self, flags).map(|(_, count)| count)
    }
}

/// Sends a command to a peer that owes no reply, and appends the first data received to a buffer
/// with spare capacity. Returns false without sending anything if the socket cannot send.
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

/// Receives the available bytes and returns their number.
pub(super) fn receive(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    room: &mut impl ReceiveBuffer,
    timeout: Option<f64>,
    patience: &mut Patience,
) -> PyResult<usize> {
    let (flags, until) = patience.begin(socket, timeout);
    let first = py.detach(|| room.receive(socket, flags));
    received(py, socket, room, (timeout, until), patience, first)
}

/// Continues after the first receive until data has arrived. Returns the number of bytes.
fn received(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    room: &mut impl ReceiveBuffer,
    (timeout, until): (Option<f64>, Option<Instant>),
    patience: &mut Patience,
    first: Result<usize, Errno>,
) -> PyResult<usize> {
    let count = match first {
        Ok(count) => count,
        Err(error) => {
            // Reset the known timeout, because Python may have made the socket nonblocking again.
            *patience = Patience::default();
            let mut first = Some(error);
            let waited = (socket, PollFlags::IN);
            // `poll` waits for the remaining time, regardless of why the first wait ended.
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
