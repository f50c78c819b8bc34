//! What `undercroft.PubSub` is built on: one receiver of messages.
//!
//! It is a connection as the commands see it: SUBSCRIBE and its like run through
//! the one command table, and what they confirm stands in a queue with the
//! messages, in the order in which a socket would bring them.

use std::collections::VecDeque;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use undercroft_commands::config::{Config, Parameter, Value};
use undercroft_commands::info::Facts;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::{ClientInfo, Host, KillFilter, Session, ShutdownOptions};
use undercroft_commands::slowlog::SlowLog;
use undercroft_commands::{Context, execute};
use undercroft_engine::{Error, Event, Message, Store, Subscriber, Topic};

use crate::client::Client;
use crate::error;
use crate::execute::with_words;
use crate::reply::{Answer, Objects};
use crate::shared::Shared;

/// Between two looks at signals, and at what other threads changed, while a thread waits.
const SLICE: Duration = Duration::from_millis(100);
/// Before another look at what another thread has in use.
const PAUSE: Duration = Duration::from_micros(20);

/// The store of a process, as a subscriber holds it.
struct StoreOf(Arc<Shared>);

impl Deref for StoreOf {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0.store
    }
}

/// A receiver of messages, and what it received.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Subscription {
    client: Py<Client>,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

struct State {
    session: Session,
    inner: Mutex<Inner>,
}

/// What the commands change.
struct Inner {
    subscriber: Subscriber<StoreOf>,
    queue: VecDeque<Tree>,
    lost: u64,
}

impl Inner {
    /// Takes what has come into the queue.
    fn collect(&mut self) -> Result<(), Error> {
        while let Some(event) = self.subscriber.try_next()? {
            match event {
                Event::Message(message) => push(&mut self.queue, &message),
                Event::Lost(count) => {
                    self.lost += count;
                    let count = Tree::Integer(count as i64);
                    let kind = Tree::Bulk(b"lost".to_vec());
                    self.queue
                        .push_back(Tree::Array(vec![kind, Tree::Null, count]));
                }
            }
        }
        Ok(())
    }
}

fn push(queue: &mut VecDeque<Tree>, message: &Message<'_>) {
    let array =
        |parts: &[&[u8]]| Tree::Array(parts.iter().map(|part| Tree::Bulk(part.to_vec())).collect());
    if message.direct {
        let kind: &[u8] = match message.topic {
            Topic::Shard => b"smessage",
            _ => b"message",
        };
        queue.push_back(array(&[kind, message.channel, message.payload]));
    }
    for pattern in message.patterns {
        let kind: &[u8] = b"pmessage";
        queue.push_back(array(&[kind, pattern, message.channel, message.payload]));
    }
}

/// The process as a connection that receives messages sees it.
struct Listening<'a> {
    shared: &'a Shared,
    inner: &'a Mutex<Inner>,
}

impl Listening<'_> {
    /// Only the thread that runs the command comes here.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Host for Listening<'_> {
    fn subscribe(&self, _: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.inner().subscriber.subscribe(topic, names)
    }

    fn unsubscribe(&self, _: &Session, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        let mut inner = self.inner();
        // What was published before is still for it.
        inner.collect()?;
        inner.subscriber.unsubscribe(topic, names)
    }

    fn now_microseconds(&self) -> i64 {
        self.shared.host.now_microseconds()
    }

    fn config(&self) -> &Config {
        self.shared.host.config()
    }

    fn apply(
        &self,
        changes: &[(&'static Parameter, Value)],
    ) -> Result<(), (&'static Parameter, String)> {
        self.shared.host.apply(changes)
    }

    fn slowlog(&self) -> &SlowLog {
        self.shared.host.slowlog()
    }

    fn clients(&self) -> Vec<ClientInfo> {
        self.shared.host.clients()
    }

    fn pause(&self, until: i64, all: bool) -> Result<(), String> {
        self.shared.host.pause(until, all)
    }

    fn unpause(&self) {
        self.shared.host.unpause();
    }

    fn kill(&self, filter: &KillFilter) -> usize {
        self.shared.host.kill(filter)
    }

    fn authenticate(&self, user: &[u8], password: &[u8]) -> bool {
        self.shared.host.authenticate(user, password)
    }

    fn initial_user(&self) -> Option<String> {
        self.shared.host.initial_user()
    }

    fn facts(&self) -> Facts {
        self.shared.host.facts()
    }

    fn reset_statistics(&self) {
        self.shared.host.reset_statistics();
    }

    fn shutdown(&self, options: ShutdownOptions) -> Result<(), String> {
        self.shared.host.shutdown(options)
    }
}

impl Subscription {
    /// The state, once no other thread has it. Threads hold it while they work
    /// on it, never while they wait for messages.
    fn state(&self, py: Python<'_>) -> MutexGuard<'_, State> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => py.detach(|| std::thread::sleep(PAUSE)),
            }
        }
    }

    fn raise(&self, py: Python<'_>, error: Error) -> PyErr {
        error::raise(py, &self.shared.store, error)
    }
}

