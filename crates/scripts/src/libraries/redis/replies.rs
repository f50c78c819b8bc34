//! Implements the functions that create error replies, status replies and checksums.

use std::ffi::c_int;

use undercroft_commands::scripts::IncrementalSha;

use crate::state::{Kind, State};

/// Implements `redis.sha1hex`.
pub(super) fn sha1hex(state: &mut State<'_>) -> c_int {
    const PIECE: usize = 64 << 10;
    const { assert!(!std::mem::needs_drop::<IncrementalSha>()) }
    if state.top() != 1 {
        state.raise(b"ERR wrong number of arguments");
    }
    let mut hashing = IncrementalSha::default();
    for piece in state.bytes(1).chunks(PIECE) {
        // Count each byte as a step, because hashing a byte takes a few nanoseconds.
        state.spend(piece.len());
        hashing.add(piece);
    }
    state.push_bytes(hashing.end().as_bytes());
    1
}

const WRONG_REPLY: &[u8] = b"ERR wrong number or type of arguments";

fn is_one_string(state: &State<'_>) -> bool {
    state.top() == 1 && state.kind(-1) == Kind::STRING
}

/// Implements `redis.error_reply`.
pub(super) fn error_reply(state: &mut State<'_>) -> c_int {
    if !is_one_string(state) {
        state.push_error(WRONG_REPLY);
        return 1;
    }
    let text = state.c_bytes(1);
    let context = state.context();
    state.check_scratch(text.len() + 8);
    state.spend_bytes(text.len());
    // SAFETY: `error` is the only reference to the scratch buffer, because pushing an error does
    // not use the buffer.
    let error = unsafe { &mut *context.scratch() };
    compose_error(error, text);
    state.push_error(error);
    context.clear_scratch();
    1
}

/// Writes an error message as Redis stores it in an error table: without a leading `-`, and with an
/// error code.
fn compose_error(out: &mut Vec<u8>, text: &[u8]) {
    out.clear();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let space = text.iter().position(|byte| *byte == b' ');
    let (code, message) = match space {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = message
        .iter()
        .position(|byte| !is_end(byte))
        .unwrap_or(message.len());
    let end = message
        .iter()
        .rposition(|byte| !is_end(byte))
        .map_or(start, |last| last + 1);
    out.extend_from_slice(code);
    out.push(b' ');
    out.extend_from_slice(&message[start..end]);
}

/// Implements `redis.status_reply`.
pub(super) fn status_reply(state: &mut State<'_>) -> c_int {
    if !is_one_string(state) {
        state.push_error(WRONG_REPLY);
        return 1;
    }
    state.push_table(0, 1);
    state.push_value(1);
    state.set_field(-2, c"ok");
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_without_a_code_gets_err() {
        for (text, expected) in [
            ("My Err", "My Err"),
            ("-My Err", "My Err"),
            ("My", "ERR My"),
            ("", "ERR "),
            ("CODE text\r\n", "CODE text"),
        ] {
            let mut out = Vec::new();
            compose_error(&mut out, text.as_bytes());
            assert_eq!(out, expected.as_bytes());
        }
    }
}
