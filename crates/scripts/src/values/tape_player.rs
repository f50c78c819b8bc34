//! Pushes a command's recorded reply as a Lua value.
//!
//! The reply is pushed only after the command has ended, because creating Lua values can raise an
//! error, which skips the rest of the code.

use std::ffi::c_int;

use undercroft_commands::reply::{Tape, TapeEvent};
use undercroft_numbers::double_text;

use crate::state::State;

/// Pushes a reply as one Lua value. If `as_resp3` is set, RESP3 replies retain their types.
pub(crate) fn push_reply(tape: &Tape, state: &mut State<'_>, as_resp3: bool) {
    let mut player = Player {
        tape,
        events: tape.events().iter(),
        as_resp3,
    };
    // Lua guarantees every function stack space for the one value that is pushed.
    player.push_next(state);
}

/// A player that pushes a recorded reply. No field needs a destructor, because a Lua error skips
/// destructors.
struct Player<'t> {
    tape: &'t Tape,
    events: std::slice::Iter<'t, TapeEvent>,
    as_resp3: bool,
}

impl Player<'_> {
    fn push_next(&mut self, state: &mut State<'_>) {
        let Some(event) = self.events.next() else {
            return state.push_boolean(false);
        };
        state.spend(1);
        match *event {
            TapeEvent::Simple(part) => push_field(state, b"ok", self.tape.text(part)),
            TapeEvent::Error(part) => {
                state.push_error(self.tape.text(part));
                state.mark_counted();
            }
            TapeEvent::Integer(value) => state.push_number(value as f64),
            TapeEvent::Bulk(part) => {
                let text = self.tape.text(part);
                state.make_room(text.len());
                state.push_bytes(text);
            }
            TapeEvent::Null | TapeEvent::NullArray if self.as_resp3 => state.push_nil(),
            TapeEvent::Null | TapeEvent::NullArray => state.push_boolean(false),
            TapeEvent::Array(length) | TapeEvent::Push(length) => self.push_items(state, length),
            TapeEvent::Map(_) | TapeEvent::Set(_) if self.as_resp3 => {
                self.push_resp3_table(state, *event)
            }
            TapeEvent::Map(pairs) => self.push_items(state, pairs * 2),
            TapeEvent::Set(length) => self.push_items(state, length),
            TapeEvent::Double(_)
            | TapeEvent::Decimal(_)
            | TapeEvent::Boolean(_)
            | TapeEvent::BigNumber(_)
            | TapeEvent::Verbatim(..) => self.push_resp3_value(state, *event),
            TapeEvent::Protocol(_) => self.push_next(state),
        }
    }

    /// Pushes the next `length` items of the reply as one table.
    fn push_items(&mut self, state: &mut State<'_>, length: usize) {
        check_levels(state);
        state.push_table(room(length), 0);
        for index in 1..=length {
            self.push_next(state);
            state.set_item(-2, index as c_int);
        }
    }

    /// Pushes a RESP3 map or set as a table with one field, `map` or `set`. The items of a set
    /// become keys with the value true.
    fn push_resp3_table(&mut self, state: &mut State<'_>, event: TapeEvent) {
        let (name, length, is_map) = match event {
            TapeEvent::Map(pairs) => (&b"map"[..], pairs, true),
            TapeEvent::Set(length) => (&b"set"[..], length, false),
            _ => return state.push_nil(),
        };
        check_levels(state);
        state.push_table(0, 1);
        state.push_bytes(name);
        state.push_table(0, room(length));
        for _ in 0..length {
            self.push_next(state);
            match is_map {
                true => self.push_next(state),
                false => state.push_boolean(true),
            }
            state.raw_set(-3);
        }
        state.raw_set(-3);
    }

    /// Pushes a value of a type that exists only in RESP3.
    fn push_resp3_value(&self, state: &mut State<'_>, event: TapeEvent) {
        match event {
            TapeEvent::Double(value) if !self.as_resp3 => state.push_bytes(&double_text(value)),
            TapeEvent::Double(value) => push_double(state, value),
            TapeEvent::Decimal(digits) if !self.as_resp3 => {
                state.push_bytes(self.tape.text(digits));
            }
            TapeEvent::Decimal(digits) => {
                let digits = str::from_utf8(self.tape.text(digits)).unwrap_or_default();
                push_double(state, digits.parse().unwrap_or(f64::NAN));
            }
            TapeEvent::Boolean(value) if !self.as_resp3 => {
                state.push_number(f64::from(u8::from(value)));
            }
            TapeEvent::Boolean(value) => state.push_boolean(value),
            TapeEvent::BigNumber(part) if !self.as_resp3 => state.push_bytes(self.tape.text(part)),
            TapeEvent::BigNumber(part) => push_field(state, b"big_number", self.tape.text(part)),
            TapeEvent::Verbatim(_, part) if !self.as_resp3 => {
                state.push_bytes(self.tape.text(part))
            }
            TapeEvent::Verbatim(format, part) => {
                state.push_table(0, 1);
                state.push_bytes(b"verbatim_string");
                state.push_table(0, 2);
                state.push_bytes(b"format");
                state.push_bytes(self.tape.text(format));
                state.raw_set(-3);
                state.push_bytes(b"string");
                state.push_bytes(self.tape.text(part));
                state.raw_set(-3);
                state.raw_set(-3);
            }
            _ => state.push_nil(),
        }
    }
}

/// Reserves stack space for a collection and one of its items.
fn check_levels(state: &State<'_>) {
    if !state.has_room(12) {
        state.raise_here(b"the reply of a command has too many levels");
    }
}

/// Returns the number of slots to allocate in advance for a table of `length` items.
fn room(length: usize) -> c_int {
    length.min(1 << 20) as c_int
}

/// Pushes a double in its RESP3 form, a table with the field `double`.
fn push_double(state: &mut State<'_>, value: f64) {
    state.push_table(0, 1);
    state.push_bytes(b"double");
    state.push_number(value);
    state.raw_set(-3);
}

/// Pushes a table with a single field.
fn push_field(state: &mut State<'_>, name: &[u8], text: &[u8]) {
    state.push_table(0, 1);
    state.push_bytes(name);
    state.push_bytes(text);
    state.raw_set(-3);
}
