//! The other end of a connection that goes no further than this process: what redis-py's connections have in the place
//! of a socket.
//!
//! It takes what a client sends to a server, runs the commands in it, and keeps what the server would answer until that
//! is asked for. A command that waits for keys does not hold up who sent it: its reply comes later, as messages do.
//!
//! - `inbox`: where messages, and the items of waits, reach it.
//! - `state`: its session, what was sent to it and what it answers.

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

/// The other end of one connection.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Peer {
    client: Py<Client>,
    shared: Arc<OpenStore>,
    /// Threads have it while they work on it, never while they wait.
    state: Busy<State>,
    closed: AtomicBool,
}

/// What a thread that waits needs while others work on the state.
struct Sleep {
    descriptors: SmallVec<[OwnedFd; 2]>,
    bell: Arc<OwnedFd>,
    /// When a command's time is up.
    until: Option<Instant>,
}

impl Sleep {
    /// Waits until something may have come, for so long at most.
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
        // Interrupted or not, the caller looks at everything.
        if poll(&mut polled, Some(&time)).is_ok() {
            let rung = polled.last().is_some_and(|bell| !bell.revents().is_empty());
            if rung {
                let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
            }
        }
    }
}

impl Peer {
    /// Works on the state, waiting for locks as the client's calls do.
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

    /// Whether something can be received, or that the connection has ended.
    fn is_ready(&self, py: Python<'_>, state: &mut State) -> PyResult<bool> {
        if state.pending() == 0 {
            self.run(py, state)?;
        }
        Ok(state.pending() > 0 || state.ended)
    }

    /// Waits until something can be received. Returns false where nothing came in time.
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
                // Nobody rings for what came before they were asked for.
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

    /// Take bytes that a client sends, and run the commands in them. Where that raises, they are run when something is
    /// to be received.
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

    /// Return whether something can be received at once: bytes, or that the connection has ended.
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |state| self.is_ready(py, state))
    }

    /// Wait until something can be received, for so many seconds or for ever. Return whether that is so.
    #[pyo3(name = "wait", signature = (timeout=None))]
    fn wait_for(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.wait(py, duration(timeout)?)
    }

    /// Return bytes, so many at most, as a socket with this timeout does: none where the connection has ended.
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
            Some(seconds) if seconds <= 0.0 => {
                Err(PyBlockingIOError::new_err("nothing has come yet"))
            }
            _ => Err(PyTimeoutError::new_err("timed out")),
        }
    }

    /// Return all bytes that can be received at once; no bytes where the connection has ended, and None where nothing
    /// has come yet.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match self.ready(py)? {
            true => self.received(py, usize::MAX).map(Some),
            false => Ok(None),
        }
    }

    /// Return the descriptors that are readable when something may have come, and ten times a second besides, and in
    /// how many seconds the time of a command that waits is up.
    fn watched(&self, py: Python<'_>) -> PyResult<(Vec<i32>, Option<f64>)> {
        self.with(py, |state| {
            let until = state.deadline();
            let watched = self.descriptors(py, state)?;
            let all = watched.iter().map(AsRawFd::as_raw_fd).collect();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            Ok((all, left.map(|left| left.as_secs_f64())))
        })
    }

    /// End the connection: who waits to receive something raises, and what a command waits for goes to others.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.closed.store(true, Ordering::Relaxed);
        // The call that a signal's handler has interrupted finds out.
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
