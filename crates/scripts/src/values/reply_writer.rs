//! Writes a script's result as a reply.

use undercroft_commands::arguments::CommandError;
use undercroft_commands::reply::{Reply, Tree};

use crate::state::{Kind, State, TABLE_WALK};
use crate::values::numbers::truncated;

/// The maximum nesting depth of tables. A deeper table is written as an error.
const LEVELS_MAX: usize = 1000;
/// The memory overhead, in bytes, of each value while the reply is buffered.
const NODE: usize = size_of::<Tree>();

/// A writer of a script's reply. No field needs a destructor, because a Lua error skips
/// destructors.
pub(crate) struct ReplyWriter<'r> {
    pub(crate) reply: &'r mut dyn Reply,
    pub(crate) as_resp3: bool,
}

/// Counts a value of `length` bytes before it is written. Raises an error if the reply becomes too
/// long or writing it takes too much time.
fn count(state: &State<'_>, length: usize) {
    state.count_reply(length.saturating_add(NODE));
    state.spend_bytes(length);
}

impl ReplyWriter<'_> {
    /// Writes the value on top of the stack, and pops it.
    pub(crate) fn write(&mut self, state: &mut State<'_>) {
        self.write_value(state, 0);
    }

    fn write_value(&mut self, state: &mut State<'_>, level: usize) {
        if level > LEVELS_MAX || !state.has_room(5) {
            let error = "ERR reached lua stack limit";
            count(state, error.len());
            self.reply.error(error);
            return state.pop(1);
        }
        match state.kind(-1) {
            Kind::STRING => {
                let text = state.bytes(-1);
                count(state, text.len());
                self.reply.bulk(text);
            }
            Kind::NUMBER => {
                count(state, 0);
                self.reply.integer(truncated(state.number(-1)));
            }
            Kind::BOOLEAN => {
                count(state, 0);
                match (self.as_resp3, state.boolean(-1)) {
                    (true, value) => self.reply.boolean(value),
                    (false, true) => self.reply.integer(1),
                    (false, false) => self.reply.null(),
                }
            }
            Kind::TABLE => self.write_table(state, level),
            _ => {
                count(state, 0);
                self.reply.null();
            }
        }
        state.pop(1);
    }

    /// Writes the table on top of the stack without popping it. An `err`, `ok` or similar field
    /// determines the type of the reply. A table without such a field is an array.
    fn write_table(&mut self, state: &mut State<'_>, level: usize) {
        let is_written = self.write_field(state, b"err", Kind::STRING, ReplyWriter::write_error)
            || self.write_field(state, b"ok", Kind::STRING, |writer, state| {
                let text = state.c_bytes(-1);
                count(state, text.len());
                write_status(writer.reply, text);
                true
            })
            || self.write_field(state, b"double", Kind::NUMBER, |writer, state| {
                count(state, 0);
                writer.reply.double(state.number(-1));
                true
            })
            || self.write_field(state, b"big_number", Kind::STRING, |writer, state| {
                let digits = state.bytes(-1);
                count(state, digits.len());
                write_big_number(writer.reply, digits);
                true
            })
            || self.write_field(
                state,
                b"verbatim_string",
                Kind::TABLE,
                ReplyWriter::write_verbatim,
            )
            || self.write_field(state, b"map", Kind::TABLE, |writer, state| {
                writer.write_map(state, level)
            })
            || self.write_field(state, b"set", Kind::TABLE, |writer, state| {
                writer.write_set(state, level)
            });
        if !is_written {
            self.write_array(state, level);
        }
    }

    /// Calls `write` with a field of the table on top of the stack if the field has the required
    /// type. Returns whether it called `write`.
    fn write_field(
        &mut self,
        state: &mut State<'_>,
        name: &[u8],
        kind: Kind,
        write: impl FnOnce(&mut Self, &mut State<'_>) -> bool,
    ) -> bool {
        state.push_bytes(name);
        state.raw_get(-2);
        let is_written = state.kind(-1) == kind && write(self, state);
        state.pop(1);
        is_written
    }

    fn write_error(&mut self, state: &mut State<'_>) -> bool {
        let text = state.c_bytes(-1);
        count(state, text.len());
        CommandError::from_parts(&[text]).write(self.reply);
        true
    }

    /// Writes the table on top of the stack if it describes a verbatim string. Returns whether it
    /// does.
    fn write_verbatim(&mut self, state: &mut State<'_>) -> bool {
        state.push_bytes(b"format");
        state.raw_get(-2);
        if state.kind(-1) != Kind::STRING {
            state.pop(1);
            return false;
        }
        state.push_bytes(b"string");
        state.raw_get(-3);
        let is_one = state.kind(-1) == Kind::STRING;
        if is_one {
            let (format, text) = (state.c_bytes(-2), state.bytes(-1));
            count(state, text.len());
            write_verbatim_text(self.reply, format, text);
        }
        state.pop(2);
        is_one
    }

    fn write_map(&mut self, state: &mut State<'_>, level: usize) -> bool {
        let pairs = count_pairs(state);
        self.reply.map(pairs);
        state.push_nil();
        while state.next(-2) {
            state.push_value(-2);
            self.write_value(state, level + 1);
            self.write_value(state, level + 1);
        }
        true
    }

    fn write_set(&mut self, state: &mut State<'_>, level: usize) -> bool {
        let items = count_pairs(state);
        self.reply.set(items);
        state.push_nil();
        while state.next(-2) {
            state.pop(1);
            state.push_value(-1);
            self.write_value(state, level + 1);
        }
        true
    }

    fn write_array(&mut self, state: &mut State<'_>, level: usize) {
        let mut length = 0;
        loop {
            state.spend(1);
            state.push_item(-1, length + 1);
            let is_end = state.kind(-1) == Kind::NIL;
            state.pop(1);
            if is_end {
                break;
            }
            length += 1;
        }
        count(state, 0);
        self.reply.array(length as usize);
        for index in 1..=length {
            state.push_item(-1, index);
            self.write_value(state, level + 1);
        }
    }
}

/// Returns the number of pairs in the table on top of the stack. Counts the table as a value of the
/// reply.
fn count_pairs(state: &mut State<'_>) -> usize {
    count(state, 0);
    state.spend(TABLE_WALK);
    let mut pairs = 0;
    state.push_nil();
    while state.next(-2) {
        state.spend(1);
        state.pop(1);
        pairs += 1;
    }
    pairs
}

fn write_status(reply: &mut dyn Reply, text: &[u8]) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let shown = text
        .iter()
        .map(|byte| if is_end(byte) { b' ' } else { *byte });
    let shown: Vec<u8> = shown.collect();
    match str::from_utf8(&shown) {
        Ok(text) => reply.simple(text),
        Err(_) => reply.simple_bytes(&shown),
    }
}

fn write_big_number(reply: &mut dyn Reply, text: &[u8]) {
    reply.big_number(CommandError::from_parts(&[text]).text());
}

fn write_verbatim_text(reply: &mut dyn Reply, format: &[u8], text: &[u8]) {
    let mut letters = [b' '; 3];
    for (letter, given) in letters.iter_mut().zip(format) {
        *letter = *given;
    }
    reply.verbatim(str::from_utf8(&letters).unwrap_or("txt"), text);
}
