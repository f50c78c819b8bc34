//! Sending and receiving, while other threads run Python.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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
fn deadline(timeout: Option<f64>) -> Option<Instant> {
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

/// Does one step until it is done, without the interpreter's lock. A socket
/// that is not ready is waited for; a signal's handler is run and may raise.
fn complete<R: Send>(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    ready: PollFlags,
    timeout: Option<f64>,
    doing: &'static str,
    mut step: impl FnMut() -> Result<R, Errno> + Send,
) -> PyResult<R> {
    let mut until = None;
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
            Err(error) => {
                let error = std::io::Error::from(error);
                return Err(PyOSError::new_err((
                    error.raw_os_error(),
                    error.to_string(),
                )));
            }
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
        let sent = complete(py, socket, PollFlags::OUT, timeout, "writing to", || {
            send_some(socket, bytes, SendFlags::NOSIGNAL)
        })?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Waits until the socket has something, or its end. A reply is not there as soon
/// as the command has left, so that to look for it first would be in vain.
pub(super) fn ready(py: Python<'_>, socket: BorrowedFd<'_>, timeout: Option<f64>) -> PyResult<()> {
    let mut steps = [Err(Errno::AGAIN), Ok(())].into_iter();
    complete(py, socket, PollFlags::IN, timeout, "reading from", || {
        steps.next().unwrap_or(Ok(()))
    })
}

/// Appends what the socket has to a buffer with room for it.
pub(super) fn receive(
    py: Python<'_>,
    socket: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    timeout: Option<f64>,
) -> PyResult<()> {
    let received = complete(py, socket, PollFlags::IN, timeout, "reading from", || {
        recv(socket, spare_capacity(buffer), RecvFlags::empty()).map(|(count, _)| count)
    })?;
    if received == 0 {
        return Err(ConnectionError::new_err(CLOSED));
    }
    Ok(())
}
