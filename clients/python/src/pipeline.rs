//! Runs many commands in one call, as pipelines with and without a transaction.

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use undercroft_commands::{Context, execute};
use undercroft_embedded::{OpenStore, Taken, run_on};

use crate::client::Client;
use crate::conversion::reply::{Answer, Objects, shaped};
use crate::conversion::shape::{self, Shape};
use crate::error;
use crate::execute::with_words;
use crate::taken::{Tickets, run_keeping};
use crate::threads::nonblocking::Locked;

/// Splits a pipeline's command into its words and its reply options.
pub(crate) fn parts<'a, 'py>(
    command: &'a Bound<'py, PyAny>,
) -> PyResult<(Borrowed<'a, 'py, PyTuple>, Borrowed<'a, 'py, PyDict>)> {
    let pair = command.cast::<PyTuple>()?;
    let words = pair.get_borrowed_item(0)?.cast::<PyTuple>()?;
    Ok((words, pair.get_borrowed_item(1)?.cast::<PyDict>()?))
}

/// The number of times that a run may continue in another store because its store was removed.
pub(crate) const TRIES: usize = 2;

/// Runs commands, each a tuple of its words and its reply options, and returns their replies. Error
/// replies become exceptions in the list. If this function raises, an unfinished transaction is
/// discarded.
///
/// If `replies` contains the replies to the first commands, the remaining commands run and their
/// replies are appended. In that case an unfinished transaction remains open when this function
/// raises [`Locked`]. The remaining commands can run later, and EXEC then checks the keys watched
/// at the first attempt. Elements that the commands remove from the store are recorded in `taken`.
pub(crate) fn run<'py>(
    client: &Client,
    py: Python<'py>,
    commands: &Bound<'py, PyList>,
    replies: Option<Bound<'py, PyList>>,
    taken: Option<&Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyList>> {
    let goes_on = replies.is_some();
    let replies = replies.unwrap_or_else(|| PyList::empty(py));
    let is_kept = |error: &PyErr| goes_on && error.is_instance_of::<Locked>(py);
    let mut tries = TRIES;
    loop {
        let shared = client.enter(py)?;
        let mut session = client.session(py);
        let mut context = shared.context(&mut session);
        let moves = tries > 0;
        let ran = grouped(client, py, &shared, || {
            run_all(
                client,
                &shared,
                &mut context,
                commands,
                &replies,
                taken,
                moves,
            )
        });
        if ran.as_ref().is_err_and(|error| !is_kept(error)) {
            end_transaction(client, py, &mut context);
        }
        let Some(place) = ran? else {
            return Ok(replies);
        };
        end_transaction(client, py, &mut context);
        replies.del_slice(place, replies.len())?;
        tries -= 1;
    }
}

/// Runs `body`, and then waits once until its changes are durable, if the store's mode demands it.
pub(crate) fn grouped<R>(
    client: &Client,
    py: Python<'_>,
    shared: &OpenStore,
    body: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    let (result, position) = shared.store.deferring(body);
    let waited = shared.store.end_deferral(position);
    // An error of the commands themselves says more.
    let result = result?;
    waited.map_err(|error| error::raise(py, client.codec.raises, &shared.store, error))?;
    Ok(result)
}

/// Runs the commands that have no reply yet and appends their replies. If `moves` is set, the store
/// was removed and the session holds nothing in it, this function stops and returns the index of
/// the command at which to continue in another store.
fn run_all<'py>(
    client: &Client,
    shared: &OpenStore,
    context: &mut Context<'_>,
    commands: &Bound<'py, PyList>,
    replies: &Bound<'py, PyList>,
    taken: Option<&Bound<'py, PyList>>,
    moves: bool,
) -> PyResult<Option<usize>> {
    let py = commands.py();
    // The last command before which the session held nothing, and whether it was MULTI.
    let mut last = None;
    for command in commands.iter().skip(replies.len()) {
        let (words, options) = parts(&command)?;
        let decode = options.is_empty() || !options.contains(intern!(py, "NEVER_DECODE"))?;
        let mut again = None;
        let answer = with_words(&client.codec, words.iter_borrowed(), |words| {
            if context.session.holds_nothing() {
                let is_multi = words.first().is_some_and(|name| *name == b"MULTI");
                last = Some((replies.len(), is_multi));
            }
            let mut reply = Objects::new(py, &client.codec, decode);
            let tickets = match taken {
                None => None,
                Some(_) if context.session.queued().is_some() => {
                    let is_end = words.first().is_some_and(|name| *name == b"EXEC");
                    let queued = match is_end {
                        true => tickets_within(client, shared, context, commands, replies.len())?,
                        false => Vec::new(),
                    };
                    (!queued.is_empty()).then_some(Tickets::Many(queued))
                }
                Some(_) => shared.taking(&*context.session, words).map(Tickets::One),
            };
            match (tickets, taken) {
                (Some(tickets), Some(list)) => {
                    let to = (list, &mut reply);
                    run_keeping(py, client, shared, context, words, tickets, to)?;
                }
                _ => execute(context, words, &mut reply)
                    .or_else(|blocked| run_on(context, blocked, words, &mut reply))
                    .map_err(|blocked| error::raise_blocked(py, client.codec.raises, &blocked))?,
            }
            context.session.finish_command();
            let answer = reply.finish()?;
            if moves
                && matches!(answer, Answer::Error(_))
                && let Some((place, is_multi)) = last
                && (is_multi || place == replies.len())
                && client.may_run_again(shared, words)
            {
                again = Some(place);
            }
            Ok(answer)
        })?;
        if again.is_some() {
            return Ok(again);
        }
        match answer {
            Answer::Value(value) => replies.append(value)?,
            Answer::Error(text) => {
                let raised = error::raise_reply(py, client.codec.raises, &shared.store, &text);
                replies.append(raised.into_value(py))?;
            }
        }
    }
    Ok(None)
}

