//! The native base class of `undercroft.Redis`.

use std::ffi::CString;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use undercroft_commands::session::{Login, Session};
use undercroft_embedded::{OnRemoved, OpenStore, Place, durability_from_name};
use undercroft_engine::eviction::EvictionPolicy;
use undercroft_engine::{DATABASES, PatienceLimited, Terms};

use crate::conversion::codec::Codec;
use crate::error::{self, Raises};
use crate::execute::{self, Argument, encode};
use crate::feed;
use crate::opening;
use crate::pipeline;
use crate::threads::gil_cell::GilCell;
use crate::threads::nonblocking::{Backlog, hasten, hasten_without_sync, is_beside};

/// A client for one store, with the hot methods and with `_execute` for every command.
#[pyclass(frozen, subclass, module = "undercroft._native")]
pub(crate) struct Client {
    place: Place,
    pub(crate) codec: Codec,
    open: GilCell<Opened>,
    state: GilCell<State>,
    /// Whether redis-py's methods run instead of the hot methods, because the program set its own
    /// response callbacks.
    shaped: AtomicBool,
    /// The callback of a client that belongs to an event loop. It is called when a call leaves work
    /// unfinished.
    left: GilCell<Option<Py<PyAny>>>,
    /// The response callbacks, which convert replies to results.
    callbacks: GilCell<Option<Py<PyAny>>>,
}

/// The open store, and the number of calls that use it.
struct Opened {
    shared: Option<Arc<OpenStore>>,
    users: usize,
    /// Replaced stores that calls may still be using.
    retired: Vec<Arc<OpenStore>>,
    /// The number of times that the client left a store whose file was removed or replaced.
    removals: u64,
    /// Whether the client belongs to an event loop, in which case its calls must not wait long for
    /// locks.
    hurries: bool,
}

/// State that the client retains between commands.
struct State {
    database: usize,
    /// The client's session, or None while a command uses it.
    session: Option<Box<Session>>,
    /// The identity for a second session. A command needs a second session if it starts while
    /// another command uses the client's session. This can happen because a thread that waits for a
    /// lock allows other threads to run.
    known: Known,
}

/// The name and creation time that identify a connection.
struct Known {
    name: Vec<u8>,
    created: i64,
}

impl State {
    fn new(session: Session) -> State {
        State {
            database: session.database as usize,
            known: Known {
                name: session.name.clone(),
                created: session.peer.created,
            },
            session: Some(Box::new(session)),
        }
    }

    /// Returns a session with the client's database and identity, but without a transaction and
    /// without watched keys.
    fn another(&self) -> Session {
        let mut session = Session::new(1, Login::trusted(), self.known.created);
        session.database = self.database as u32;
        session.name.clone_from(&self.known.name);
        session
    }

    fn remember(&mut self, session: Box<Session>) {
        self.database = session.database as usize;
        if self.known.name != session.name {
            self.known.name.clone_from(&session.name);
        }
        self.session = Some(session);
    }
}

/// The client's session, lent to one command or pipeline. Dropping the guard returns the session to
/// the client.
pub(crate) struct SessionGuard<'c, 'py> {
    client: &'c Client,
    py: Python<'py>,
    session: Option<Box<Session>>,
}

impl Deref for SessionGuard<'_, '_> {
    type Target = Session;

    #[inline(always)]
    fn deref(&self) -> &Session {
        self.session
            .as_ref()
            .expect("it is lent until it is dropped")
    }
}

impl DerefMut for SessionGuard<'_, '_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Session {
        self.session
            .as_mut()
            .expect("it is lent until it is dropped")
    }
}

impl Drop for SessionGuard<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Discard the session, which a panic may have left inconsistent. The next command starts a
        // new session.
        if std::thread::panicking() {
            return;
        }
        if let Some(session) = self.session.take() {
            self.client
                .state
                .with(self.py, |state| state.remember(session));
        }
    }
}

/// A call's use of the store, which stays open until its last use ends.
pub(crate) struct Use<'c, 'py> {
    client: &'c Client,
    py: Python<'py>,
    shared: *const OpenStore,
    limited: Option<PatienceLimited>,
}

