//! The base class of pipelines, which queues commands and runs them together.
//!
//! The queue contains the commands' argument objects, which are encoded when the commands run. If
//! redis-py must compute any of the results, the pipeline class runs the commands. Otherwise this
//! module runs all of them in one call.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use pyo3::{Borrowed, intern};
use smallvec::SmallVec;
use undercroft_commands::{Context, execute};
use undercroft_embedded::{OpenStore, Taken, run_on};

use crate::client::Client;
use crate::conversion::codec::Codec;
use crate::conversion::references::References;
use crate::conversion::reply::{Answer, Objects};
use crate::conversion::shape::{self, Shape};
use crate::error;
use crate::execute::{Argument, FEW, encode};
use crate::methods::fastcall::{Call, Miss, Outcome, is_word};
use crate::methods::row::{Row, Word};
use crate::pipeline::{TRIES, end_transaction, grouped};
use crate::taken::{Tickets, run_keeping};
use crate::threads::gil_cell::GilCell;
use crate::threads::nonblocking::Locked;
use crate::waiters::waits;

/// The initial capacity of the queue, in commands.
const USUAL: usize = 16;

/// A queue of commands, most of which are queued by the methods of the method table.
#[pyclass(frozen, subclass, module = "undercroft._native")]
pub(crate) struct Queue {
    client: Py<Client>,
    /// The pipeline's own connection, created when it is first needed. It contains the watched
    /// keys, an unfinished transaction, and any session state that commands outside the method
    /// table change.
    link: GilCell<Option<Py<Client>>>,
    /// Whether redis-py's methods run, because the program set its own response callbacks.
    shaped: bool,
    state: GilCell<State>,
    /// Whether keys are watched, so that commands run immediately until MULTI.
    watching: AtomicBool,
    /// Whether MULTI was called.
    explicit: AtomicBool,
}

#[derive(Default)]
struct State {
    commands: Vec<Command>,
    /// The progress of a run that found a lock held and continues later.
    run: Run,
    /// The outcome of a run that the pipeline class must examine.
    ran: Option<(Py<PyAny>, Option<usize>)>,
}

/// A queued command.
struct Command {
    words: SmallVec<[Kept; 4]>,
    /// The shape of the result, or None if the pipeline class must compute the result.
    shape: Option<Shape>,
    /// redis-py's options for the reply, or None.
    options: Option<Py<PyDict>>,
    /// Whether the command is a row of the method table, which changes data but no session state.
    is_row: bool,
}

/// A word of a queued command.
enum Kept {
    Object(Py<PyAny>),
    Literal(&'static str),
}

/// The progress of a run of all commands.
#[derive(Default)]
struct Run {
    /// Whether the transaction has begun.
    is_begun: bool,
    /// The number of commands that ran or were queued in the transaction.
    done: usize,
    /// The results of the commands that ran.
    results: Vec<Py<PyAny>>,
    /// Tickets for the transaction's commands that remove elements, with their positions.
    tickets: Vec<(usize, Taken)>,
    /// The first command that failed, and its error.
    failed: Option<(usize, Py<PyAny>)>,
    /// Whether the run may continue in the store that now has the client's store name, if the run's
    /// store is removed.
    moves: bool,
}

/// The outcome of a run, with an optional index. The outcome is the list of results, None if a
/// watched key changed, or an error. The index is that of the command with the error, or of the
/// first error among the results.
type RunOutcome<'py> = (Bound<'py, PyAny>, Option<usize>);

impl Command {
    /// Fills `words` with the encoded words of the command.
    #[inline]
    fn encode<'a>(
        &'a self,
        py: Python<'a>,
        codec: &Codec,
        words: &mut SmallVec<[Argument<'a>; FEW]>,
    ) -> PyResult<()> {
        words.clear();
        for word in &self.words {
            words.push(match word {
                Kept::Object(object) => encode(codec, object.bind_borrowed(py))?,
                Kept::Literal(text) => Argument::Of(text.as_bytes()),
            });
        }
        Ok(())
    }

