//! Pipelines: all commands packed, and all replies parsed, in one call each.

use pyo3::exceptions::PyBaseException;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::pack;
use crate::conversion::codec::Codec;
use crate::pipeline::parts;

/// redis-py sends commands of this name with others that it finds necessary.
pub(super) const ACCOMPANIED: &[u8] = b"HIMPORT";

/// What is known of packed commands.
pub(super) struct Packed {
    /// For each whether its reply may be decoded.
    pub(super) decodes: Vec<bool>,
    /// Whether more than their replies may come.
    pub(super) streams: bool,
}

/// Packs commands. None where they cannot be sent as they are.
pub(super) fn pack(
    codec: &Codec,
    commands: &Bound<'_, PyList>,
    out: &mut Vec<u8>,
) -> PyResult<Option<Packed>> {
    let py = commands.py();
    let mut decodes = Vec::with_capacity(commands.len());
    let mut streams = false;
    // In long pipelines most names are one and the same object.
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

/// Whether it is a message that nobody asked for: a list of a class of its own.
pub(super) fn is_message(reply: &Bound<'_, PyAny>) -> bool {
    reply.is_instance_of::<PyList>() && !reply.is_exact_instance_of::<PyList>()
}

/// The places of those replies that are errors, that redis-py makes something
/// else of, or of which only Python can tell.
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

/// Whether redis-py may make something of the replies to this command.
pub(super) fn is_shaped(callbacks: &Bound<'_, PyDict>, name: &Bound<'_, PyAny>) -> PyResult<bool> {
    // Its dictionary finds names however they are written; this looks for capitals.
    let Ok(text) = name.cast::<PyString>() else {
        return Ok(true);
    };
    let text = text.to_cow()?;
    let capitals = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    Ok(!capitals || callbacks.contains(name)?)
}
