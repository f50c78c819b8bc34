//! Replies for calls that wait for them in order, as far as there is nothing special.

use pyo3::exceptions::PyUnicodeDecodeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::Wire;
use super::many::is_shaped;

/// What gives calls their results, all of it Python's: what takes the first call off the
/// line; the class of what is no call, but several; `settle(call, result)`, which does not
/// call who is kept apart as its `waiter`; and `finish(call, reply)`, for replies of which
/// redis-py makes something else.
pub(super) type Answering<'py> = (
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
);

/// Takes calls off the front of a line, and gives each its reply. Those that it settles and
/// somebody waits for are added to `woken`.
///
/// Stops before an error, a message that nobody asked for, a reply that cannot be decoded or has
/// not come as a whole, and whatever is no call. Returns whether anything is left.
pub(super) fn all(
    wire: &Bound<'_, Wire>,
    calls: &Bound<'_, PyAny>,
    (take, batch, settle, finish): &Answering<'_>,
    woken: &Bound<'_, PyList>,
) -> PyResult<bool> {
    let py = calls.py();
    while !calls.is_empty()? {
        let call = calls.get_item(0)?;
        if call.get_type().is(batch) {
            break;
        }
        let decode = call.getattr(intern!(py, "decode"))?.is_truthy()?;
        let Some(reply) = next(wire, decode)? else {
            break;
        };
        take.call0()?;
        let is_waited_for = !call.getattr(intern!(py, "waiter"))?.is_none();
        // Nobody waits for the reply to a call that was cancelled.
        if !is_waited_for && call.call_method0(intern!(py, "done"))?.is_truthy()? {
            continue;
        }
        if !is_result(&call.getattr(intern!(py, "request"))?)? {
            finish.call1((call, reply))?;
            continue;
        }
        settle.call1((&call, reply))?;
        if is_waited_for {
            woken.append(call)?;
        }
    }
    Ok(wire.borrow().replies.has_data())
}

/// The next reply, if it is a usual one.
fn next<'py>(wire: &Bound<'py, Wire>, decode: bool) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = wire.py();
    let Wire { replies, codec, .. } = &mut *wire.borrow_mut();
    if !replies.is_plain() {
        return Ok(None);
    }
    match replies.next(py, codec, decode) {
        Err(error) if error.is_instance_of::<PyUnicodeDecodeError>(py) => Ok(None),
        reply => reply,
    }
}

/// Whether redis-py returns the reply to this request as it is.
fn is_result(request: &Bound<'_, PyAny>) -> PyResult<bool> {
    if request.is_none() {
        return Ok(true);
    }
    let request = request.cast::<PyTuple>()?;
    let args = request.get_item(1)?;
    let callbacks = intern!(request.py(), "response_callbacks");
    let callbacks = request.get_item(0)?.getattr(callbacks)?;
    match callbacks.cast::<PyDict>() {
        Ok(callbacks) => Ok(!is_shaped(callbacks, &args.get_item(0)?)?),
        Err(_) => Ok(false),
    }
}
