//! The tasks of one event loop that wait for keys, all at one seat (a futex slot in the store)
//! whose descriptor the loop watches.
//!
//! When a wait ends, its task is woken and collects the answer itself. If the task is cancelled
//! before that, the elements in the answer are restored.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple};
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::session::wait;
use undercroft_commands::table::{self, Flag};
use undercroft_embedded::{Exclusive, OpenStore, Receiver, StoreOf, Taken};
use undercroft_engine::messages::Topic;
use undercroft_engine::waiting::{Answer, Take, Ticket, WaitOutcome, Wanted};
use undercroft_engine::{self as engine, Access, Error, defer_signals};

use crate::channel::ChannelLink;
use crate::client::Client;
use crate::conversion::reply::{self, Objects};
use crate::error::{self, ConnectionError};
use crate::execute::with_words;
use crate::taken;
use crate::threads::busy::Busy;
use crate::threads::gil_cell::GilCell;
use crate::threads::nonblocking::Locked;

/// The interval at which all keys that tasks wait for are rechecked (M4).
const TEND: Duration = Duration::from_millis(100);
/// The delay before the next attempt if a lock is held.
const RETRY: Duration = Duration::from_millis(50);

/// Return whether a command may wait for keys, given its name as text or bytes.
#[pyfunction]
pub(crate) fn waits(name: &Bound<'_, PyAny>) -> PyResult<bool> {
    let may_wait =
        |name: &[u8]| table::find(name).is_some_and(|command| command.flags.has(Flag::Blocking));
    if let Ok(text) = name.cast::<PyString>() {
        // A name that is not valid Unicode is not the name of a command.
        return Ok(text.to_cow().is_ok_and(|text| may_wait(text.as_bytes())));
    }
    if let Ok(bytes) = name.cast::<PyBytes>() {
        return Ok(may_wait(bytes.as_bytes()));
    }
    Ok(name
        .cast::<PyByteArray>()
        .is_ok_and(|bytes| may_wait(&bytes.to_vec())))
}

/// The tasks of one event loop that wait for keys in one store.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Waiters {
    client: Py<Client>,
    state: Busy<State>,
}

struct State {
    shared: Arc<OpenStore>,
    seated: Seated,
    waits: HashMap<Ticket, Py<Wait>>,
    tended: Instant,
    /// The time before which no task is woken, because a held lock blocked an answer.
    retry_at: Option<Instant>,
}

/// A blocked command, or a task that waits for a channel.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Wait {
    wait: wait::Wait,
    client: Py<Client>,
    decode: bool,
    /// Whether the wait is for a channel. A wait for a channel has no reply, and its task retries
    /// the channel call.
    looks: bool,
    /// The ticket for the elements that the command removes, to restore them if the reply does not
    /// reach the task.
    begun: GilCell<Option<Taken>>,
}

/// The state of a wait.
enum Finished {
    /// The wait continues.
    Not,
    /// The store was removed, and the task must retry the channel call.
    Looked,
    Answered(Arc<OpenStore>, Answer),
}

/// The seat (a futex slot in the store) at which these tasks wait.
struct Seated(engine::waiting::Waiters<StoreOf>);

impl Receiver for Seated {
    fn take_or_wait(
        &mut self,
        _: Access<'_>,
        wanted: &Wanted<'_>,
        _: Option<Duration>,
    ) -> Result<WaitOutcome, Error> {
        // Begin without a timeout, because the event loop handles timeouts.
        self.0.begin(wanted)
    }

    fn subscribe(&mut self, _: Topic, _: &[&[u8]]) -> Result<(), Error> {
        Err(Error::Name("expected a command that waits for keys".into()))
    }

    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) -> Result<(), Error> {
        self.subscribe(topic, names)
    }
}

impl State {
    fn new(shared: Arc<OpenStore>) -> State {
        State {
            seated: Seated(engine::waiting::Waiters::new(StoreOf(shared.clone()))),
            shared,
            waits: HashMap::new(),
            tended: Instant::now(),
            retry_at: None,
        }
    }

    /// Switches to the store that the client currently has open.
    fn follow(&mut self, shared: Arc<OpenStore>) -> PyResult<()> {
        if Arc::ptr_eq(&self.shared, &shared) {
            return Ok(());
        }
        if !self.waits.is_empty() && self.shared.store.is_lost() {
            // The remaining waits end at the next call to `look`.
            return Err(Locked::new_err(
                "other tasks still wait for keys of a removed store; cancel them or wait for them \
                 first",
            ));
        }
        if !self.waits.is_empty() {
            return Err(ConnectionError::new_err(
                "the store was recreated while other tasks wait for keys of the removed one; try \
                 again",
            ));
        }
        *self = State::new(shared);
        Ok(())
    }

