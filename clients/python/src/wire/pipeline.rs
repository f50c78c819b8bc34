//! Packs all commands in a pipeline, and parses all replies, in one call each.

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::pack;
use crate::conversion::codec::Codec;
use crate::pipeline::parts;

/// The prefix of commands before which redis-py may send other commands.
pub(super) const ACCOMPANIED: &[u8] = b"HIMPORT";

/// The properties of packed commands.
pub(super) struct Packed {
    /// Whether each command's reply may be decoded.
    pub(super) decodes: Vec<bool>,
    /// Whether the server may send more than the replies to these commands.
    pub(super) streams: bool,
}

/// Packs commands. Returns None if any command needs redis-py's own processing.
pub(super) fn pack(
    codec: &Codec,
    commands: &Bound<'_, PyList>,
    out: &mut Vec<u8>,
) -> PyResult<Option<Packed>> {
    let py = commands.py();
    let mut decodes = Vec::with_capacity(commands.len());
    let mut streams = false;
    // In long pipelines, consecutive commands often share the same name object.
    let mut last: Option<Bound<'_, PyAny>> = None;
    for command in commands {
        let (args, options) = parts(&command)?;
        let start = out.len();
        pack::command(codec, args.iter_borrowed(), out)?;
        let name = args.get_borrowed_item(0)?;
        if !last.as_ref().is_some_and(|last| last.is(name)) {
            let word = pack::name(&out[start..]);
            if word.starts_with(ACCOMPANIED) {
                return Ok(None);
            }
            streams |= pack::streams(word);
            last = Some(name.to_owned());
        }
        let raw = !options.is_empty() && options.contains(intern!(py, "NEVER_DECODE"))?;
        decodes.push(!raw);
    }
    Ok(Some(Packed { decodes, streams }))
}

/// Whether the reply is an unsolicited message, which is an instance of a subclass of `list`.
pub(super) fn is_message(reply: &Bound<'_, PyAny>) -> bool {
    reply.is_instance_of::<PyList>() && !reply.is_exact_instance_of::<PyList>()
}

/// Returns the indexes of the replies that are errors, or that redis-py converts or may convert.
pub(super) fn unusual(
    callbacks: &Bound<'_, PyDict>,
    commands: &Bound<'_, PyList>,
    replies: &Bound<'_, PyList>,
) -> PyResult<Vec<usize>> {
    let mut places = Vec::new();
    let mut last: Option<(Bound<'_, PyAny>, bool)> = None;
    for (place, (command, reply)) in commands.iter().zip(replies).enumerate() {
        let (args, _) = parts(&command)?;
        let name = args.get_borrowed_item(0)?;
        let shaped = match &last {
            Some((other, shaped)) if other.is(name) => *shaped,
            _ => {
                let shaped = is_shaped(callbacks, &name)?;
                last = Some((name.to_owned(), shaped));
                shaped
            }
        };
        if shaped || reply.is_instance_of::<PyBaseException>() {
            places.push(place);
        }
    }
    Ok(places)
}

/// Whether redis-py may convert the replies to this command.
pub(super) fn is_shaped(callbacks: &Bound<'_, PyDict>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
    // Leave other names to Python: redis-py's dictionary ignores case, but this lookup finds only
    // upper case.
    let Ok(text) = name.cast::<PyString>() else {
        return Ok(true);
    };
    let text = text.to_cow()?;
    let capitals = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    Ok(!capitals || callbacks.contains(name)?)
}
