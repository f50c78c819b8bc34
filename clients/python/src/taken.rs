//! What a call took out of the store and returns, for the frame of Python's that gives it back (M9).
//!
//! The interpreter runs a signal's handler right behind a call of native code, before its result has reached anybody. So
//! every method that takes something out of the store is a function in Python (`undercroft.taking`), whose frame is where
//! the handler's exception arises: it hands a list to the native call, which puts onto it what was taken before it makes
//! an object of it, and has it given back where anything is raised. From a function in Python its caller gets the result
//! without another look at signals.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use smallvec::SmallVec;
use undercroft_commands::reply::{Recorder, Tree};
use undercroft_commands::{Context, execute};
use undercroft_embedded::{OpenStore, Taken, run_on, taking};
use undercroft_engine::{End, Error, Store, defer_signals, unlimited_patience};

use crate::client::Client;
use crate::error::{self, StoreError};
use crate::reply::Objects;

/// What one command took.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Took(Taken);

/// The tickets made before a command runs that takes something: its own, or for EXEC those of the queued commands, each
/// with the command's place in the transaction.
pub(crate) enum Begun {
    One(Taken),
    Many(Vec<(usize, Taken)>),
}

/// Puts what was taken onto the list of the call; gives it back where there is no memory for that.
pub(crate) fn keep(
    py: Python<'_>,
    shared: &OpenStore,
    list: &Bound<'_, PyList>,
    taken: Taken,
) -> PyResult<()> {
    let took = Bound::new(py, Took(taken))?;
    list.append(&took).inspect_err(|_| {
        // There is another exception to be raised.
        let _ = shared.give_back(&took.get().0);
    })
}

/// Runs a command, and keeps what it takes on the list of the call before anything is made of the reply.
pub(crate) fn run_keeping(
    py: Python<'_>,
    client: &Client,
    shared: &OpenStore,
    context: &mut Context<'_>,
    words: &[&[u8]],
    begun: Begun,
    (list, reply): (&Bound<'_, PyList>, &mut Objects<'_, '_>),
) -> PyResult<()> {
    let mut recorder = Recorder::new();
    execute(context, words, &mut recorder)
        .or_else(|blocked| run_on(context, blocked, words, &mut recorder))
        .map_err(|blocked| error::raise_blocked(py, client.codec.raises, &blocked))?;
    let whole = recorder.finish().ok().and_then(|mut all| all.pop());
    let whole = whole.unwrap_or(Tree::Null);
    match begun {
        Begun::One(taken) => keep(py, shared, list, taken.with_reply(whole.clone()))?,
        Begun::Many(all) => {
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
        }
    }
    whole.write(reply);
    Ok(())
}

/// Pushes items to the end of a list that they came from, so that they are in the order in which they were.
pub(crate) fn push_back(
    store: &Store,
    database: usize,
    key: &[u8],
    end: End,
    items: &[&[u8]],
) -> Result<(), Error> {
    if items.is_empty() {
        return Ok(());
    }
    let turned: SmallVec<[&[u8]; 16]> = items.iter().rev().copied().collect();
    let _deferred = defer_signals();
    unlimited_patience(|| store.push(database, key, end, &turned).map(drop))
}

/// Tells that something could not be given back, as an exception is raised already.
fn tell(py: Python<'_>, reason: &str) {
    let text =
        format!("what a call had taken that was interrupted could not be given back: {reason}");
    StoreError::new_err(text).write_unraisable(py, None);
}

/// The items that a typed pop put onto a list.
fn items(entry: &Bound<'_, PyAny>) -> Vec<Vec<u8>> {
    if let Ok(item) = entry.cast::<PyBytes>() {
        return vec![item.as_bytes().to_vec()];
    }
    let Ok(list) = entry.cast::<PyList>() else {
        return Vec::new();
    };
    let bytes = |item: Bound<'_, PyAny>| Some(item.cast::<PyBytes>().ok()?.as_bytes().to_vec());
    list.iter().filter_map(bytes).collect()
}

impl Client {
    /// Gives back all that is on the list of a call that was interrupted, the last first. Items of a typed pop came from
    /// an end of the list `name`.
    pub(crate) fn give_back_all(
        &self,
        py: Python<'_>,
        taken: &Bound<'_, PyList>,
        name: Option<(&[u8], End)>,
    ) {
        if taken.is_empty() {
            return;
        }
        let shared = match self.enter(py) {
            Ok(shared) => shared,
            Err(error) => return tell(py, &error.to_string()),
        };
        for entry in taken.iter().rev() {
            let given = match (entry.cast::<Took>(), name) {
                (Ok(took), _) => shared.give_back(&took.get().0),
                (Err(_), Some((name, end))) => {
                    let items = items(&entry);
                    let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
                    push_back(&shared.store, self.database(py), name, end, &items)
                        .map_err(|error| error.to_string())
                }
                (Err(_), None) => Ok(()),
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