/// Returns tickets for the commands between the last MULTI and the EXEC at `end` that remove
/// elements, with their positions.
fn tickets_within(
    client: &Client,
    shared: &OpenStore,
    context: &Context<'_>,
    commands: &Bound<'_, PyList>,
    end: usize,
) -> PyResult<Vec<(usize, Taken)>> {
    let mut tickets = Vec::new();
    let mut place = 0;
    for command in commands.iter().take(end) {
        let (words, _) = parts(&command)?;
        with_words(&client.codec, words.iter_borrowed(), |words| {
            if words.first().is_some_and(|name| *name == b"MULTI") {
                tickets.clear();
                place = 0;
                return Ok(());
            }
            let taken = shared.taking(&*context.session, words);
            tickets.extend(taken.map(|taken| (place, taken)));
            place += 1;
            Ok(())
        })?;
    }
    Ok(tickets)
}

/// Discards an unfinished transaction.
pub(crate) fn discard(client: &Client, py: Python<'_>) -> PyResult<()> {
    let shared = client.enter(py)?;
    let mut session = client.session(py);
    let mut context = shared.context(&mut session);
    end_transaction(client, py, &mut context);
    Ok(())
}

/// Discards the transaction if MULTI has begun one.
pub(crate) fn end_transaction(client: &Client, py: Python<'_>, context: &mut Context<'_>) {
    if context.session.queued().is_some() {
        let mut reply = Objects::new(py, &client.codec, false);
        // DISCARD does not use the store, so no lock can block it.
        let _ = execute(context, &[b"DISCARD"], &mut reply);
    }
}

/// Return the indexes of the replies that are errors.
#[pyfunction]
pub(crate) fn errors(replies: &Bound<'_, PyList>) -> Vec<usize> {
    let errors = replies
        .iter()
        .enumerate()
        .filter(|(_, reply)| is_error(reply));
    errors.map(|(place, _)| place).collect()
}

fn is_error(reply: &Bound<'_, PyAny>) -> bool {
    reply.is_instance_of::<PyBaseException>()
}

/// Convert replies to their results in place, leaving errors unchanged.
///
/// Return the indexes of the replies whose results only Python code can compute.
#[pyfunction]
pub(crate) fn shape_replies<'py>(
    callbacks: &Bound<'py, PyDict>,
    commands: &Bound<'py, PyList>,
    replies: &Bound<'py, PyList>,
) -> PyResult<Vec<usize>> {
    let mut left = Vec::new();
    // In long pipelines, consecutive commands often share the same name object.
    let mut last: Option<(Bound<'py, PyAny>, Option<Shape>)> = None;
    for (place, (command, reply)) in commands.iter().zip(replies.iter()).enumerate() {
        if is_error(&reply) {
            continue;
        }
        let (words, options) = parts(&command)?;
        let name = words.get_borrowed_item(0)?;
        let shape = match &last {
            Some((other, shape)) if options.is_empty() && other.is(name) => *shape,
            _ => {
                let shape = shape::of_command(callbacks, &name, &options)?;
                last = options.is_empty().then(|| (name.to_owned(), shape));
                shape
            }
        };
        match shape {
            Some(Shape::Reply) => {}
            Some(shape) => replies.set_item(place, shaped(shape, reply)?)?,
            None => left.push(place),
        }
    }
    Ok(left)
}
