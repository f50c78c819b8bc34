//! The other end of a connection that goes no further than this process: what redis-py's connections have in the place
//! of a socket.
//!
//! It takes what a client sends to a server, runs the commands in it, and keeps what the server would answer until that
//! is asked for. A command that waits for keys does not hold up who sent it: its reply comes later, as messages do.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBlockingIOError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use smallvec::SmallVec;
use undercroft_commands::Blocked;
use undercroft_commands::protocol::Protocol;
use undercroft_commands::session::Session;
use undercroft_embedded::{Exclusive, OpenStore, Receiver, StoreOf};
use undercroft_engine::{
    self as engine, Access, Answer, Begun, Error, Event, Message, Subscriber, Topic, Waiters,
    Wanted, defer_signals,
};
use undercroft_resp::{Limits, Parsed, RequestParser, Version, encode};
use undercroft_server::Writer;

use crate::busy::Busy;
use crate::client::Client;
use crate::error::{self, ConnectionError, Raises};

/// Between two looks at signals and at what is waited for, while a thread waits (M4).
const SLICE: Duration = Duration::from_millis(100);
/// Messages are taken out of the ring while fewer bytes than this wait to be received.
const MESSAGES: usize = 64 * 1024;
/// An empty buffer that has grown beyond this is given back.
const KEPT: usize = 64 * 1024;

/// The other end of one connection.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Peer {
    client: Py<Client>,
    shared: Arc<OpenStore>,
    /// Threads have it while they work on it, never while they wait.
    state: Busy<State>,
    closed: AtomicBool,
}

struct State {
    shared: Arc<OpenStore>,
    session: Session,
    inbox: Inbox,
    parser: RequestParser,
    /// What was sent and is not run yet begins at `start`.
    input: Vec<u8>,
    start: usize,
    /// What is to be received begins at `received`.
    out: Vec<u8>,
    received: usize,
    /// Nothing is run any more: what is left in `out` is the last.
    ended: bool,
    /// Why, where that is to be told: the store's file is gone.
    gone: Option<String>,
    tended: Instant,
    /// What wakes threads that wait, and how many these are.
    bell: Option<Arc<OwnedFd>>,
    sleepers: usize,
}

/// Where messages and items reach the connection.
struct Inbox {
    subscriber: Subscriber<StoreOf>,
    waiters: Waiters<StoreOf>,
    version: Version,
    /// Messages that are to stand in front of the reply of the command that runs.
    messages: Vec<u8>,
    /// Some were overwritten before they were taken.
    lost: bool,
}

impl Inbox {
    fn new(shared: &Arc<OpenStore>) -> Inbox {
        Inbox {
            subscriber: Subscriber::new(StoreOf(shared.clone())),
            waiters: Waiters::new(StoreOf(shared.clone())),
            version: Version::Resp2,
            messages: Vec::new(),
            lost: false,
        }
    }

    /// Takes the next message, if one has come. `rung` says that a descriptor may have been readable.
    fn take(&mut self, rung: bool) -> Result<bool, Error> {
        match self.subscriber.try_next_after(rung)? {
            Some(Event::Message(message)) => append(&mut self.messages, self.version, &message),
            Some(Event::Lost(_)) => self.lost = true,
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Takes all that had come when this was called, which is no more than a ring holds.
    fn take_all(&mut self) -> Result<(), Error> {
        let newest = self.subscriber.newest();
        let mut before = None;
        while let Some(position) = self.subscriber.position()
            && position < newest
            && before != Some(position)
        {
            before = Some(position);
            self.take(false)?;
        }
        Ok(())
    }
}

fn append(out: &mut Vec<u8>, version: Version, message: &Message<'_>) {
    let mut write = |parts: &[&[u8]]| {
        encode::push(out, version, parts.len());
        parts.iter().for_each(|part| encode::bulk(out, part));
    };
    if message.direct {
        let kind: &[u8] = match message.topic {
            Topic::Shard => b"smessage",
            _ => b"message",
        };
        write(&[kind, message.channel, message.payload]);
    }
    for pattern in message.patterns {
        write(&[b"pmessage", pattern, message.channel, message.payload]);
    }
}

impl Receiver for Inbox {
    fn take_or_wait(
        &mut self,
        _: Access<'_>,
        wanted: &Wanted<'_>,
        _: Option<Duration>,
    ) -> Result<Begun, Error> {
        // Who receives sees to the timeout.
        self.waiters.begin(wanted)
    }

    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.subscriber.subscribe(topic, names)
    }

    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        // Messages that were published before are still for it.
        self.take_all()?;
        self.subscriber.unsubscribe(topic, names)
    }
}

