//! Encodes Lua values as JSON.

use std::ffi::c_int;

use super::settings::{LEVELS_MAX, Settings};
use crate::libraries::workspace::Workspace;
use crate::state::{Context, Kind, State, TABLE_WALK};
use crate::values::numbers::append_general;

/// The maximum encoded size, in bytes, of a number, a word or a bracket with its separators.
const ITEM: usize = 64;
/// The number of string bytes to encode between two checks of the memory limit.
const PIECE: usize = 4096;

/// Implements `cjson.encode`.
pub(super) fn encode(state: &mut State<'_>) -> c_int {
    if state.top() != 1 {
        state.raise_argument(1, c"expected 1 argument");
    }
    let context = state.context();
    context.clear_scratch();
    let mut encoder = Encoder {
        context,
        // SAFETY: `out` is the only reference to the scratch buffer: no function called while the
        // encoder exists uses the buffer, and no script runs.
        out: unsafe { &mut *context.scratch() },
        settings: &Workspace::of(state).json,
    };
    encoder.append(state, 0);
    state.push_scratch();
    1
}

fn raise_unserializable(state: &State<'_>, index: c_int, why: &str) -> ! {
    let kind = state.kind(index).name();
    state.raise_formatted(format_args!("Cannot serialise {kind}: {why}"))
}

/// An encoder for one JSON text. No field needs a destructor, because a Lua error skips
/// destructors.
struct Encoder<'e> {
    context: &'e Context,
    out: &'e mut Vec<u8>,
    settings: &'e Settings,
}

impl Encoder<'_> {
    /// Encodes the value on top of the stack, without popping it.
    fn append(&mut self, state: &mut State<'_>, level: c_int) {
        state.check_scratch(self.out.len() + ITEM);
        self.context.spend(state, 1);
        match state.kind(-1) {
            Kind::STRING => self.append_text(state, state.bytes(-1)),
            Kind::NUMBER => self.append_number(state, -1),
            Kind::BOOLEAN => {
                let text: &[u8] = if state.boolean(-1) { b"true" } else { b"false" };
                self.out.extend_from_slice(text);
            }
            Kind::TABLE => {
                let level = level + 1;
                if level > self.settings.encode_depth.get().min(LEVELS_MAX) || !state.has_room(5) {
                    let problem = format_args!("Cannot serialise, excessive nesting ({level})");
                    state.raise_formatted(problem);
                }
                self.context.spend(state, TABLE_WALK);
                match self.array_length(state) {
                    0 => self.append_object(state, level),
                    length => self.append_array(state, level, length),
                }
            }
            Kind::NIL => self.out.extend_from_slice(b"null"),
            _ if state.is_null(-1) => self.out.extend_from_slice(b"null"),
            _ => raise_unserializable(state, -1, "type not supported"),
        }
    }

    fn append_text(&mut self, state: &State<'_>, text: &[u8]) {
        self.out.push(b'"');
        for piece in text.chunks(PIECE) {
            // An escaped byte takes at most six bytes.
            state.check_scratch(self.out.len() + piece.len() * 6 + ITEM);
            self.context.spend_bytes(state, piece.len());
            append_piece(self.out, piece);
        }
        self.out.push(b'"');
    }

    fn append_number(&mut self, state: &State<'_>, index: c_int) {
        let number = state.number(index);
        if !number.is_finite() {
            match self.settings.encodes_invalid.get() {
                0 => raise_unserializable(state, index, "must not be NaN or Inf"),
                1 if number.is_nan() => return self.out.extend_from_slice(b"nan"),
                1 => {}
                _ => return self.out.extend_from_slice(b"null"),
            }
        }
        append_general(self.out, number, self.settings.precision.get() as usize);
    }

    /// Returns the length of the table on top of the stack if the table is an array, otherwise 0.
    fn array_length(&self, state: &mut State<'_>) -> c_int {
        let (mut most, mut items) = (0_i64, 0_i64);
        state.push_nil();
        while state.next(-2) {
            self.context.spend(state, 1);
            let number = match state.kind(-2) {
                Kind::NUMBER => state.number(-2),
                _ => 0.0,
            };
            if number < 1.0 || number.floor() != number || number > f64::from(c_int::MAX) {
                state.pop(2);
                return 0;
            }
            most = most.max(number as i64);
            items += 1;
            state.pop(1);
        }
        let ratio = i64::from(self.settings.sparse_ratio.get());
        let safe = i64::from(self.settings.sparse_safe.get());
        if ratio > 0 && most > items * ratio && most > safe {
            if self.settings.converts_sparse.get() == 0 {
                raise_unserializable(state, -1, "excessively sparse array");
            }
            return 0;
        }
        most as c_int
    }

    fn append_array(&mut self, state: &mut State<'_>, level: c_int, length: c_int) {
        self.out.push(b'[');
        for index in 1..=length {
            if index > 1 {
                self.out.push(b',');
            }
            state.push_item(-1, index);
            self.append(state, level);
            state.pop(1);
        }
        self.out.push(b']');
    }

    fn append_object(&mut self, state: &mut State<'_>, level: c_int) {
        self.out.push(b'{');
        let mut is_first = true;
        state.push_nil();
        while state.next(-2) {
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            state.check_scratch(self.out.len() + ITEM);
            match state.kind(-2) {
                Kind::NUMBER => {
                    self.out.push(b'"');
                    self.append_number(state, -2);
                    self.out.extend_from_slice(b"\":");
                }
                Kind::STRING => {
                    self.append_text(state, state.bytes(-2));
                    self.out.push(b':');
                }
                _ => raise_unserializable(state, -2, "table key must be a number or string"),
            }
            self.append(state, level);
            state.pop(1);
        }
        self.out.push(b'}');
    }
}

fn append_piece(out: &mut Vec<u8>, piece: &[u8]) {
    for byte in piece {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7f => {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(DIGITS[usize::from(byte >> 4)]);
                out.push(DIGITS[usize::from(byte & 15)]);
            }
            other => out.push(*other),
        }
    }
}
