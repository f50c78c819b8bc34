//! Many commands in one call: pipelines, with and without a transaction.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use undercroft_commands::{Context, execute};

use crate::client::Client;
use crate::error;
use crate::execute::with_words;
use crate::haste::Locked;
use crate::reply::{Answer, Objects};

/// Runs commands, each a tuple of its arguments and of whether its reply may be
/// decoded. Returns their replies, with exceptions where they are errors.
/// A transaction that was begun and not ended is discarded where this raises.
///
/// With a list of the replies to the first commands it runs the others, and adds
/// theirs. Then a transaction stays begun where this raises [`Locked`]: what is
/// left of it can be run later, EXEC with the watched keys of the first try.
pub(crate) fn run<'py>(
    client: &Client,
    py: Python<'py>,
    commands: &Bound<'py, PyList>,
    replies: Option<Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyList>> {
    let goes_on = replies.is_some();
    let replies = replies.unwrap_or_else(|| PyList::empty(py));
    let shared = client.enter(py)?;
    let mut session = client.session(py);
    let mut context = shared.context(&mut session);
    let mut failed = None;
    for command in commands.iter().skip(replies.len()) {
        let (arguments, decode): (Bound<'py, PyTuple>, bool) = command.extract()?;
        let answer = with_words(client, &arguments, |words| {
            let mut reply = Objects::new(py, &client.codec, decode);
            execute(&mut context, words, &mut reply)
                .map_err(|blocked| error::raise_wait(py, &blocked))?;
            context.session.finish_command();
            reply.finish()
        });
        match answer {
            Ok(Answer::Value(value)) => replies.append(value)?,
            Ok(Answer::Error(text)) => {
                let raised = error::raise_reply(py, &shared.store, &text);
                replies.append(raised.into_value(py))?;
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    let is_kept = |error: &PyErr| goes_on && error.is_instance_of::<Locked>(py);
    if failed.as_ref().is_some_and(|error| !is_kept(error)) {
        end_transaction(client, py, &mut context);
    }
    client.remember(py, session);
    failed.map_or(Ok(replies), Err)
}

/// Ends a transaction that was begun.
pub(crate) fn discard(client: &Client, py: Python<'_>) -> PyResult<()> {
    let shared = client.enter(py)?;
    let mut session = client.session(py);
    let mut context = shared.context(&mut session);
    end_transaction(client, py, &mut context);
    client.remember(py, session);
    Ok(())
}

fn end_transaction(client: &Client, py: Python<'_>, context: &mut Context<'_>) {
    if context.session.queued().is_some() {
        let mut reply = Objects::new(py, &client.codec, false);
        // DISCARD uses no store, so it cannot be kept waiting.
        let _ = execute(context, &[b"DISCARD"], &mut reply);
    }
}