/// What keeps commands from being run now.
enum Obstacle {
    Lock(Blocked),
    Failure(Error),
}

impl State {
    /// Runs what was sent, as far as it goes, and takes what has come.
    fn run(&mut self) -> Result<(), Obstacle> {
        while !self.ended && self.is_answered()? && self.step()? {}
        if self.start == self.input.len() {
            self.start = 0;
            self.input.clear();
            if self.input.capacity() > KEPT {
                self.input = Vec::new();
            }
        }
        if !self.ended && self.inbox.subscriber.is_active() {
            self.take_messages().map_err(Obstacle::Failure)?;
        }
        Ok(())
    }

    /// Runs the next command. Returns false where there is none.
    fn step(&mut self) -> Result<bool, Obstacle> {
        let rest = &self.input[self.start..];
        if rest.is_empty() {
            return Ok(false);
        }
        let length = match self.parser.parse(rest) {
            Ok(Parsed::Command(length)) => length,
            Ok(Parsed::Ignored(length)) => {
                self.start += length;
                return Ok(true);
            }
            Ok(Parsed::Incomplete { .. }) => return Ok(false),
            Err(error) => {
                error.reply(&mut self.out);
                self.ended = true;
                return Ok(false);
            }
        };
        let words: SmallVec<[&[u8]; 8]> = self.parser.args(rest).iter().collect();
        let before = self.out.len();
        let was_subscribed = !self.session.subscriptions.is_empty();
        self.inbox.version = version(&self.session);
        let mut writer = Writer::new(std::mem::take(&mut self.out), self.session.protocol);
        let inbox = Exclusive::new(&mut self.inbox);
        let ran = self
            .shared
            .execute_unfinished(&inbox, &mut self.session, &words, &mut writer);
        drop((words, inbox));
        self.out = writer.out;
        if let Err(blocked) = ran {
            // The same command is parsed anew when it is run again.
            self.parser = parser();
            return Err(Obstacle::Lock(blocked));
        }
        self.start += length;
        if self.session.waiting.is_none() {
            self.finish(before, was_subscribed)?;
        }
        Ok(true)
    }

    /// Ends a command whose reply begins at `before`.
    fn finish(&mut self, before: usize, was_subscribed: bool) -> Result<(), Obstacle> {
        if !self.session.finish_command() {
            self.out.truncate(before);
        }
        if was_subscribed {
            // What it sent to itself comes before the reply.
            self.inbox.take_all().map_err(Obstacle::Failure)?;
        }
        if !self.inbox.messages.is_empty() {
            let reply = self.out.split_off(before);
            self.out.append(&mut self.inbox.messages);
            self.out.extend_from_slice(&reply);
        }
        self.ended |= self.session.close_after_reply || self.inbox.lost;
        if self.out.get(before) == Some(&b'-') && self.shared.store.removed() {
            let text = String::from_utf8_lossy(&self.out[before + 1..]).into_owned();
            let reason = text.split_once(' ').map_or(&*text, |(_, reason)| reason);
            self.gone = Some(reason.trim_end().to_owned());
            self.out.truncate(before);
            self.ended = true;
        }
        Ok(())
    }

    /// Whether no command waits for keys any more; then its reply is there.
    fn is_answered(&mut self) -> Result<bool, Obstacle> {
        let Some(wait) = self.session.waiting else {
            return Ok(true);
        };
        let now = Instant::now();
        if now - self.tended >= SLICE {
            self.tended = now;
            self.inbox.waiters.tend();
        }
        // A signal's handler runs behind the look, and a lock that is in the way is no obstacle to another one.
        let deferred = defer_signals();
        let answer = self.answer(&wait);
        drop(deferred);
        match answer {
            Ok(None) => Ok(false),
            Ok(Some(answer)) => {
                self.session.waiting = None;
                let before = self.out.len();
                let mut writer = Writer::new(std::mem::take(&mut self.out), self.session.protocol);
                wait.answer(&answer, &mut writer);
                self.out = writer.out;
                self.finish(before, !self.session.subscriptions.is_empty())?;
                Ok(true)
            }
            Err(error) if error.is_busy() => Ok(false),
            Err(error) => Err(Obstacle::Failure(error)),
        }
    }