impl Deref for Use<'_, '_> {
    type Target = OpenStore;

    #[inline(always)]
    fn deref(&self) -> &OpenStore {
        // SAFETY: the store stays open while `users` counts this use.
        unsafe { &*self.shared }
    }
}

impl Drop for Use<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.limited.take().is_some() && self.store.has_backlog() {
            self.client.tell_left_here(self.py);
        }
        self.client.leave(self.py);
    }
}

impl Use<'_, '_> {
    /// Returns a reference that keeps the store open beyond this call.
    pub(crate) fn to_shared(&self) -> Arc<OpenStore> {
        // SAFETY: the pointer comes from an `Arc` that lives while `users` counts this use.
        unsafe {
            Arc::increment_strong_count(self.shared);
            Arc::from_raw(self.shared)
        }
    }
}

impl Opened {
    fn new(shared: Option<Arc<OpenStore>>, hurries: bool) -> Opened {
        Opened {
            shared,
            users: 0,
            retired: Vec::new(),
            removals: 0,
            hurries,
        }
    }

    /// Whether any retired store can be closed because no call uses it.
    #[inline(always)]
    fn has_unused(&self) -> bool {
        self.users == 0 && !self.retired.is_empty()
    }

    /// Replaces the open store and retires the previous one.
    fn put(&mut self, shared: Option<Arc<OpenStore>>) {
        let old = std::mem::replace(&mut self.shared, shared);
        self.retired.extend(old);
    }
}

impl Client {
    /// Begins a use of the store, reopening it if it was closed.
    #[inline(always)]
    pub(crate) fn enter<'c, 'py>(&'c self, py: Python<'py>) -> PyResult<Use<'c, 'py>> {
        let begin = |open: &mut Opened| {
            open.users += 1;
            (open.shared.as_ref().map(Arc::as_ptr), open.hurries)
        };
        let (shared, hurries) = self.open.with(py, begin);
        let limited = (hurries && !is_beside()).then(hasten_without_sync);
        let shared = match shared {
            // SAFETY: the store stays open while `users` counts this call.
            Some(shared) if unsafe { !(*shared).store.is_lost() } => shared,
            Some(lost) => self.replace(py, lost)?,
            None => self.reopen(py)?,
        };
        Ok(Use {
            client: self,
            py,
            shared,
            limited,
        })
    }

    /// Limits the calling thread's lock waits if the client belongs to an event loop. Needed for
    /// work that does not begin with [`enter`](Self::enter).
    pub(crate) fn hasten(&self, py: Python<'_>) -> Option<PatienceLimited> {
        let hurries = self.open.with(py, |open| open.hurries) && !is_beside();
        hurries.then(hasten)
    }

    #[cold]
    fn tell_left_here(&self, py: Python<'_>) {
        if let Some(shared) = self.open.with(py, |open| open.shared.clone()) {
            self.tell_left(py, &shared);
        }
    }