    /// Returns the waits that have ended. Returns none if a lock prevents the check, because the
    /// next check follows soon. Returns all waits after any other error.
    ///
    /// Signals are deferred during the call, and a deferred call waits only once for the same lock.
    /// A process that was stopped while it owned a lock therefore delays this call only once.
    /// Signal handlers run after the call.
    fn answered(&mut self, py: Python<'_>) -> Vec<Py<Wait>> {
        let now = Instant::now();
        if now - self.tended >= TEND {
            self.tended = now;
            self.seated.0.tend();
        }
        let _deferred = defer_signals();
        let answered = self.seated.0.answered(true);
        if self.retry_at.is_some_and(|time| now < time) {
            return Vec::new();
        }
        match answered {
            Ok(tickets) => {
                let known = tickets.iter().filter_map(|ticket| self.waits.get(ticket));
                known.map(|wait| wait.clone_ref(py)).collect()
            }
            Err(error) if error.is_busy() => Vec::new(),
            Err(_) => self.waits.values().map(|wait| wait.clone_ref(py)).collect(),
        }
    }

    /// Returns a command's answer, or the timeout if its time is up. Returns None if the wait
    /// continues, or if a lock is held, which is handled as in `answered`.
    fn finish(&mut self, wait: &wait::Wait) -> Result<Option<Answer>, Error> {
        let _deferred = defer_signals();
        match self.ended(wait) {
            Err(error) if error.is_busy() => {
                self.retry_at = Some(Instant::now() + RETRY);
                Ok(None)
            }
            ended => ended,
        }
    }

    fn ended(&mut self, wait: &wait::Wait) -> Result<Option<Answer>, Error> {
        if let Some(answer) = self.seated.0.finish(wait.ticket)? {
            return Ok(Some(answer));
        }
        match wait.deadline {
            Some(deadline) if deadline <= Instant::now() => {
                let answer = self.seated.0.leave(wait.ticket)?;
                Ok(Some(answer.unwrap_or(Answer::TimedOut)))
            }
            _ => Ok(None),
        }
    }
}

/// Records the removed elements, and returns the object for a complete reply.
fn arrived<'py>(
    py: Python<'py>,
    shared: &OpenStore,
    recorder: Recorder,
    begun: Option<Taken>,
    mut reply: Objects<'py, '_>,
    list: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let whole = recorder.finish().ok().and_then(|mut all| all.pop());
    let whole = whole.unwrap_or(Tree::Null);
    if let Some(begun) = begun {
        taken::keep(py, shared, list, begun.with_reply(whole.clone()))?;
    }
    whole.write(&mut reply);
    let raises = reply.raises();
    match reply.finish()? {
        reply::Answer::Value(value) => Ok(value),
        reply::Answer::Error(text) => Err(error::raise_reply(py, raises, &shared.store, &text)),
    }
}

impl Waiters {
    fn begin_once<'py>(
        &self,
        client: &Bound<'py, Client>,
        arguments: &Bound<'py, PyTuple>,
        decode: bool,
        taken: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, owner) = (client.py(), client.get());
        let shared = owner.shared(py)?;
        with_words(&owner.codec, arguments.iter_borrowed(), |words| {
            let mut reply = Recorder::new();
            let mut begun = None;
            let wait = self.with(py, |state| {
                state.follow(shared.clone())?;
                let mut session = owner.session(py);
                begun = shared.taking(&session, words);
                let seated = Exclusive::new(&mut state.seated);
                let outcome = shared.execute_for(&seated, &mut session, words, &mut reply);
                let wait = session.waiting.take();
                drop(session);
                outcome
                    .map_err(|blocked| error::raise_blocked(py, owner.codec.raises, &blocked))?;
                let Some(wait) = wait else {
                    return Ok(None);
                };
                let ticket = wait.ticket;
                let client = client.clone().unbind();
                let wait = Wait {
                    wait,
                    client,
                    decode,
                    looks: false,
                    begun: GilCell::new(begun.take()),
                };
                let wait = Py::new(py, wait).inspect_err(|_| state.seated.0.give_up(ticket))?;
                state.waits.insert(ticket, wait.clone_ref(py));
                Ok(Some(wait))
            })?;
            match wait {
                Some(wait) => Ok(wait.into_bound(py).into_any()),
                None => {
                    let objects = Objects::new(py, &owner.codec, decode);
                    arrived(py, &shared, reply, begun, objects, taken)
                }
            }
        })
    }

    /// Runs `work` on the state with the client's limit on lock waits.
    fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut State) -> PyResult<R>) -> PyResult<R> {
        let client = self.client.get();
        let limited = client.hasten(py);
        let mut state = self.state.lock(py)?;
        let result = work(&mut state);
        let shared = state.shared.clone();
        drop((state, limited));
        client.tell_left(py, &shared);
        result
    }
}

impl Drop for Waiters {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let shared = state.shared.clone();
        let old = std::mem::replace(state, State::new(shared.clone()));
        Python::attach(|py| {
            let limited = self.client.get().hasten(py);
            drop(old);
            drop(limited);
            self.client.get().tell_left(py, &shared);
        });
    }
}

#[pymethods]
impl Waiters {
    #[new]
    fn new(py: Python<'_>, client: &Bound<'_, Client>) -> PyResult<Waiters> {
        let shared = client.get().shared(py)?;
        Ok(Waiters {
            client: client.clone().unbind(),
            state: Busy::new(State::new(shared)),
        })
    }

