//! Native code for `undercroft.PubSub`, which receives messages.
//!
//! To the commands, a receiver looks like a connection. SUBSCRIBE and related commands run through
//! the shared command table. Their confirmations are queued with the messages, in the order in
//! which a socket would deliver them.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::Session;
use undercroft_embedded::{Exclusive, OpenStore, Receiver, StoreOf};
use undercroft_engine::Error;
use undercroft_engine::messages::{Event, Message, Subscriber, Topic};

use crate::client::Client;
use crate::conversion::reply::{Answer, Objects};
use crate::error::{self, ConnectionError};
use crate::execute::with_words;
use crate::threads::busy::Busy;

/// The interval at which a waiting thread checks for signals and for changes by other threads.
const SLICE: Duration = Duration::from_millis(100);

/// A message receiver and its queue.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Subscription {
    client: Py<Client>,
    shared: Arc<OpenStore>,
    /// State that threads lock while they work on it, but not while they wait for messages.
    state: Busy<State>,
    closed: AtomicBool,
}

struct State {
    session: Session,
    inner: Inner,
}

/// The state that subscription commands change.
struct Inner {
    subscriber: Subscriber<StoreOf>,
    queue: VecDeque<Tree>,
    lost: u64,
}

impl Inner {
    /// Moves the next message, if any, into the queue. Further messages remain in the ring until
    /// they are needed.
    fn take(&mut self) -> Result<(), Error> {
        match self.subscriber.try_next()? {
            Some(Event::Message(message)) => push(&mut self.queue, &message),
            Some(Event::Lost(count)) => {
                self.lost += count;
                let count = Tree::Integer(count as i64);
                let kind = Tree::Bulk(b"lost".to_vec());
                self.queue
                    .push_back(Tree::Array(vec![kind, Tree::Null, count]));
            }
            None => {}
        }
        Ok(())
    }

    /// Reads all messages that were published before this call. The size of the ring limits their
    /// number, even if publishers are fast.
    fn take_all(&mut self) -> Result<(), Error> {
        let newest = self.subscriber.newest();
        let mut before = None;
        while let Some(position) = self.subscriber.position()
            && position < newest
            && before != Some(position)
        {
            before = Some(position);
            self.take()?;
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

impl Receiver for Inner {
    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.subscriber.subscribe(topic, names)
    }

    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        // First read the messages published before the unsubscription, because they are still
        // delivered.
        self.take_all()?;
        self.subscriber.unsubscribe(topic, names)
    }
}

impl Subscription {
    /// Runs `work` on the state. Fails if the receiver is closed before or during the work.
    fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> PyResult<R>) -> PyResult<R> {
        self.hurrying(py, || self.work(py, work))
    }

    /// Runs `work` with the client's limit on lock waits.
    fn hurrying<R>(&self, py: Python<'_>, work: impl FnOnce() -> R) -> R {
        let limited = self.client.get().hasten(py);
        let result = work();
        if limited.is_some() {
            drop(limited);
            self.client.get().tell_left(py, &self.shared);
        }
        result
    }

    fn work<R>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> PyResult<R>) -> PyResult<R> {
        let mut state = self.state.lock(py)?;
        self.open()?;
        let result = work(&mut state);
        let open = self.open();
        if open.is_err() {
            // A signal handler closed the receiver, and this call must clean up.
            self.end(&mut state.inner);
        }
        let result = result?;
        open.map(|()| result)
    }

    fn open(&self) -> PyResult<()> {
        match self.closed.load(Ordering::Relaxed) {
            true => Err(ConnectionError::new_err("Connection closed by its client.")),
            false => Ok(()),
        }
    }

    /// Unsubscribes from all channels and patterns.
    fn end(&self, inner: &mut Inner) {
        inner.queue.clear();
        inner.subscriber = Subscriber::new(StoreOf(self.shared.clone()));
    }

    fn raise(&self, py: Python<'_>, error: Error) -> PyErr {
        error::raise(
            py,
            self.client.get().codec.raises,
            &self.shared.store,
            error,
        )
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let subscriber = Subscriber::new(StoreOf(self.shared.clone()));
        let old = std::mem::replace(&mut self.state.get_mut().inner.subscriber, subscriber);
        Python::attach(|py| self.hurrying(py, || drop(old)));
    }
}

