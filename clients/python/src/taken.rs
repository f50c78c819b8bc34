//! Records the elements that a call removes from the store, so that a Python frame can restore them
//! (M9).
//!
//! The interpreter can run a signal handler immediately after a native call, before the result has
//! reached its caller. Every method that removes elements from the store is therefore a Python
//! function (`undercroft.embedded.taking`). The handler's exception is raised in that function's
//! frame. The function passes a list to the native call, which records the removed elements before
//! it creates an object from them. On any exception, the function restores the recorded elements.
//! Returning from a Python function to its caller does not check for signals again.

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

/// A record of the elements that one command removed.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Took(Taken);

impl Took {
    /// Returns the command's reply.
    pub(crate) fn reply(&self) -> &Tree {
        self.0.reply()
    }
}

/// Tickets created before a command that removes elements: the command's own ticket, or for EXEC
/// the tickets of the queued commands with their positions in the transaction.
pub(crate) enum Tickets {
    One(Taken),
    Many(Vec<(usize, Taken)>),
}

/// Records the removed elements in the call's list and returns the record. If memory runs out, the
/// elements are restored.
pub(crate) fn keep<'py>(
    py: Python<'py>,
    shared: &OpenStore,
    list: &Bound<'py, PyList>,
    taken: Taken,
) -> PyResult<Bound<'py, Took>> {
    let took = Bound::new(py, Took(taken))?;
    list.append(&took).inspect_err(|_| {
        // Ignore any error from the undo, because the original exception is raised.
        let _ = shared.give_back(&took.get().0);
    })?;
    Ok(took)
}

/// Runs a command and records the elements that it removes in the call's list before the result is
/// created.
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
            // If EXEC ran the commands, its reply contains their replies by position.
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

/// Reports elements that could not be restored as an unraisable exception, because another
/// exception is being raised.
fn tell(py: Python<'_>, reason: &str) {
    let text = format!("the items that an interrupted call took could not be put back: {reason}");
    StoreError::new_err(text).write_unraisable(py, None);
}

/// Converts an entry of a typed call's list into the command's reply. An entry is bytes, a number,
/// or a list or pair of entries. A pair of bytes and an integer is a string with its expiry time.
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
    /// Records in a typed call's list the elements that the call removed, in the form that
    /// [`reply_of`] reads, and returns them. A null `raw` means that memory for the object ran out.
    /// In that case the reply that `lost` returns is restored.
    pub(crate) fn keep_raw(
        &self,
        shared: &OpenStore,
        list: &Bound<'_, PyList>,
        raw: *mut ffi::PyObject,
        (words, lost): (&[&[u8]], impl FnOnce() -> (Tree, Option<u64>)),
    ) -> Outcome {
        // SAFETY: the thread is attached, and the list creates its own reference.
        if !raw.is_null() && unsafe { ffi::PyList_Append(list.as_ptr(), raw) } == 0 {
            return Ok(raw);
        }
        let raised = PyErr::fetch(self.py);
        // SAFETY: the thread is attached, and this call owns the reference.
        unsafe { ffi::Py_XDECREF(raw) };
        let (reply, expires) = lost();
        if let Some(taken) = Taken::of(self.database(), words, reply, expires) {
            // Ignore any error from the undo, because the original exception is raised.
            let _ = shared.give_back(&taken);
        }
        Err(raised.into())
    }
}

impl Client {
    /// Restores all elements in an interrupted call's `taken` list, last first. `words` are the
    /// command that a typed call's entries belong to.
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

/// Adds the record class and the names of commands that remove elements to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let names: Vec<String> = taking().map(str::to_ascii_uppercase).collect();
    module.add("TAKING", names)?;
    module.add_class::<Took>()
}
