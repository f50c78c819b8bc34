//! A reply kept for later: what EXEC's commands answer is told only once their transaction is committed.

use std::ops::Range;

use crate::protocol::Protocol;
use crate::reply::Reply;

/// A [`Reply`] that keeps what is written to it, and can play it to another one. Unlike
/// [`Recorder`](crate::reply::Recorder) it keeps every byte, is cut back in one step, and allocates next to nothing.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    events: Vec<Event>,
    /// The bytes of all texts.
    bytes: Vec<u8>,
}

/// One call of a method of [`Reply`]. Texts are ranges of the tape's bytes.
#[derive(Debug)]
enum Event {
    Simple(Range<usize>),
    Error(Range<usize>),
    Integer(i64),
    Bulk(Range<usize>),
    Null,
    NullArray,
    Array(usize),
    Map(usize),
    Set(usize),
    Push(usize),
    Double(f64),
    Decimal(Range<usize>),
    Boolean(bool),
    BigNumber(Range<usize>),
    Verbatim(Range<usize>, Range<usize>),
    Protocol(Protocol),
}

/// A place on a tape.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    events: usize,
    bytes: usize,
}

impl Tape {
    /// Where it ends now.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            events: self.events.len(),
            bytes: self.bytes.len(),
        }
    }

    /// Forgets what was written since a mark.
    pub(crate) fn cut(&mut self, mark: Mark) {
        self.events.truncate(mark.events);
        self.bytes.truncate(mark.bytes);
    }

    /// Writes what is between two marks to another reply.
    pub(crate) fn play(&self, from: Mark, to: Mark, reply: &mut dyn Reply) {
        let bytes = |range: &Range<usize>| &self.bytes[range.clone()];
        // The handler that wrote them wrote text.
        let text = |range: &Range<usize>| str::from_utf8(bytes(range)).unwrap_or_default();
        for event in &self.events[from.events..to.events] {
            match event {
                Event::Simple(range) => match str::from_utf8(bytes(range)) {
                    Ok(text) => reply.simple(text),
                    Err(_) => reply.simple_bytes(bytes(range)),
                },
                Event::Error(range) => match str::from_utf8(bytes(range)) {
                    Ok(text) => reply.error(text),
                    Err(_) => reply.error_bytes(bytes(range)),
                },
                Event::Integer(value) => reply.integer(*value),
                Event::Bulk(range) => reply.bulk(bytes(range)),
                Event::Null => reply.null(),
                Event::NullArray => reply.null_array(),
                Event::Array(length) => reply.array(*length),
                Event::Map(pairs) => reply.map(*pairs),
                Event::Set(length) => reply.set(*length),
                Event::Push(length) => reply.push(*length),
                Event::Double(value) => reply.double(*value),
                Event::Decimal(range) => reply.decimal(text(range)),
                Event::Boolean(value) => reply.boolean(*value),
                Event::BigNumber(range) => reply.big_number(text(range)),
                Event::Verbatim(format, range) => reply.verbatim(text(format), bytes(range)),
                Event::Protocol(version) => reply.protocol(*version),
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

impl Reply for Tape {
    fn simple(&mut self, text: &str) {
        self.simple_bytes(text.as_bytes());
    }
    fn simple_bytes(&mut self, text: &[u8]) {
        let range = self.keep(text);
        self.events.push(Event::Simple(range));
    }
    fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }
    fn error_bytes(&mut self, text: &[u8]) {
        let range = self.keep(text);
        self.events.push(Event::Error(range));
    }
    fn integer(&mut self, value: i64) {
        self.events.push(Event::Integer(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        let range = self.keep(bytes);
        self.events.push(Event::Bulk(range));
    }
    fn null(&mut self) {
        self.events.push(Event::Null);
    }
    fn null_array(&mut self) {
        self.events.push(Event::NullArray);
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
        self.events.push(Event::Push(length));
    }
    fn double(&mut self, value: f64) {
        self.events.push(Event::Double(value));
    }
    fn decimal(&mut self, digits: &str) {
        let range = self.keep(digits.as_bytes());
        self.events.push(Event::Decimal(range));
    }
    fn boolean(&mut self, value: bool) {
        self.events.push(Event::Boolean(value));
    }
    fn big_number(&mut self, digits: &str) {
        let range = self.keep(digits.as_bytes());
        self.events.push(Event::BigNumber(range));
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        let format = self.keep(format.as_bytes());
        let range = self.keep(text);
        self.events.push(Event::Verbatim(format, range));
    }
    fn protocol(&mut self, version: Protocol) {
        self.events.push(Event::Protocol(version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{Recorder, Tree};

    #[test]
    fn what_is_played_is_what_was_written() {
        let tree = Tree::Push(vec![
            Tree::Map(vec![(Tree::Boolean(true), Tree::Double(1.5))]),
            Tree::Set(vec![
                Tree::Simple("OK".into()),
                Tree::Error("ERR no".into()),
            ]),
            Tree::Verbatim {
                format: "txt".into(),
                text: b"x\xff".to_vec(),
            },
            Tree::Array(vec![Tree::Bulk(b"\0".to_vec()), Tree::Integer(-3)]),
            Tree::BigNumber("12".into()),
            Tree::Null,
            Tree::NullArray,
        ]);
        let mut tape = Tape::default();
        tape.integer(1);
        let from = tape.mark();
        tree.write(&mut tape);
        let to = tape.mark();
        tape.simple("not this");
        tape.cut(to);
        let mut recorder = Recorder::new();
        tape.play(from, tape.mark(), &mut recorder);
        assert_eq!(recorder.finish(), Ok(vec![tree]));
    }
}