#[pymethods]
impl Subscription {
    #[new]
    fn new(py: Python<'_>, client: Py<Client>) -> PyResult<Subscription> {
        let mut shared = client.get().shared(py)?;
        // A receiver never changes its store, so it must not start on a removed store. `removed`
        // notices the removal, and the second call to `shared` then opens the store's replacement.
        if shared.store.removed() {
            shared = client.get().shared(py)?;
        }
        let session = shared.session();
        let inner = Inner {
            subscriber: Subscriber::new(StoreOf(shared.clone())),
            queue: VecDeque::new(),
            lost: 0,
        };
        Ok(Subscription {
            client,
            shared,
            state: Busy::new(State { session, inner }),
            closed: AtomicBool::new(false),
        })
    }

    /// Run a subscription command, whose confirmations are queued with the messages.
    fn command(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<()> {
        let codec = &self.client.get().codec;
        let raises = codec.raises;
        with_words(codec, arguments.iter_borrowed(), |words| {
            self.with(py, |State { session, inner }| {
                let mut recorder = Recorder::new();
                self.shared
                    .execute_for(&Exclusive::new(inner), session, words, &mut recorder)
                    .map_err(|blocked| error::raise_blocked(py, raises, &blocked))?;
                let replies = recorder.finish().unwrap_or_default();
                if let [Tree::Error(text)] = &replies[..] {
                    return Err(error::raise_reply(py, raises, &self.shared.store, text));
                }
                let replies = replies.into_iter().map(Tree::into_resp2);
                inner.queue.extend(replies);
                Ok(())
            })
        })
    }

    /// Close the receiver, which ends all subscriptions. A call that waits for a message raises an
    /// exception.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.closed.store(true, Ordering::Relaxed);
        // Return, because the call that the signal handler interrupted ends the subscriptions.
        if self.state.is_interrupted(py) {
            return Ok(());
        }
        self.hurrying(py, || {
            let mut state = self.state.lock(py)?;
            self.end(&mut state.inner);
            Ok(())
        })
    }

    /// Return the next message or confirmation as a list.
    ///
    /// Wait for `timeout` seconds, or forever. Return None on timeout.
    #[pyo3(signature = (timeout=None, decode=true))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        decode: bool,
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
            let next = self.with(py, |State { inner, .. }| {
                if inner.queue.is_empty() {
                    inner.take().map_err(|error| self.raise(py, error))?;
                }
                if let Some(tree) = inner.queue.pop_front() {
                    return Ok(ControlFlow::Break(Some(tree)));
                }
                let left = timeout.map_or(SLICE, |timeout| {
                    timeout.saturating_sub(start.elapsed()).min(SLICE)
                });
                if left.is_zero() {
                    return Ok(ControlFlow::Break(None));
                }
                let waiting = inner.subscriber.waiting();
                let waiting = waiting.map_err(|error| self.raise(py, error))?;
                Ok(ControlFlow::Continue((waiting, left)))
            })?;
            let tree = match next {
                ControlFlow::Continue((waiting, left)) => {
                    let store = &self.shared.store;
                    let waited = store.wait_for_message(&waiting, Some(left));
                    waited.map_err(|error| self.raise(py, error))?;
                    continue;
                }
                ControlFlow::Break(None) => return Ok(None),
                ControlFlow::Break(Some(tree)) => tree,
            };
            let codec = &self.client.get().codec;
            let mut reply = Objects::new(py, codec, decode);
            tree.write(&mut reply);
            return match reply.finish()? {
                Answer::Value(value) => Ok(Some(value)),
                Answer::Error(text) => Err(error::raise_reply(
                    py,
                    codec.raises,
                    &self.shared.store,
                    &text,
                )),
            };
        }
    }

    /// Return a descriptor for event loops that becomes readable when a message may be available.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |state| {
            let descriptor = state.inner.subscriber.descriptor();
            let number = descriptor.map(|descriptor| descriptor.as_raw_fd());
            number.map_err(|error| self.raise(py, error))
        })
    }

    /// The number of messages that were overwritten before they were read.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.state.lock(py)?.inner.lost)
    }
}
