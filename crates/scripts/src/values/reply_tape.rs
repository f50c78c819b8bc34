//! The reply of a command, recorded, and then pushed as a value of Lua.
//!
//! It is pushed once the command is done: making values of Lua may raise an error, which leaves everything where it
//! stands.

use std::ffi::c_int;

use undercroft_commands::reply::Reply;

use crate::state::State;
use crate::values::numbers::append_general;

/// One reply.
#[derive(Default)]
pub(crate) struct ReplyTape {
    events: Vec<Event>,
    /// The bytes of all texts.
    bytes: Vec<u8>,
}

/// A part of the bytes: where it begins, and how long it is.
type Part = (usize, usize);

/// One call of a method of [`Reply`].
#[derive(Clone, Copy)]
enum Event {
    Status(Part),
    Error(Part),
    Integer(i64),
    Text(Part),
    NoText,
    NoArray,
    Array(usize),
    Map(usize),
    Set(usize),
    Double(f64, Part),
    Boolean(bool),
    BigNumber(Part),
    Verbatim(Part, Part),
}

impl ReplyTape {
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
    }

    /// Whether it is an error.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self.events.first(), Some(Event::Error(_)))
    }

    /// Gives back what one long reply has taken.
    pub(crate) fn trim(&mut self) {
        const KEPT: usize = 64 * 1024;
        self.clear();
        self.bytes.shrink_to(KEPT);
        self.events.shrink_to(KEPT / size_of::<Event>());
    }

    fn keep(&mut self, bytes: &[u8]) -> Part {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (start, bytes.len())
    }

    fn part(&self, (start, length): Part) -> &[u8] {
        &self.bytes[start..start + length]
    }
}

/// Pushing.
impl ReplyTape {
    /// Pushes the reply as one value. `as_resp3` says how that of a command which knows RESP3 looks.
    pub(crate) fn push(&self, state: &mut State<'_>, as_resp3: bool) {
        let mut player = Player {
            tape: self,
            events: self.events.iter(),
            as_resp3,
        };
        // A reply that is no collection has room on the stack of any function that Lua calls.
        player.push_next(state);
    }
}

/// A tape that is being pushed. Nothing of it needs to be dropped.
struct Player<'t> {
    tape: &'t ReplyTape,
    events: std::slice::Iter<'t, Event>,
    as_resp3: bool,
}

