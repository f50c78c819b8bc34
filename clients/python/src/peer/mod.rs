//! The in-process end of a connection, which replaces the socket of a redis-py connection.
//!
//! A peer accepts the bytes that a client sends to a server, runs the commands in them, and buffers
//! the replies until they are received. A command that waits for keys does not block its sender:
//! its reply arrives later, as messages do.
//!
//! - `inbox`: receives messages and the results of blocked commands.
//! - `state`: the session, its input and its output.

mod inbox;
mod state;

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBlockingIOError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use smallvec::SmallVec;
use undercroft_embedded::OpenStore;

use self::inbox::Inbox;
use self::state::{Obstacle, SLICE, State};
use crate::client::Client;
use crate::error::{self, ConnectionError, Raises};
use crate::threads::busy::Busy;

/// The in-process end of one connection.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Peer {
    client: Py<Client>,
    shared: Arc<OpenStore>,
    /// State that threads lock while they work on it, but not while they wait.
    state: Busy<State>,
    closed: AtomicBool,
}

/// The state that a waiting thread needs while other threads work on the peer's state.
struct Sleep {
    descriptors: SmallVec<[OwnedFd; 2]>,
    bell: Arc<OwnedFd>,
    /// The deadline of a blocked command.
    until: Option<Instant>,
}

impl Sleep {
    /// Waits until data may be available, for at most `longest`.
    fn sleep(&self, longest: Duration) {
        let now = Instant::now();
        let left = self
            .until
            .map_or(longest, |until| until.saturating_duration_since(now));
        let left = left.min(longest).min(SLICE);
        let mut polled: SmallVec<[PollFd<'_>; 3]> = self
            .descriptors
            .iter()
            .map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
            .collect();
        polled.push(PollFd::new(&*self.bell, PollFlags::IN));
        let time = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        // Ignore the result: the caller checks everything, even if the poll was interrupted.
        if poll(&mut polled, Some(&time)).is_ok() {
            let rung = polled.last().is_some_and(|bell| !bell.revents().is_empty());
            if rung {
                let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
            }
        }
    }
}

impl Peer {
    /// Runs `work` on the state with the client's limit on lock waits.
    fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> PyResult<R>) -> PyResult<R> {
        let client = self.client.get();
        let limited = client.hasten(py);
        let result = self.state.lock(py).and_then(|mut state| {
            if self.closed.load(Ordering::Relaxed) {
                return Err(ConnectionError::new_err("Connection closed by its client."));
            }
            work(&mut state)
        });
        if limited.is_some() {
            drop(limited);
            client.tell_left(py, &self.shared);
        }
        result
    }

    fn run(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        state.run().map_err(|obstacle| match obstacle {
            Obstacle::Lock(blocked) => error::raise_blocked(py, Raises::RedisPys, &blocked),
            Obstacle::Failure(failure) => {
                error::raise(py, Raises::RedisPys, &self.shared.store, failure)
            }
        })
    }

    fn descriptors<'a>(
        &self,
        py: Python<'_>,
        state: &'a mut State,
    ) -> PyResult<SmallVec<[BorrowedFd<'a>; 2]>> {
        let raised = |failure| error::raise(py, Raises::RedisPys, &self.shared.store, failure);
        state.descriptors().map_err(raised)
    }

    /// Whether bytes are available or the connection has ended.
    fn is_ready(&self, py: Python<'_>, state: &mut State) -> PyResult<bool> {
        if state.pending() == 0 {
            self.run(py, state)?;
        }
        Ok(state.pending() > 0 || state.ended)
    }

    /// Waits until bytes are available or the connection has ended. Returns false on timeout.
    fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<bool> {
        let start = Instant::now();
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            let is_last = left.is_some_and(|left| left.is_zero());
            let sleep = self.with(py, |state| {
                if self.is_ready(py, state)? {
                    return Ok(None);
                }
                let bell = match &state.bell {
                    Some(bell) => bell.clone(),
                    None => {
                        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
                        let bell = eventfd(0, flags).map_err(std::io::Error::from)?;
                        state.bell.insert(Arc::new(bell)).clone()
                    }
                };
                let mut descriptors = SmallVec::new();
                if !is_last {
                    for watched in self.descriptors(py, state)? {
                        descriptors.push(watched.try_clone_to_owned()?);
                    }
                }
                // Check again, because a new descriptor does not signal messages that arrived
                // before its creation.
                if !descriptors.is_empty() && self.is_ready(py, state)? {
                    return Ok(None);
                }
                state.sleepers += 1;
                Ok(Some(Sleep {
                    descriptors,
                    bell,
                    until: state.deadline(),
                }))
            })?;
            let Some(sleep) = sleep else {
                return Ok(true);
            };
            if !is_last {
                py.detach(|| sleep.sleep(left.unwrap_or(SLICE)));
            }
            self.state.lock(py)?.sleepers -= 1;
            if is_last {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    fn received<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyBytes>> {
        self.with(py, |state| match &state.gone {
            Some(reason) if state.pending() == 0 => Err(ConnectionError::new_err(reason.clone())),
            _ => Ok(state.receive(py, most)),
        })
    }
}

fn duration(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let seconds = timeout.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)));
    let seconds = seconds.transpose();
    seconds.map_err(|error| PyValueError::new_err(format!("timeout: {error}")))
}