    /// Run a command and return its reply, or a `Wait` if the command blocks.
    ///
    /// Elements that the command removes from the store are recorded in the list `taken`.
    #[pyo3(signature = (client, arguments, decode, taken))]
    fn begin<'py>(
        &self,
        client: &Bound<'py, Client>,
        arguments: &Bound<'py, PyTuple>,
        decode: bool,
        taken: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // A retry is safe, because after an error the wait has not begun.
        client.get().again(client.py(), || {
            self.begin_once(client, arguments, decode, taken)
        })
    }

    /// Begin waiting for a message or for room in a channel.
    ///
    /// Return the `Wait`, or None if the channel may already be ready.
    fn begin_look(
        &self,
        py: Python<'_>,
        client: &Bound<'_, Client>,
        link: &ChannelLink,
        for_room: bool,
        timeout: Option<f64>,
    ) -> PyResult<Option<Py<Wait>>> {
        let owner = client.get();
        let shared = owner.shared(py)?;
        let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let wanted = Wanted {
            database: owner.database(py),
            keys: &link.looked_at(),
            take: Take::Look(link.look(for_room)),
        };
        self.with(py, |state| {
            state.follow(shared.clone())?;
            let ticket = match state.seated.0.begin(&wanted) {
                Ok(WaitOutcome::Waiting(ticket)) => ticket,
                Err(error) if !shared.store.removed() => {
                    return Err(error::raise(py, owner.codec.raises, &shared.store, error));
                }
                _ => return Ok(None),
            };
            let wait = Wait {
                wait: wait::Wait::looking(ticket, timeout),
                client: client.clone().unbind(),
                decode: false,
                looks: true,
                begun: GilCell::new(None),
            };
            let wait = Py::new(py, wait).inspect_err(|_| state.seated.0.give_up(ticket))?;
            state.waits.insert(ticket, wait.clone_ref(py));
            Ok(Some(wait))
        })
    }

    /// Return the waits that may have ended. The caller must call `finish` for each of them.
    fn look(&self, py: Python<'_>) -> PyResult<Vec<Py<Wait>>> {
        self.with(py, |state| Ok(state.answered(py)))
    }

    /// Return the reply to a command whose wait has ended or timed out.
    ///
    /// Return the wait itself if it continues or another process holds a lock. Elements that the
    /// command removed from the store are recorded in the list `taken`.
    fn finish<'py>(
        &self,
        wait: &Bound<'py, Wait>,
        taken: &Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, waiting) = (wait.py(), wait.get());
        let finished = self.with(py, |state| {
            let shared = state.shared.clone();
            let answer = state.finish(&waiting.wait);
            let is_removed = match &answer {
                Ok(answer) => answer.as_ref().and_then(Answer::error).is_some(),
                Err(_) => true,
            } && shared.store.removed();
            if waiting.looks && is_removed {
                state.waits.remove(&waiting.wait.ticket);
                return Ok(Finished::Looked);
            }
            let answer = answer.map_err(|error| {
                error::raise(py, self.client.get().codec.raises, &shared.store, error)
            })?;
            if answer.is_some() {
                state.waits.remove(&waiting.wait.ticket);
            }
            match answer.as_ref().and_then(Answer::error) {
                Some(error) => Err(error::raise(
                    py,
                    self.client.get().codec.raises,
                    &shared.store,
                    error,
                )),
                None => Ok(match answer {
                    Some(answer) => Finished::Answered(shared, answer),
                    None => Finished::Not,
                }),
            }
        })?;
        let (shared, answer) = match finished {
            Finished::Not => return Ok(wait.clone().into_any()),
            Finished::Looked => return Ok(py.None().into_bound(py)),
            Finished::Answered(shared, answer) => (shared, answer),
        };
        let codec = &waiting.client.get().codec;
        let mut reply = Recorder::new();
        waiting.wait.answer(&answer, &mut reply);
        let begun = waiting.begun.with(py, Option::take);
        let objects = Objects::new(py, codec, waiting.decode);
        arrived(py, &shared, reply, begun, objects, taken)
    }

    /// End the wait of a cancelled task and restore the elements that were removed for it.
    fn give_up(&self, py: Python<'_>, wait: &Bound<'_, Wait>) -> PyResult<()> {
        let ticket = wait.get().wait.ticket;
        self.with(py, |state| {
            if state.waits.remove(&ticket).is_some() {
                state.seated.0.give_up(ticket);
            }
            Ok(())
        })
    }

    /// Return a descriptor that the event loop watches.
    ///
    /// It becomes readable when a wait may have ended, and ten times a second.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |state| {
            let descriptor = state.seated.0.descriptor();
            let number = descriptor.map(|descriptor| descriptor.as_raw_fd());
            number.map_err(|error| {
                error::raise(
                    py,
                    self.client.get().codec.raises,
                    &state.shared.store,
                    error,
                )
            })
        })
    }
}

#[pymethods]
impl Wait {
    /// The seconds until the timeout, or None for a wait without a timeout.
    #[getter]
    fn seconds(&self) -> Option<f64> {
        let deadline = self.wait.deadline?;
        let left = deadline.saturating_duration_since(Instant::now());
        Some(left.as_secs_f64())
    }
}
