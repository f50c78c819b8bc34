//! What a call took out of the store and returns, for the frame of Python's that gives it back (M9).
//!
//! The interpreter runs a signal's handler right behind a call of native code, before its result has reached anybody. So
//! every method that takes something out of the store is a function in Python (`undercroft.embedded.taking`), whose frame is where
//! the handler's exception arises: it hands a list to the native call, which puts onto it what was taken before it makes
//! an object of it, and has it given back where anything is raised. From a function in Python its caller gets the result
//! without another look at signals.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyList, PyTuple};
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::{Context, execute};
use undercroft_embedded::{OpenStore, Taken, run_on, taking};

use crate::client::Client;
use crate::conversion::reply::Objects;
use crate::error::{self, StoreError};
use crate::methods::fastcall::{Call, Outcome};

/// What one command took.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Took(Taken);

impl Took {
    /// The reply to the command.
    pub(crate) fn reply(&self) -> &Tree {
        self.0.reply()
    }
}

/// The tickets made before a command runs that takes something: its own, or for EXEC those of the queued commands, each
/// with the command's place in the transaction.
pub(crate) enum Tickets {
    One(Taken),
    Many(Vec<(usize, Taken)>),
}

/// Puts what was taken onto the list of the call, and returns it there; gives it back where there is no memory for that.
pub(crate) fn keep<'py>(
    py: Python<'py>,
    shared: &OpenStore,
    list: &Bound<'py, PyList>,
    taken: Taken,
) -> PyResult<Bound<'py, Took>> {
    let took = Bound::new(py, Took(taken))?;
    list.append(&took).inspect_err(|_| {
        // There is another exception to be raised.
        let _ = shared.give_back(&took.get().0);
    })?;
    Ok(took)
}

/// Runs a command, and keeps what it takes on the list of the call before anything is made of the reply.
pub(crate) fn run_keeping(
    py: Python<'_>,
    client: &Client,
    shared: &OpenStore,
    context: &mut Context<'_>,
    words: &[&[u8]],
    tickets: Tickets,
    (list, reply): (&Bound<'_, PyList>, &mut Objects<'_, '_>),
) -> PyResult<()> {
    let mut recorder = Recorder::new();
    execute(context, words, &mut recorder)
        .or_else(|blocked| run_on(context, blocked, words, &mut recorder))
        .map_err(|blocked| error::raise_blocked(py, client.codec.raises, &blocked))?;
    let whole = recorder.finish().ok().and_then(|mut all| all.pop());
    let whole = whole.unwrap_or(Tree::Null);
    match tickets {
        Tickets::One(taken) => {
            let took = keep(py, shared, list, taken.with_reply(whole))?;
            took.get().reply().write(reply);
        }
        Tickets::Many(all) => {
            // EXEC answers with the replies to the commands in their places, if it has run them.
            let replies = match &whole {
                Tree::Array(replies) => &replies[..],
                _ => &[],
            };
            for (place, taken) in all {
                if let Some(reply) = replies.get(place) {
                    keep(py, shared, list, taken.with_reply(reply.clone()))?;
                }
            }
            whole.write(reply);
        }
    }
    Ok(())
}

/// Tells that something could not be given back, as an exception is raised already.
fn tell(py: Python<'_>, reason: &str) {
    let text =
        format!("what a call had taken that was interrupted could not be given back: {reason}");
    StoreError::new_err(text).write_unraisable(py, None);
}

/// Turns an entry of a typed call's list into the command's reply. Entries are bytes, numbers, and lists and pairs of them.
/// A pair of bytes and an integer is a string and when it would have expired.
fn reply_of(entry: &Bound<'_, PyAny>) -> (Tree, Option<u64>) {
    if let Ok(bytes) = entry.cast::<PyBytes>() {
        return (Tree::Bulk(bytes.as_bytes().to_vec()), None);
    }
    if let Ok(number) = entry.cast::<PyFloat>() {
        return (Tree::Double(number.value()), None);
    }
    let all = |items: Vec<Bound<'_, PyAny>>| {
        let replies = items.iter().map(|item| reply_of(item).0);
        (Tree::Array(replies.collect()), None)
    };
    if let Ok(list) = entry.cast::<PyList>() {
        return all(list.iter().collect());
    }
    if let Ok(pair) = entry.cast::<PyTuple>() {
        return match pair.extract::<(Bound<'_, PyAny>, u64)>() {
            Ok((text, expires)) => (reply_of(&text).0, Some(expires)),
            Err(_) => all(pair.iter().collect()),
        };
    }
    (Tree::Null, None)
}

impl Call<'_, '_> {
    /// Puts what a typed call took onto its list, as [`reply_of`] reads it, and returns it. A null stands for an object
    /// that there was no memory for: then `lost` is what was taken, and is given back.
    pub(crate) fn keep_raw(
        &self,
        shared: &OpenStore,
        list: &Bound<'_, PyList>,
        raw: *mut ffi::PyObject,
        (words, lost): (&[&[u8]], impl FnOnce() -> (Tree, Option<u64>)),
    ) -> Outcome {
        // SAFETY: the thread is attached; the list takes a reference of its own.
        if !raw.is_null() && unsafe { ffi::PyList_Append(list.as_ptr(), raw) } == 0 {
            return Ok(raw);
        }
        let raised = PyErr::fetch(self.py);
        // SAFETY: the thread is attached, and the reference is this call's own.
        unsafe { ffi::Py_XDECREF(raw) };
        let (reply, expires) = lost();
        if let Some(taken) = Taken::of(self.database(), words, reply, expires) {
            // There is another exception to be raised.
            let _ = shared.give_back(&taken);
        }
        Err(raised.into())
    }
}

impl Client {
    /// Gives back all that is on the list of a call that was interrupted, the last first. The entries of a typed call are
    /// of the command with these words.
    pub(crate) fn give_back_all(&self, py: Python<'_>, taken: &Bound<'_, PyList>, words: &[&[u8]]) {
        if taken.is_empty() {
            return;
        }
        let shared = match self.enter(py) {
            Ok(shared) => shared,
            Err(error) => return tell(py, &error.to_string()),
        };
        for entry in taken.iter().rev() {
            let given = match entry.cast::<Took>() {
                Ok(took) => shared.give_back(&took.get().0),
                Err(_) => {
                    let (reply, expires) = reply_of(&entry);
                    let database = self.database(py);
                    let taken = Taken::of(database, words, reply, expires);
                    taken.map_or(Ok(()), |taken| shared.give_back(&taken))
                }
            };
            if let Err(reason) = given {
                tell(py, &reason);
            }
        }
    }
}

/// Adds all that to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let names: Vec<String> = taking().map(str::to_ascii_uppercase).collect();
    module.add("TAKING", names)?;
    module.add_class::<Took>()
}