impl Player<'_> {
    fn push_next(&mut self, state: &mut State<'_>) {
        let Some(event) = self.events.next() else {
            return state.push_boolean(false);
        };
        state.spend(1);
        match *event {
            Event::Status(part) => push_field(state, b"ok", self.tape.part(part)),
            Event::Error(part) => {
                state.push_error(self.tape.part(part));
                state.mark_counted();
            }
            Event::Integer(value) => state.push_number(value as f64),
            Event::Text(part) => {
                state.make_room(part.1);
                state.push_bytes(self.tape.part(part));
            }
            Event::NoText | Event::NoArray if self.as_resp3 => state.push_nil(),
            Event::NoText | Event::NoArray => state.push_boolean(false),
            Event::Array(length) => self.push_items(state, length),
            Event::Map(_) | Event::Set(_) if self.as_resp3 => self.push_resp3_table(state, *event),
            Event::Map(pairs) => self.push_items(state, pairs * 2),
            Event::Set(length) => self.push_items(state, length),
            Event::Double(..) | Event::Boolean(_) | Event::BigNumber(_) | Event::Verbatim(..) => {
                self.push_resp3_value(state, *event);
            }
        }
    }

    /// Pushes the items of a collection as a table.
    fn push_items(&mut self, state: &mut State<'_>, length: usize) {
        check_levels(state);
        state.push_table(room(length), 0);
        for index in 1..=length {
            self.push_next(state);
            state.set_item(-2, index as c_int);
        }
    }

    /// Pushes a map or a set of RESP3: a table with one field, which is the map, or has the items as keys.
    fn push_resp3_table(&mut self, state: &mut State<'_>, event: Event) {
        let (name, length, is_map) = match event {
            Event::Map(pairs) => (&b"map"[..], pairs, true),
            Event::Set(length) => (&b"set"[..], length, false),
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

    /// Pushes a value of a type that only RESP3 has.
    fn push_resp3_value(&self, state: &mut State<'_>, event: Event) {
        match event {
            Event::Double(_, part) if !self.as_resp3 => state.push_bytes(self.tape.part(part)),
            Event::Double(value, _) => {
                state.push_table(0, 1);
                state.push_bytes(b"double");
                state.push_number(value);
                state.raw_set(-3);
            }
            Event::Boolean(value) if !self.as_resp3 => {
                state.push_number(f64::from(u8::from(value)));
            }
            Event::Boolean(value) => state.push_boolean(value),
            Event::BigNumber(part) if !self.as_resp3 => state.push_bytes(self.tape.part(part)),
            Event::BigNumber(part) => push_field(state, b"big_number", self.tape.part(part)),
            Event::Verbatim(_, part) if !self.as_resp3 => state.push_bytes(self.tape.part(part)),
            Event::Verbatim(format, part) => {
                state.push_table(0, 1);
                state.push_bytes(b"verbatim_string");
                state.push_table(0, 2);
                state.push_bytes(b"format");
                state.push_bytes(self.tape.part(format));
                state.raw_set(-3);
                state.push_bytes(b"string");
                state.push_bytes(self.tape.part(part));
                state.raw_set(-3);
                state.raw_set(-3);
            }
            _ => state.push_nil(),
        }
    }
}

/// Makes room on the stack for a collection and one thing in it.
fn check_levels(state: &State<'_>) {
    if !state.has_room(12) {
        state.raise_here(b"the reply of a command has too many levels");
    }
}

/// Room made at once in a table.
fn room(length: usize) -> c_int {
    length.min(1 << 20) as c_int
}

/// Pushes a table of one field.
fn push_field(state: &mut State<'_>, name: &[u8], text: &[u8]) {
    state.push_table(0, 1);
    state.push_bytes(name);
    state.push_bytes(text);
    state.raw_set(-3);
}

impl Reply for ReplyTape {
    fn simple(&mut self, text: &str) {
        let part = self.keep(text.as_bytes());
        self.events.push(Event::Status(part));
    }
    fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }
    fn error_bytes(&mut self, text: &[u8]) {
        let part = self.keep(text);
        self.events.push(Event::Error(part));
    }
    fn integer(&mut self, value: i64) {
        self.events.push(Event::Integer(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        let part = self.keep(bytes);
        self.events.push(Event::Text(part));
    }
    fn null(&mut self) {
        self.events.push(Event::NoText);
    }
    fn null_array(&mut self) {
        self.events.push(Event::NoArray);
    }
    fn array(&mut self, length: usize) {
        self.events.push(Event::Array(length));
    }
    fn map(&mut self, pairs: usize) {
        self.events.push(Event::Map(pairs));
    }
    fn set(&mut self, length: usize) {
        self.events.push(Event::Set(length));
    }
    fn push(&mut self, length: usize) {
        self.events.push(Event::Array(length));
    }
    fn double(&mut self, value: f64) {
        let start = self.bytes.len();
        append_general(&mut self.bytes, value, 17);
        let part = (start, self.bytes.len() - start);
        self.events.push(Event::Double(value, part));
    }
    fn decimal(&mut self, digits: &str) {
        let part = self.keep(digits.as_bytes());
        let value = digits.parse().unwrap_or(f64::NAN);
        self.events.push(Event::Double(value, part));
    }
    fn boolean(&mut self, value: bool) {
        self.events.push(Event::Boolean(value));
    }
    fn big_number(&mut self, digits: &str) {
        let part = self.keep(digits.as_bytes());
        self.events.push(Event::BigNumber(part));
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        let (format, text) = (self.keep(format.as_bytes()), self.keep(text));
        self.events.push(Event::Verbatim(format, text));
    }
}