    /// Returns the command as a tuple of its words and its reply options.
    fn shown<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let words = self.words.iter().map(|word| match word {
            Kept::Object(object) => object.bind(py).clone(),
            Kept::Literal(text) => PyString::intern(py, text).into_any(),
        });
        let words = PyTuple::new(py, words.collect::<Vec<_>>())?;
        let options = match &self.options {
            Some(options) => options.bind(py).clone(),
            None => PyDict::new(py),
        };
        // For a result of this shape, redis-py's own methods pass `withscores`.
        if self.options.is_none() && self.shape == Some(Shape::Pairs) {
            options.set_item(intern!(py, "withscores"), true)?;
        }
        PyTuple::new(py, [words.into_any(), options.into_any()])
    }
}

impl Row {
    /// Queues the command.
    pub(crate) fn queue(&self, call: &Call<'_, '_, Queue>) -> Outcome {
        let (py, queue) = (call.py, call.client);
        if queue.shaped || queue.watching.load(Ordering::Relaxed) && !queue.is_explicit() {
            return Err(Miss::UNUSUAL);
        }
        let codec = &queue.client.get().codec;
        let mut references = References::default();
        let parsed = self.parse(call, codec.raises, &mut references)?;
        let mut words = SmallVec::with_capacity(parsed.words.len() + 1);
        words.push(Kept::Literal(self.command));
        for word in parsed.words {
            words.push(match word {
                // SAFETY: the thread is attached and the object is valid. The references keep the
                // contents of lists and dictionaries alive.
                Word::Object(object) => unsafe {
                    if !is_word(object) {
                        return Err(Miss::UNUSUAL);
                    }
                    let object: Borrowed<'_, '_, PyAny> = Borrowed::from_ptr(py, object);
                    Kept::Object(object.to_owned().unbind())
                },
                Word::Literal(text) => Kept::Literal(text),
            });
        }
        let command = Command {
            words,
            shape: Some(parsed.shape),
            options: None,
            is_row: true,
        };
        queue.state.with(py, |state| {
            if state.commands.is_empty() {
                state.commands.reserve(USUAL);
            }
            state.commands.push(command);
        });
        Ok(call.receiver().to_owned().into_ptr())
    }
}

impl Queue {
    fn is_explicit(&self) -> bool {
        self.explicit.load(Ordering::Relaxed)
    }

    /// Returns the pipeline's own connection, creating it if necessary.
    fn own_link(&self, py: Python<'_>) -> PyResult<Py<Client>> {
        let cloned = |link: &mut Option<Py<Client>>| link.as_ref().map(|link| link.clone_ref(py));
        if let Some(link) = self.link.with(py, cloned) {
            return Ok(link);
        }
        let link = Py::new(py, self.client.get().link(py)?)?;
        self.link.with(py, |own| *own = Some(link.clone_ref(py)));
        Ok(link)
    }

    /// Returns the connection on which to run commands. Creating the pipeline's own connection
    /// costs as much as several commands, so rows of the method table use the client's connection
    /// unless it has session state.
    fn link_for(&self, py: Python<'_>, commands: &[Command], whole: bool) -> PyResult<Py<Client>> {
        let client = self.client.get();
        let has_own = self.link.with(py, |link| link.is_some());
        let shares = !has_own
            && commands.iter().all(|command| command.is_row)
            && !(whole && client.hurries(py))
            && client.is_idle(py);
        match shares {
            true => Ok(self.client.clone_ref(py)),
            false => self.own_link(py),
        }
    }