    fn answer(&mut self, wait: &undercroft_commands::wait::Wait) -> Result<Option<Answer>, Error> {
        let waiters: &mut engine::Waiters<StoreOf> = &mut self.inbox.waiters;
        // The descriptor is readable again with the next answer.
        waiters.answered(true)?;
        if let Some(answer) = waiters.finish(wait.ticket)? {
            return Ok(Some(answer));
        }
        match wait.deadline {
            Some(deadline) if deadline <= Instant::now() => {
                let answer = waiters.leave(wait.ticket)?;
                Ok(Some(answer.unwrap_or(Answer::TimedOut)))
            }
            _ => Ok(None),
        }
    }

    /// Takes messages. What is not received yet stays in the ring.
    fn take_messages(&mut self) -> Result<(), Error> {
        self.inbox.version = version(&self.session);
        let mut rung = true;
        while self.pending() + self.inbox.messages.len() < MESSAGES && self.inbox.take(rung)? {
            rung = false;
        }
        self.out.append(&mut self.inbox.messages);
        // As a server closes a connection that does not keep up.
        self.ended |= self.inbox.lost;
        Ok(())
    }

    /// Bytes that wait to be received.
    fn pending(&self) -> usize {
        self.out.len() - self.received
    }

    /// Takes so many of them at most.
    fn receive<'py>(&mut self, py: Python<'py>, most: usize) -> Bound<'py, PyBytes> {
        let end = self.out.len().min(self.received.saturating_add(most));
        let bytes = PyBytes::new(py, &self.out[self.received..end]);
        self.received = end;
        if end == self.out.len() {
            self.received = 0;
            self.out.clear();
            if self.out.capacity() > KEPT {
                self.out = Vec::new();
            }
        }
        bytes
    }

    /// Copies of the descriptors that are readable when something may have come.
    fn descriptors(&mut self) -> Result<SmallVec<[OwnedFd; 2]>, Error> {
        let copied = |error: std::io::Error| Error::Name(error.to_string().into());
        let mut all = SmallVec::new();
        if self.session.waiting.is_some() {
            let descriptor = self.inbox.waiters.descriptor()?;
            all.push(descriptor.try_clone_to_owned().map_err(copied)?);
        }
        if self.inbox.subscriber.is_active() {
            let descriptor = self.inbox.subscriber.descriptor()?;
            all.push(descriptor.try_clone_to_owned().map_err(copied)?);
        }
        Ok(all)
    }

    /// Wakes threads that wait for something to be received.
    fn ring(&self) {
        if let (Some(bell), 1..) = (&self.bell, self.sleepers) {
            // A bell that is full is ringing.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }
}

fn version(session: &Session) -> Version {
    match session.protocol {
        Protocol::Resp2 => Version::Resp2,
        Protocol::Resp3 => Version::Resp3,
    }
}

fn parser() -> RequestParser {
    RequestParser::new(Limits {
        authenticated: true,
        ..Limits::default()
    })
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
            Obstacle::Lock(blocked) => error::raise_wait(py, Raises::RedisPys, &blocked),
            Obstacle::Failure(failure) => {
                error::raise(py, Raises::RedisPys, &self.shared.store, failure)
            }
        })
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
                let descriptors = match is_last {
                    true => SmallVec::new(),
                    false => state.descriptors().map_err(|failure| {
                        error::raise(py, Raises::RedisPys, &self.shared.store, failure)
                    })?,
                };
                // Nobody rings for what came before they were asked for.
                if !descriptors.is_empty() && self.is_ready(py, state)? {
                    return Ok(None);
                }
                state.sleepers += 1;
                Ok(Some(Sleep {
                    descriptors,
                    bell,
                    until: state.session.waiting.and_then(|wait| wait.deadline),
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
        let state = State {
            shared: shared.clone(),
            session: shared.session(),
            inbox: Inbox::new(&shared),
            parser: parser(),
            input: Vec::new(),
            start: 0,
            out: Vec::new(),
            received: 0,
            ended: false,
            gone: None,
            tended: Instant::now(),
            bell: None,
            sleepers: 0,
        };
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
            let raised = |failure| error::raise(py, Raises::RedisPys, &self.shared.store, failure);
            let mut all = Vec::new();
            if state.session.waiting.is_some() {
                let descriptor = state.inbox.waiters.descriptor().map_err(raised)?;
                all.push(descriptor.as_raw_fd());
            }
            if state.inbox.subscriber.is_active() {
                let descriptor = state.inbox.subscriber.descriptor().map_err(raised)?;
                all.push(descriptor.as_raw_fd());
            }
            let until = state.session.waiting.and_then(|wait| wait.deadline);
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