    /// Reports work that a hurried call left unfinished, if any, to the event loop.
    pub(crate) fn tell_left(&self, py: Python<'_>, shared: &Arc<OpenStore>) {
        if !shared.store.has_backlog() {
            return;
        }
        let Some(left) = self.left(py) else {
            return;
        };
        // Save the call's own exception, if one is set, while the callback runs.
        let raised = PyErr::take(py);
        let told = left.call1(py, (Backlog(shared.clone()),));
        if let Err(error) = told {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    }

    /// Returns a reference that keeps the store open after the call, reopening the store if it was
    /// closed.
    pub(crate) fn shared(&self, py: Python<'_>) -> PyResult<Arc<OpenStore>> {
        let _open = self.enter(py)?;
        let shared = self.open.with(py, |open| open.shared.clone());
        shared.ok_or_else(|| PyValueError::new_err("expected an open store, got a closed one"))
    }

    #[cold]
    fn reopen(&self, py: Python<'_>) -> PyResult<*const OpenStore> {
        match opening::open(&self.place) {
            Ok(shared) => {
                let pointer = Arc::as_ptr(&shared);
                self.open.with(py, |open| open.put(Some(shared)));
                Ok(pointer)
            }
            Err(error) => {
                self.leave(py);
                Err(error::raise_opening(self.codec.raises, &error))
            }
        }
    }

    /// Ends a use of the store.
    #[inline(always)]
    fn leave(&self, py: Python<'_>) {
        let left = |open: &mut Opened| {
            open.users -= 1;
            open.has_unused()
        };
        if self.open.with(py, left) {
            self.close_unused(py);
        }
    }

    #[cold]
    #[inline(never)]
    fn close_unused(&self, py: Python<'_>) {
        // Check again, because another thread may have begun a call since the first check.
        let unused = |open: &mut Opened| match open.has_unused() {
            true => std::mem::take(&mut open.retired),
            false => Vec::new(),
        };
        drop(self.open.with(py, unused));
    }

    /// Whether the client may leave a store whose file was removed or replaced.
    pub(crate) fn leaves(&self, py: Python<'_>, open: &OpenStore) -> bool {
        self.asks(py, |session| self.place.leaves(open, session))
    }

    /// Whether to retry a rejected command in the store that now has the client's store name.
    pub(crate) fn runs_again(&self, py: Python<'_>, open: &OpenStore, words: &[&[u8]]) -> bool {
        open.store.is_lost() && self.asks(py, |session| self.place.runs_again(open, session, words))
    }

    /// Makes a call, and retries it once if the store's file was removed and the client leaves that
    /// store.
    pub(crate) fn again<R>(
        &self,
        py: Python<'_>,
        mut call: impl FnMut() -> PyResult<R>,
    ) -> PyResult<R> {
        let since = self.removals(py);
        let done = call();
        match done {
            Err(error) if self.is_left(py, since, &error) => call(),
            done => done,
        }
    }

    /// Whether to retry a failed call, because the client leaves its store now or has left a store
    /// since `removals` returned `since`.
    #[cold]
    pub(crate) fn is_left(&self, py: Python<'_>, since: u64, error: &PyErr) -> bool {
        if !self.codec.raises.is_unavailable(py, error) {
            return false;
        }
        let (shared, removals) = self
            .open
            .with(py, |open| (open.shared.clone(), open.removals));
        removals != since || shared.is_some_and(|shared| self.leaves(py, &shared))
    }

    /// Returns the number of times that the client left a store whose file was removed or replaced.
    pub(crate) fn removals(&self, py: Python<'_>) -> u64 {
        self.open.with(py, |open| open.removals)
    }

    /// Whether [`runs_again`](Self::runs_again) may permit a retry of a rejected command after its
    /// session is returned.
    #[cold]
    pub(crate) fn may_run_again(&self, open: &OpenStore, words: &[&[u8]]) -> bool {
        open.store.removed()
            && self
                .place
                .runs_again(open, &Session::new(1, Login::trusted(), 0), words)
    }

    /// Returns the error for calls that failed because the store's file was removed or replaced.
    #[cold]
    pub(crate) fn removed(&self) -> PyErr {
        let removed = self.place.removed().to_string();
        self.codec.raises.unavailable(removed)
    }

    /// Returns whether a condition holds for the client's session, or false while another call uses
    /// the session.
    fn asks(&self, py: Python<'_>, is_true: impl FnOnce(&Session) -> bool) -> bool {
        let ask = |state: &mut State| state.session.as_deref().is_some_and(is_true);
        self.state.with(py, ask)
    }

    /// Opens the store that now has the client's store name, because the file of the current store
    /// was removed. Stays with the current store if the client owns anything in it, such as pins,
    /// objects or subscriptions. Calls in progress finish in the old store.
    #[cold]
    fn replace(&self, py: Python<'_>, lost: *const OpenStore) -> PyResult<*const OpenStore> {
        // SAFETY: the store stays open while `users` counts this call.
        if !self.leaves(py, unsafe { &*lost }) {
            return Ok(lost);
        }
        self.open.with(py, |open| {
            open.put(None);
            open.removals += 1;
        });
        self.reopen(py)
    }

    fn left(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let cloned = |left: &mut Option<Py<PyAny>>| left.as_ref().map(|left| left.clone_ref(py));
        self.left.with(py, cloned)
    }

    /// Whether the client belongs to an event loop, in which case its calls must not wait long for
    /// locks.
    pub(crate) fn hurries(&self, py: Python<'_>) -> bool {
        self.open.with(py, |open| open.hurries)
    }

    /// Whether the connection state equals that of a new connection: no transaction, no watched
    /// key, and no setting that affects later commands.
    pub(crate) fn is_idle(&self, py: Python<'_>) -> bool {
        let is_idle = |state: &mut State| match &state.session {
            Some(session) => session.is_idle(),
            None => false,
        };
        self.state.with(py, is_idle)
    }

    /// Whether redis-py's methods run instead of the native hot methods.
    #[inline(always)]
    pub(crate) fn is_shaped(&self) -> bool {
        self.shaped.load(Ordering::Relaxed)
    }

    /// Returns the selected database.
    #[inline(always)]
    pub(crate) fn database(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.database)
    }