impl State {
    fn inner(&mut self) -> &mut Inner {
        self.inner
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl Subscription {
    #[new]
    fn new(py: Python<'_>, client: Py<Client>) -> PyResult<Subscription> {
        let shared = client.get().shared(py)?;
        let now = shared.host.now_microseconds() / 1000;
        let session = Session::new(1, shared.host.initial_user(), now);
        let inner = Inner {
            subscriber: Subscriber::new(StoreOf(shared.clone())),
            queue: VecDeque::new(),
            lost: 0,
        };
        Ok(Subscription {
            client,
            shared,
            state: Mutex::new(State {
                session,
                inner: Mutex::new(inner),
            }),
        })
    }

    /// Run SUBSCRIBE or one of its like; what it confirms comes with the messages.
    fn command(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
        let replies = with_words(self.client.get(), arguments, |words| {
            let mut state = self.state(py);
            let State { session, inner } = &mut *state;
            let host = Listening {
                shared: &self.shared,
                inner,
            };
            let mut recorder = Recorder::new();
            let mut context = Context::new(session, &host, &self.shared.store);
            execute(&mut context, words, &mut recorder)
                .map_err(|blocked| error::raise_wait(py, &blocked))?;
            session.finish_command();
            let replies = recorder.finish().unwrap_or_default();
            if let [Tree::Error(text)] = &replies[..] {
                return Err(error::raise_reply(py, &self.shared.store, text));
            }
            Ok(replies)
        })?;
        let mut state = self.state(py);
        let replies = replies.into_iter().map(Tree::into_resp2);
        state.inner().queue.extend(replies);
        Ok(())
    }

    /// Return the next message or confirmation, as a list. Waits for ``timeout``
    /// seconds, or for ever.
    #[pyo3(signature = (timeout=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let timeout = match timeout {
            Some(seconds) if seconds <= 0.0 => Some(Duration::ZERO),
            Some(seconds) => Some(
                Duration::try_from_secs_f64(seconds)
                    .map_err(|error| PyValueError::new_err(format!("timeout: {error}")))?,
            ),
            None => None,
        };
        let start = Instant::now();
        loop {
            let mut state = self.state(py);
            let inner = state.inner();
            if inner.queue.is_empty() {
                inner.collect().map_err(|error| self.raise(py, error))?;
            }
            if let Some(tree) = inner.queue.pop_front() {
                drop(state);
                let codec = &self.client.get().codec;
                let mut reply = Objects::new(py, codec, true);
                tree.write(&mut reply);
                return match reply.finish()? {
                    Answer::Value(value) => Ok(Some(value)),
                    Answer::Error(text) => Err(error::raise_reply(py, &self.shared.store, &text)),
                };
            }
            let left = timeout.map_or(SLICE, |timeout| {
                timeout.saturating_sub(start.elapsed()).min(SLICE)
            });
            if left.is_zero() {
                return Ok(None);
            }
            let waiting = inner.subscriber.waiting();
            drop(state);
            let waiting = waiting.map_err(|error| self.raise(py, error))?;
            self.shared
                .store
                .wait_for_message(&waiting, Some(left))
                .map_err(|error| self.raise(py, error))?;
        }
    }

    /// Whether a message or a confirmation can be read at once.
    fn ready(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = self.state(py);
        let inner = state.inner();
        inner.collect().map_err(|error| self.raise(py, error))?;
        Ok(!inner.queue.is_empty())
    }

    /// Return a descriptor for event loops: readable when something may have come.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        let mut state = self.state(py);
        let descriptor = state.inner().subscriber.descriptor();
        let number = descriptor.map(|descriptor| descriptor.as_raw_fd());
        drop(state);
        number.map_err(|error| self.raise(py, error))
    }

    /// The number of messages that were overwritten before they were read.
    #[getter]
    fn lost(&self, py: Python<'_>) -> u64 {
        self.state(py).inner().lost
    }
}