    /// Runs the commands that have not run yet.
    fn run_commands<'py>(
        &self,
        py: Python<'py>,
        commands: &[Command],
        run: &mut Run,
        whole: bool,
        taken: &Bound<'py, PyList>,
    ) -> PyResult<RunOutcome<'py>> {
        let link = self.link_for(py, commands, whole)?;
        let link = link.get();
        let is_locked = |error: &PyErr| error.is_instance_of::<Locked>(py);
        let mut tries = TRIES;
        loop {
            let shared = link.enter(py)?;
            let mut session = link.session(py);
            // A run that watches keys must not move to another store, because the watches are lost
            // with the old store.
            run.moves = tries > 0 && !session.is_watching();
            let mut context = shared.context(&mut session);
            let ran = grouped(link, py, &shared, || match whole {
                true => run.transaction(py, link, &shared, &mut context, commands, taken),
                false => run.one_by_one(py, link, &shared, &mut context, commands, taken),
            });
            if ran.as_ref().is_err_and(|error| !is_locked(error)) {
                end_transaction(link, py, &mut context);
            }
            if let Some(ran) = ran? {
                return Ok(ran);
            }
            if whole {
                end_transaction(link, py, &mut context);
                *run = Run::default();
            }
            tries -= 1;
        }
    }
}

/// Runs one command that removes no elements, so that nothing needs to be recorded.
#[inline]
fn answer<'py>(
    py: Python<'py>,
    link: &Client,
    context: &mut Context<'_>,
    words: &[&[u8]],
    reply: &mut Objects<'py, '_>,
) -> PyResult<Answer<'py>> {
    execute(context, words, reply)
        .or_else(|blocked| run_on(context, blocked, words, reply))
        .map_err(|blocked| error::raise_blocked(py, link.codec.raises, &blocked))?;
    context.session.finish_command();
    reply.finish()
}

/// Borrows the bytes of words.
#[inline]
fn bytes<'a>(words: &'a [Argument<'_>]) -> SmallVec<[&'a [u8]; FEW]> {
    words.iter().map(Argument::bytes).collect()
}