    /// Borrows the client's session for one command.
    #[inline(always)]
    pub(crate) fn session<'c, 'py>(&'c self, py: Python<'py>) -> SessionGuard<'c, 'py> {
        let lend = |state: &mut State| match state.session.take() {
            Some(session) => session,
            None => Box::new(state.another()),
        };
        SessionGuard {
            client: self,
            py,
            session: Some(self.state.with(py, lend)),
        }
    }

    /// Returns another client for the same store with a separate connection state.
    pub(crate) fn link(&self, py: Python<'_>) -> PyResult<Client> {
        let (shared, hurries) = {
            let _use = self.enter(py)?;
            self.open
                .with(py, |open| (open.shared.clone(), open.hurries))
        };
        let left = self.left(py);
        let session = self.state.with(py, |state| state.another());
        Ok(Client {
            place: self.place.clone(),
            codec: self.codec.clone(),
            open: GilCell::new(Opened::new(shared, hurries)),
            state: GilCell::new(State::new(session)),
            shaped: AtomicBool::new(false),
            left: GilCell::new(left),
            callbacks: GilCell::new(None),
        })
    }

    /// Returns the response callbacks by command: redis-py's dictionary, or a dictionary that the
    /// program set.
    pub(crate) fn callbacks<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let cloned = |callbacks: &mut Option<Py<PyAny>>| {
            callbacks.as_ref().map(|callbacks| callbacks.clone_ref(py))
        };
        let callbacks = self.callbacks.with(py, cloned)?;
        Some(callbacks.into_bound(py))
    }
}

/// Issues a warning, and returns an error if the program turns warnings into errors.
fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let text = CString::new(text)?;
    PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &text, 2)
}

