//! Encodes commands in the wire format.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::conversion::codec::{self, Codec};
use crate::error::DataError;
use crate::execute::encode;

/// Commands after which a server sends unsolicited data.
const STREAMS: [&[u8]; 6] = [
    b"SUBSCRIBE",
    b"PSUBSCRIBE",
    b"SSUBSCRIBE",
    b"MONITOR",
    b"SYNC",
    b"PSYNC",
];

/// Whether the server may send more than the reply after this command.
pub(super) fn streams(name: &[u8]) -> bool {
    let same = |other: &&[u8]| name.eq_ignore_ascii_case(other);
    STREAMS.iter().any(same)
}

/// Returns the first word of a packed command.
pub(super) fn name(packed: &[u8]) -> &[u8] {
    // The first two lines are the number of words and the length of the first word.
    let mut lines = packed.splitn(4, |byte| *byte == b'\n');
    lines.nth(2).unwrap_or_default().trim_ascii_end()
}

/// Appends a command, starting with its name. Appends nothing if an error occurs. A name can
/// consist of several words, as in `CONFIG GET`.
pub(super) fn command<'a, 'py: 'a>(
    codec: &Codec,
    args: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    let before = out.len();
    let done = try_command(codec, args, out);
    if done.is_err() {
        out.truncate(before);
    }
    done
}

/// Appends several commands, or none if an error occurs.
pub(super) fn commands(
    codec: &Codec,
    commands: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    let before = out.len();
    let done = try_commands(codec, commands, out);
    if done.is_err() {
        out.truncate(before);
    }
    done
}

fn try_commands(codec: &Codec, commands: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    for command in commands.try_iter()? {
        let command = command?;
        match command.cast::<PyTuple>() {
            Ok(args) => try_command(codec, args.iter_borrowed(), out)?,
            Err(_) => {
                let args = command.try_iter()?.collect::<PyResult<Vec<_>>>()?;
                try_command(codec, args.iter().map(Bound::as_borrowed), out)?;
            }
        }
    }
    Ok(())
}

fn try_command<'a, 'py: 'a>(
    codec: &Codec,
    mut args: impl ExactSizeIterator<Item = Borrowed<'a, 'py, PyAny>>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    let Some(first) = args.next() else {
        return Err(DataError::new_err("expected the name of a command"));
    };
    let first: &Bound<'_, PyAny> = &first;
    // A command name is ASCII in every encoding.
    let text;
    let own;
    let name = match first.cast::<PyString>() {
        Ok(name) => {
            text = name.to_cow()?;
            text.as_bytes()
        }
        Err(_) => {
            own = encode(codec, first.as_borrowed())?;
            own.bytes()
        }
    };
    let words = || name.split(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
    let words = || words().filter(|word| !word.is_empty());
    header(b'*', words().count() + args.len(), out);
    words().for_each(|word| bulk(word, out));
    for arg in args {
        // SAFETY: the thread is attached, and the caller's reference keeps the object alive.
        if let Some(bytes) = unsafe { codec.bytes(arg.as_ptr()) } {
            bulk(bytes, out);
        // SAFETY: the thread is attached, and the caller's reference keeps the object alive.
        } else if let Some(number) = unsafe { codec::integer(arg.as_ptr()) } {
            bulk(itoa::Buffer::new().format(number).as_bytes(), out);
        } else {
            bulk(encode(codec, arg)?.bytes(), out);
        }
    }
    Ok(())
}

fn header(kind: u8, number: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    header(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
