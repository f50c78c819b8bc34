//! Many commands in one call: pipelines, with and without a transaction.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use undercroft_commands::execute;

use crate::client::Client;
use crate::error;
use crate::execute::with_words;
use crate::reply::{Answer, Objects};

/// Runs commands, each a tuple of its arguments and of whether its reply may be
/// decoded. Returns their replies, with exceptions where they are errors.
/// A transaction that was begun and not ended is discarded where this raises.
pub(crate) fn run<'py>(
    client: &Client,
    py: Python<'py>,
    commands: &Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyList>> {
    let shared = client.enter(py)?;
    let mut session = client.session(py);
    let replies = PyList::empty(py);
    let mut context = shared.context(&mut session);
    let mut failed = None;
    for command in commands {
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
    if failed.is_some() && context.session.queued().is_some() {
        let mut reply = Objects::new(py, &client.codec, false);
        // DISCARD uses no store, so it cannot be kept waiting.
        let _ = execute(&mut context, &[b"DISCARD"], &mut reply);
    }
    client.remember(py, session);
    failed.map_or(Ok(replies), Err)
}