impl Drop for Peer {
    fn drop(&mut self) {
        let inbox = Inbox::new(&self.shared);
        let old = std::mem::replace(&mut self.state.get_mut().inbox, inbox);
        Python::attach(|py| {
            let limited = self.client.get().hasten(py);
            drop(old);
            if limited.is_some() {
                drop(limited);
                self.client.get().tell_left(py, &self.shared);
            }
        });
    }
}

#[pymethods]
impl Peer {
    #[new]
    fn new(py: Python<'_>, client: Py<Client>) -> PyResult<Peer> {
        let shared = client.get().shared(py)?;
        let state = State::new(&shared);
        Ok(Peer {
            client,
            shared,
            state: Busy::new(state),
            closed: AtomicBool::new(false),
        })
    }

    /// Accept bytes from the client and run the commands in them.
    ///
    /// If this method raises, the commands run at the next attempt to receive.
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let copied;
        let bytes = match data.cast::<PyBytes>() {
            Ok(bytes) => bytes.as_bytes(),
            Err(_) => {
                copied = PyBuffer::<u8>::get(data)?.to_vec(py)?;
                &copied
            }
        };
        self.with(py, |state| {
            state.input.extend_from_slice(bytes);
            let ran = self.run(py, state);
            state.ring();
            ran
        })
    }

    /// Return whether bytes are available or the connection has ended.
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| self.is_ready(py, state))
    }

    /// Wait until bytes are available or the connection has ended, for `timeout` seconds or
    /// forever.
    ///
    /// Return False on timeout.
    #[pyo3(name = "wait", signature = (timeout=None))]
    fn wait_for(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.wait(py, duration(timeout)?)
    }

    /// Return at most `most` bytes, as a socket with this timeout does.
    ///
    /// Return no bytes if the connection has ended.
    fn receive<'py>(
        &self,
        py: Python<'py>,
        most: usize,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if self.wait(py, duration(timeout)?)? {
            return self.received(py, most);
        }
        match timeout {
            Some(seconds) if seconds <= 0.0 => Err(PyBlockingIOError::new_err("no data yet")),
            _ => Err(PyTimeoutError::new_err("timed out")),
        }
    }

    /// Return all bytes that have arrived, or None if none have arrived yet.
    ///
    /// Return no bytes if the connection has ended.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match self.ready(py)? {
            true => self.received(py, usize::MAX).map(Some),
            false => Ok(None),
        }
    }

    /// Return the descriptors to watch and the seconds until a blocked command times out.
    ///
    /// The descriptors become readable when bytes may be available, and ten times a second while a
    /// command is blocked.
    fn watched(&self, py: Python<'_>) -> PyResult<(Vec<i32>, Option<f64>)> {
        self.with(py, |state| {
            let until = state.deadline();
            let watched = self.descriptors(py, state)?;
            let all = watched.iter().map(AsRawFd::as_raw_fd).collect();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            Ok((all, left.map(|left| left.as_secs_f64())))
        })
    }

    /// End the connection.
    ///
    /// A call that waits to receive raises an exception. An element intended for a blocked command
    /// of this connection goes to another waiter.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.closed.store(true, Ordering::Relaxed);
        // Return, because the call that the signal handler interrupted checks `closed`.
        if self.state.is_interrupted(py) {
            return Ok(());
        }
        let limited = self.client.get().hasten(py);
        let mut state = self.state.lock(py)?;
        state.session.waiting = None;
        state.ended = true;
        state.ring();
        let old = std::mem::replace(&mut state.inbox, Inbox::new(&self.shared));
        drop(state);
        drop(old);
        if limited.is_some() {
            drop(limited);
            self.client.get().tell_left(py, &self.shared);
        }
        Ok(())
    }
}