impl Run {
    /// Runs each command separately. Returns None if the next command must run in another store.
    fn one_by_one<'py>(
        &mut self,
        py: Python<'py>,
        link: &Client,
        shared: &OpenStore,
        context: &mut Context<'_>,
        commands: &[Command],
        taken: &Bound<'py, PyList>,
    ) -> PyResult<Option<RunOutcome<'py>>> {
        let codec = &link.codec;
        let mut words = SmallVec::new();
        self.results.reserve(commands.len() - self.done);
        for command in &commands[self.done..] {
            let shape = command.shape.unwrap_or(Shape::Reply);
            let mut reply = Objects::new(py, codec, true).shaped(shape);
            command.encode(py, codec, &mut words)?;
            let words = bytes(&words);
            let held_nothing = context.session.holds_nothing();
            let answer = match shared.taking(&*context.session, &words) {
                None => answer(py, link, context, &words, &mut reply)?,
                Some(ticket) => {
                    let (tickets, to) = (Tickets::One(ticket), (taken, &mut reply));
                    run_keeping(py, link, shared, context, &words, tickets, to)?;
                    context.session.finish_command();
                    reply.finish()?
                }
            };
            let result = match answer {
                Answer::Value(value) => value,
                Answer::Error(_)
                    if self.moves && held_nothing && link.may_run_again(shared, &words) =>
                {
                    return Ok(None);
                }
                Answer::Error(text) => {
                    let raised = error::raise_reply(py, codec.raises, &shared.store, &text);
                    let raised = raised.into_value(py).into_bound(py).into_any();
                    self.failed
                        .get_or_insert_with(|| (self.done, raised.clone().unbind()));
                    raised
                }
            };
            self.results.push(result.unbind());
            self.done += 1;
        }
        let results = PyList::new(py, self.results.drain(..))?.into_any();
        Ok(Some((
            results,
            self.failed.as_ref().map(|(place, _)| *place),
        )))
    }

    /// Runs all commands as one transaction. Returns None if all of them must run in another store.
    fn transaction<'py>(
        &mut self,
        py: Python<'py>,
        link: &Client,
        shared: &OpenStore,
        context: &mut Context<'_>,
        commands: &[Command],
        taken: &Bound<'py, PyList>,
    ) -> PyResult<Option<RunOutcome<'py>>> {
        let codec = &link.codec;
        let reply = || Objects::new(py, codec, true);
        if !self.is_begun {
            // If a transaction has already begun, MULTI fails and the commands join that
            // transaction.
            answer(py, link, context, &[b"MULTI"], &mut reply())?;
            self.is_begun = true;
        }
        let mut words = SmallVec::new();
        for command in &commands[self.done..] {
            command.encode(py, codec, &mut words)?;
            let words = bytes(&words);
            if let Some(ticket) = shared.taking(&*context.session, &words) {
                self.tickets.push((self.done, ticket));
            }
            // Check only for success, because the reply to a queued command is `QUEUED`.
            let mut reply = reply().shaped(Shape::Ok);
            if let Answer::Error(text) = answer(py, link, context, &words, &mut reply)? {
                if self.moves && link.may_run_again(shared, &[]) {
                    return Ok(None);
                }
                let raised = error::raise_reply(py, codec.raises, &shared.store, &text);
                self.failed
                    .get_or_insert_with(|| (self.done, raised.into_value(py).into_any()));
            }
            self.done += 1;
        }
        let shapes: SmallVec<[Shape; 16]> = commands
            .iter()
            .map(|command| command.shape.unwrap_or(Shape::Reply))
            .collect();
        let mut reply = reply().each(&shapes);
        let answer = match self.tickets.is_empty() {
            true => answer(py, link, context, &[b"EXEC"], &mut reply)?,
            false => {
                // If EXEC finds a lock held, the run continues later with the same tickets.
                let (tickets, to) = (Tickets::Many(self.tickets.clone()), (taken, &mut reply));
                run_keeping(py, link, shared, context, &[b"EXEC"], tickets, to)?;
                context.session.finish_command();
                reply.finish()?
            }
        };
        let failed = reply.failed();
        if let Some((place, error)) = self.failed.take() {
            return Ok(Some((error.into_bound(py), Some(place))));
        }
        Ok(Some(match answer {
            Answer::Value(results) => (results, failed),
            Answer::Error(_) if self.moves && link.may_run_again(shared, &[]) => return Ok(None),
            Answer::Error(text) => {
                let raised = error::raise_reply(py, codec.raises, &shared.store, &text);
                (raised.into_value(py).into_bound(py).into_any(), None)
            }
        }))
    }
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (client, *_args, **_options))]
    fn new(
        client: &Bound<'_, Client>,
        _args: &Bound<'_, PyTuple>,
        _options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Queue> {
        Ok(Queue {
            client: client.clone().unbind(),
            link: GilCell::new(None),
            shaped: client.get().is_shaped(),
            state: GilCell::new(State::default()),
            watching: AtomicBool::new(false),
            explicit: AtomicBool::new(false),
        })
    }

    /// The connection on which the commands run.
    #[getter]
    fn link(&self, py: Python<'_>) -> PyResult<Py<Client>> {
        self.own_link(py)
    }

    /// The queued commands, each a tuple of its words and its reply options.
    #[getter]
    fn command_stack<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let commands = self
            .state
            .with(py, |state| std::mem::take(&mut state.commands));
        let shown: PyResult<Vec<_>> = commands.iter().map(|command| command.shown(py)).collect();
        self.state.with(py, |state| state.commands = commands);
        PyList::new(py, shown?)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.state.with(py, |state| state.commands.len())
    }

    /// Queue a command with redis-py's options for its reply.
    fn _add(
        &self,
        py: Python<'_>,
        words: &Bound<'_, PyTuple>,
        options: &Bound<'_, PyDict>,
        callbacks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let shape = match callbacks {
            None => Some(Shape::Reply),
            Some(callbacks) => shape_of(callbacks, words, options)?,
        };
        let command = Command {
            words: words
                .iter()
                .map(|word| Kept::Object(word.unbind()))
                .collect(),
            shape,
            options: (!options.is_empty()).then(|| options.clone().unbind()),
            is_row: false,
        };
        self.state.with(py, |state| state.commands.push(command));
        Ok(())
    }

    /// Restore the elements in the `taken` list of an interrupted run.
    fn _give_back(&self, py: Python<'_>, taken: &Bound<'_, PyList>) {
        self.client.get().give_back_all(py, taken, &[]);
    }

    /// Discard all commands and an unfinished transaction.
    fn _clear(&self, py: Python<'_>) -> PyResult<()> {
        let State { commands, run, ran } = self.state.with(py, std::mem::take);
        drop((commands, ran));
        if run.is_begun {
            let link = self.own_link(py)?;
            let link = link.get();
            let shared = link.enter(py)?;
            let mut session = link.session(py);
            end_transaction(link, py, &mut shared.context(&mut session));
        }
        Ok(())
    }

    /// Run all commands, as one transaction if `whole` is set.
    ///
    /// Return the outcome and an index. The outcome is the list of results, None if a watched key
    /// changed, or an error. The index is that of the command with the error, or of the first error
    /// among the results. Return None instead of the pair if the pipeline class must compute any of
    /// the results. After `Locked`, call this method again to continue. Elements that the commands
    /// remove from the store are recorded in the list `taken`.
    fn _run<'py>(
        &self,
        py: Python<'py>,
        whole: bool,
        taken: &Bound<'py, PyList>,
    ) -> PyResult<Option<RunOutcome<'py>>> {
        if let Some((results, place)) = self.state.with(py, |state| state.ran.take()) {
            return Ok(Some((results.into_bound(py), place)));
        }
        let State {
            commands, mut run, ..
        } = self.state.with(py, std::mem::take);
        let ran = match commands.iter().all(|command| command.shape.is_some()) {
            true => self
                .run_commands(py, &commands, &mut run, whole, taken)
                .map(Some),
            false => Ok(None),
        };
        let is_locked = ran
            .as_ref()
            .is_err_and(|error| error.is_instance_of::<Locked>(py));
        let run = if is_locked { run } else { Run::default() };
        let others = self.state.with(py, |state| {
            let ran = None;
            std::mem::replace(state, State { commands, run, ran })
        });
        drop(others);
        ran
    }

    /// Run all commands, as one transaction if `whole` is set, and return their results.
    ///
    /// The queue is then empty. Return None if the pipeline class must act because the queue is
    /// empty, keys are watched, or the class must compute results. Also return None after an error,
    /// which `_run` then returns without running any command.
    fn _results<'py>(
        &self,
        py: Python<'py>,
        whole: bool,
        taken: &Bound<'py, PyList>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let is_empty = self.state.with(py, |state| state.commands.is_empty());
        if is_empty || self.watching.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some((results, failed)) = self._run(py, whole || self.is_explicit(), taken)? else {
            return Ok(None);
        };
        if failed.is_some() || !results.is_exact_instance_of::<PyList>() {
            self.state
                .with(py, |state| state.ran = Some((results.unbind(), failed)));
            return Ok(None);
        }
        self._clear(py)?;
        self.explicit.store(false, Ordering::Relaxed);
        Ok(Some(results))
    }

    /// Whether keys are watched.
    #[getter]
    fn get_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_watching(&self, watching: bool) {
        self.watching.store(watching, Ordering::Relaxed);
    }

    /// Whether MULTI was called.
    #[getter]
    fn get_explicit_transaction(&self) -> bool {
        self.is_explicit()
    }

    #[setter]
    fn set_explicit_transaction(&self, explicit: bool) {
        self.explicit.store(explicit, Ordering::Relaxed);
    }
}

/// Returns the shape of the reply to a command that redis-py queues, or None if the pipeline class
/// must run the command or compute its result. Commands that may wait for keys always return None,
/// because an event loop awaits them.
fn shape_of(
    callbacks: &Bound<'_, PyAny>,
    words: &Bound<'_, PyTuple>,
    options: &Bound<'_, PyDict>,
) -> PyResult<Option<Shape>> {
    let py = words.py();
    let asks = [intern!(py, "NEVER_DECODE"), intern!(py, "EMPTY_RESPONSE")];
    for name in asks {
        if options.contains(name)? {
            return Ok(None);
        }
    }
    let (Ok(callbacks), Ok(name)) = (callbacks.cast::<PyDict>(), words.get_item(0)) else {
        return Ok(None);
    };
    match !name.is_exact_instance_of::<PyString>() || waits(&name)? {
        true => Ok(None),
        false => shape::of_command(callbacks, &name, options),
    }
}
