//! Replies for calls that wait for them in order, as far as there is nothing special.

use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::many::is_shaped;
use super::parse::Replies;
use crate::codec::Codec;

/// Takes calls of this class off the front of a deque, and gives each its reply. What
/// redis-py makes something else of goes to `finish(call, reply)`.
///
/// Stops before an error, a message that nobody asked for, a reply that cannot be decoded or has
/// not come as a whole, and whatever is not of this class. Returns how many replies there were.
pub(super) fn all(
    replies: &mut Replies,
    codec: &Codec,
    calls: &Bound<'_, PyAny>,
    class: &Bound<'_, PyType>,
    finish: &Bound<'_, PyAny>,
) -> PyResult<usize> {
    let py = calls.py();
    let mut count = 0;
    while replies.is_plain() && !calls.is_empty()? {
        let call = calls.get_item(0)?;
        if !call.get_type().is(class) {
            break;
        }
        let decode = call.getattr(intern!(py, "decode"))?.is_truthy()?;
        let reply = match replies.next(py, codec, decode) {
            Ok(Some(reply)) => reply,
            Ok(None) => break,
            Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => break,
            Err(error) => return Err(error),
        };
        calls.call_method0(intern!(py, "popleft"))?;
        count += 1;
        // Nobody waits for the reply to a call that was cancelled.
        if call.call_method0(intern!(py, "done"))?.is_truthy()? {
            continue;
        }
        if is_result(&call.getattr(intern!(py, "request"))?)? {
            call.call_method1(intern!(py, "set_result"), (reply,))?;
        } else {
            finish.call1((call, reply))?;
        }
    }
    Ok(count)
}

/// Whether redis-py returns the reply to this request as it is.
fn is_result(request: &Bound<'_, PyAny>) -> PyResult<bool> {
    if request.is_none() {
        return Ok(true);
    }
    let (client, args, _): (Bound<'_, PyAny>, Bound<'_, PyTuple>, Bound<'_, PyAny>) =
        request.extract()?;
    let callbacks = client.getattr(intern!(request.py(), "response_callbacks"))?;
    match callbacks.cast::<PyDict>() {
        Ok(callbacks) => Ok(!is_shaped(callbacks, &args.get_item(0)?)?),
        Err(_) => Ok(false),
    }
}