/// Returns the eviction policy with this name.
fn eviction_policy(name: &str) -> PyResult<EvictionPolicy> {
    EvictionPolicy::from_name(name).ok_or_else(|| {
        let names = EvictionPolicy::ALL.map(EvictionPolicy::name).join(", ");
        let text = format!("expected one of {names} as maxmemory_policy, got {name:?}");
        PyValueError::new_err(text)
    })
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (store="undercroft://default", db=0, *, decode_responses=false, encoding="utf-8", encoding_errors="strict", capacity=None, maxmemory=None, maxmemory_policy=None, strict=false, on_removed="reopen", durability=None, journal=None, timeout=None, client_name=None, like_redis_py=false))]
    #[expect(
        clippy::too_many_arguments,
        reason = "the parameters mirror the Python signature"
    )]
    fn new(
        py: Python<'_>,
        store: &str,
        db: usize,
        decode_responses: bool,
        encoding: &str,
        encoding_errors: &str,
        capacity: Option<u64>,
        maxmemory: Option<u64>,
        maxmemory_policy: Option<&str>,
        strict: bool,
        on_removed: &str,
        durability: Option<&str>,
        journal: Option<PathBuf>,
        timeout: Option<f64>,
        client_name: Option<&str>,
        like_redis_py: bool,
    ) -> PyResult<Client> {
        let raises = match like_redis_py {
            true => Raises::RedisPys,
            false => Raises::Own,
        };
        if db >= DATABASES {
            let text = format!("expected a db below {DATABASES}, got {db}");
            return Err(PyValueError::new_err(text));
        }
        let on_removed = OnRemoved::from_name(on_removed)
            .map_err(|error| error::raise_opening(raises, &error))?;
        let patience = timeout
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|error| PyValueError::new_err(format!("timeout: {error}")))?;
        let terms = Terms {
            capacity,
            max_memory: maxmemory,
            policy: maxmemory_policy.map(eviction_policy).transpose()?,
            durability: durability
                .map(durability_from_name)
                .transpose()
                .map_err(|error| error::raise_opening(raises, &error))?,
            journal,
            strict,
        };
        let codec = Codec::new(encoding, encoding_errors, decode_responses, raises)?;
        let place =
            Place::new(store, terms).map_err(|error| error::raise_opening(raises, &error))?;
        let place = place.on_removed(on_removed).with_patience(patience);
        let shared = opening::open(&place).map_err(|error| error::raise_opening(raises, &error))?;
        let warning = place
            .check_terms(&shared.store)
            .map_err(|error| error::raise_opening(raises, &error))?;
        if let Some(warning) = warning {
            warn(py, &warning)?;
        }
        let mut session = shared.session();
        session.database = place.database().unwrap_or(db) as u32;
        if let Some(name) = client_name {
            let named = session.set_name(name.as_bytes());
            named
                .map_err(|refused| error::raise_reply(py, raises, &shared.store, refused.text()))?;
        }
        Ok(Client {
            place,
            codec,
            open: GilCell::new(Opened::new(Some(shared), false)),
            state: GilCell::new(State::new(session)),
            shaped: AtomicBool::new(false),
            left: GilCell::new(None),
            callbacks: GilCell::new(None),
        })
    }

    /// The response callbacks by command, which convert replies to results.
    #[getter]
    fn get_response_callbacks<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.callbacks(py)
    }

    #[setter]
    fn set_response_callbacks(&self, py: Python<'_>, callbacks: Py<PyAny>) {
        let replaced = self.callbacks.with(py, |known| known.replace(callbacks));
        drop(replaced);
    }

    /// Run a command with redis-py's options for its reply.
    ///
    /// Return the result and False. If only Python code can compute the result, return the reply
    /// and True. Elements that the command removes from the store are recorded in the list `taken`.
    #[pyo3(signature = (words, options, taken=None))]
    fn _execute<'py>(
        &self,
        words: &Bound<'py, PyTuple>,
        options: &Bound<'py, PyDict>,
        taken: Option<&Bound<'py, PyList>>,
    ) -> PyResult<(Bound<'py, PyAny>, bool)> {
        execute::run(self, words, options, taken)
    }

    /// Restore the elements in the `taken` list of an interrupted call.
    ///
    /// For a typed call, `words` are its command and its arguments.
    #[pyo3(signature = (taken, *words))]
    fn _give_back(&self, py: Python<'_>, taken: &Bound<'_, PyList>, words: &Bound<'_, PyTuple>) {
        let given = words.iter_borrowed().filter(|word| !word.is_none());
        // The call has already encoded these arguments, so encoding them again cannot fail.
        let words: Vec<_> = given.flat_map(|word| encode(&self.codec, word)).collect();
        let words: Vec<&[u8]> = words.iter().map(Argument::bytes).collect();
        self.give_back_all(py, taken, &words);
    }

    /// Run commands and return their replies, with exceptions for error replies.
    ///
    /// Each command is a tuple of its arguments and its reply options. If `replies` already
    /// contains the replies to the first commands, run only the remaining commands and append their
    /// replies. After `Locked`, call this method again or call `_discard`. Elements that the
    /// commands remove from the store are recorded in the list `taken`.
    #[pyo3(signature = (commands, replies=None, taken=None))]
    fn _execute_many<'py>(
        &self,
        py: Python<'py>,
        commands: &Bound<'py, PyList>,
        replies: Option<Bound<'py, PyList>>,
        taken: Option<&Bound<'py, PyList>>,
    ) -> PyResult<Bound<'py, PyList>> {
        pipeline::run(self, py, commands, replies, taken)
    }

    /// Return a range of a feed in one buffer of rows.
    ///
    /// Each row is a value of `size` bytes followed by its attributes, whose widths in bytes are
    /// `columns`. Return None if the feed's items have a different form.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parameters mirror the Python signature"
    )]
    fn _range_rows<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        start: i64,
        count: u64,
        filter: Option<&Bound<'py, PyAny>>,
        seen: &str,
        reverse: bool,
        size: usize,
        columns: &[u8],
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let asked = feed::Asked {
            key,
            start,
            count,
            filter,
            seen,
            reverse,
        };
        feed::rows(self, py, &asked, &feed::Form { size, columns })
    }

    /// Run FEED.ADD with items from buffers.
    ///
    /// `words` are the command, the key and the position. Each value has `size` bytes and `columns`
    /// attributes of 4 bytes each.
    fn _add_rows<'py>(
        &self,
        py: Python<'py>,
        words: &Bound<'py, PyTuple>,
        values: &[u8],
        size: usize,
        attributes: &[u8],
        columns: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        feed::add(self, py, words, (values, size), (attributes, columns))
    }

    /// Discard an unfinished transaction.
    fn _discard(&self, py: Python<'_>) -> PyResult<()> {
        pipeline::discard(self, py)
    }

    /// Change the store through a separate handle whose clock is set to 1970. Return the failures.
    #[cfg(feature = "races")]
    fn _change(&self, py: Python<'_>, change: crate::race::Change) -> PyResult<Vec<String>> {
        let shared = self.enter(py)?;
        let changed = crate::race::change(&shared.store, &change);
        changed.map_err(|error| error::raise(py, self.codec.raises, &shared.store, error))
    }

    /// During each read, make the next of these changes after the read has run but before it is
    /// validated.
    ///
    /// Stop after the last change. Return the number of changes made before this call.
    #[cfg(feature = "races")]
    fn _interrupt(&self, py: Python<'_>, changes: Vec<crate::race::Change>) -> PyResult<u64> {
        let shared = self.enter(py)?;
        let set = crate::race::interrupt(&shared.store, changes);
        set.map_err(|error| error::raise(py, self.codec.raises, &shared.store, error))
    }

    /// Disable the native hot methods, so that redis-py's methods convert all results.
    fn _shape(&self) {
        self.shaped.store(true, Ordering::Relaxed);
    }

    /// Limit every lock wait to about 1 ms from now on.
    ///
    /// A call that finds a lock held raises `Locked`; it has changed nothing and can be retried. A
    /// call that leaves work unfinished passes a `Backlog` to `left`.
    fn _hurry(&self, py: Python<'_>, left: Py<PyAny>) {
        self.open.with(py, |open| open.hurries = true);
        self.left.with(py, |known| *known = Some(left));
    }

    /// Return the number of seconds that a call without a limit waits for a lock.
    fn _patience(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.shared(py)?.store.patience().as_secs_f64())
    }

    /// Return the exception for a wait that failed.
    fn _busy(&self, text: String) -> PyErr {
        self.codec.raises.busy(text)
    }

    /// Return the exception for a store that no longer exists.
    fn _unavailable(&self, text: String) -> PyErr {
        self.codec.raises.unavailable(text)
    }

    /// Return the work that calls left unfinished, or None.
    fn _backlog(&self, py: Python<'_>) -> Option<Backlog> {
        let shared = self.open.with(py, |open| open.shared.clone())?;
        shared.store.has_backlog().then_some(Backlog(shared))
    }

    /// Close the store unless a call is using it. The next call reopens the store.
    fn close(&self, py: Python<'_>) {
        let take = |open: &mut Opened| {
            if open.users == 0 {
                open.shared.take()
            } else {
                None
            }
        };
        drop(self.open.with(py, take));
    }

    /// The path of the store file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.place.path().to_path_buf()
    }

    /// The number of the selected database.
    #[getter]
    fn db(&self, py: Python<'_>) -> usize {
        self.database(py)
    }
}
