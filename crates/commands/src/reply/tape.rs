//! Records replies on a tape. EXEC and scripts replay the tape when their transaction commits, and
//! an interpreter converts it to values of its language.

use crate::protocol::Protocol;
use crate::reply::Reply;

/// A [`Reply`] that records everything written to it. Unlike [`Recorder`](crate::reply::Recorder),
/// it is lossless, can be truncated in one step, and can be reused with almost no allocation.
#[derive(Debug, Default)]
pub struct Tape {
    events: Vec<TapeEvent>,
    /// The concatenated bytes of all recorded texts.
    bytes: Vec<u8>,
}

/// A reference to text recorded on a tape.
#[derive(Clone, Copy, Debug)]
pub struct TapeText {
    start: usize,
    length: usize,
}

/// A recorded call to a [`Reply`] method. An aggregate's event stores the number of replies that
/// follow.
#[derive(Clone, Copy, Debug)]
pub enum TapeEvent {
    /// A status reply.
    Simple(TapeText),
    /// An error reply.
    Error(TapeText),
    /// An integer reply.
    Integer(i64),
    /// A bulk string.
    Bulk(TapeText),
    /// A null reply.
    Null,
    /// A null array.
    NullArray,
    /// An array, with the number of replies that follow.
    Array(usize),
    /// A map, with the number of pairs that follow.
    Map(usize),
    /// A set, with the number of replies that follow.
    Set(usize),
    /// Out-of-band data, with the number of replies that follow.
    Push(usize),
    /// A floating-point number.
    Double(f64),
    /// A floating-point number, given in decimal digits.
    Decimal(TapeText),
    /// A Boolean value.
    Boolean(bool),
    /// An integer of arbitrary size, given in decimal digits.
    BigNumber(TapeText),
    /// Verbatim text: its format, followed by the text.
    Verbatim(TapeText, TapeText),
    /// A switch of the protocol for all following replies.
    Protocol(Protocol),
}

/// A position on a tape, to which the tape can be truncated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TapePosition {
    events: usize,
    bytes: usize,
}

impl Tape {
    /// Returns the recorded events, in order.
    #[inline]
    pub fn events(&self) -> &[TapeEvent] {
        &self.events
    }

    /// Returns the bytes of a text recorded on this tape.
    #[inline]
    pub fn text(&self, text: TapeText) -> &[u8] {
        &self.bytes[text.start..text.start + text.length]
    }

    /// Returns whether the first recorded reply is an error.
    #[inline]
    pub fn is_error(&self) -> bool {
        matches!(self.events.first(), Some(TapeEvent::Error(_)))
    }

    /// Erases the tape, but keeps its memory for reuse.
    #[inline]
    pub fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
    }

    /// Erases the tape, and frees the excess memory that a long reply has allocated.
    pub fn trim(&mut self) {
        const KEPT: usize = 64 * 1024;
        self.clear();
        self.bytes.shrink_to(KEPT);
        self.events.shrink_to(KEPT / size_of::<TapeEvent>());
    }

    /// Returns the position at the current end of the tape.
    pub(crate) fn position(&self) -> TapePosition {
        TapePosition {
            events: self.events.len(),
            bytes: self.bytes.len(),
        }
    }

    /// Truncates the tape to an earlier position.
    pub(crate) fn cut(&mut self, position: TapePosition) {
        self.events.truncate(position.events);
        self.bytes.truncate(position.bytes);
    }

    /// Replays the entire tape into another reply.
    pub(crate) fn play_all(&self, reply: &mut dyn Reply) {
        self.play(TapePosition::default(), self.position(), reply);
    }

    /// Replays the events between two positions into another reply.
    pub(crate) fn play(&self, from: TapePosition, to: TapePosition, reply: &mut dyn Reply) {
        let bytes = |text: &TapeText| self.text(*text);
        // The default is never used, because the recorded method received a `str`.
        let text = |text: &TapeText| str::from_utf8(self.text(*text)).unwrap_or_default();
        for event in &self.events[from.events..to.events] {
            match event {
                TapeEvent::Simple(status) => match str::from_utf8(bytes(status)) {
                    Ok(status) => reply.simple(status),
                    Err(_) => reply.simple_bytes(bytes(status)),
                },
                TapeEvent::Error(error) => match str::from_utf8(bytes(error)) {
                    Ok(error) => reply.error(error),
                    Err(_) => reply.error_bytes(bytes(error)),
                },
                TapeEvent::Integer(value) => reply.integer(*value),
                TapeEvent::Bulk(string) => reply.bulk(bytes(string)),
                TapeEvent::Null => reply.null(),
                TapeEvent::NullArray => reply.null_array(),
                TapeEvent::Array(length) => reply.array(*length),
                TapeEvent::Map(pairs) => reply.map(*pairs),
                TapeEvent::Set(length) => reply.set(*length),
                TapeEvent::Push(length) => reply.push(*length),
                TapeEvent::Double(value) => reply.double(*value),
                TapeEvent::Decimal(digits) => reply.decimal(text(digits)),
                TapeEvent::Boolean(value) => reply.boolean(*value),
                TapeEvent::BigNumber(digits) => reply.big_number(text(digits)),
                TapeEvent::Verbatim(format, shown) => reply.verbatim(text(format), bytes(shown)),
                TapeEvent::Protocol(version) => reply.protocol(*version),
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> TapeText {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        TapeText {
            start,
            length: bytes.len(),
        }
    }
}

impl Reply for Tape {
    fn simple(&mut self, text: &str) {
        self.simple_bytes(text.as_bytes());
    }
    fn simple_bytes(&mut self, text: &[u8]) {
        let text = self.keep(text);
        self.events.push(TapeEvent::Simple(text));
    }
    fn error(&mut self, text: &str) {
        self.error_bytes(text.as_bytes());
    }
    fn error_bytes(&mut self, text: &[u8]) {
        let text = self.keep(text);
        self.events.push(TapeEvent::Error(text));
    }
    fn integer(&mut self, value: i64) {
        self.events.push(TapeEvent::Integer(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        let text = self.keep(bytes);
        self.events.push(TapeEvent::Bulk(text));
    }
    fn null(&mut self) {
        self.events.push(TapeEvent::Null);
    }
    fn null_array(&mut self) {
        self.events.push(TapeEvent::NullArray);
    }
    fn array(&mut self, length: usize) {
        self.events.push(TapeEvent::Array(length));
    }
    fn map(&mut self, pairs: usize) {
        self.events.push(TapeEvent::Map(pairs));
    }
    fn set(&mut self, length: usize) {
        self.events.push(TapeEvent::Set(length));
    }
    fn push(&mut self, length: usize) {
        self.events.push(TapeEvent::Push(length));
    }
    fn double(&mut self, value: f64) {
        self.events.push(TapeEvent::Double(value));
    }
    fn decimal(&mut self, digits: &str) {
        let text = self.keep(digits.as_bytes());
        self.events.push(TapeEvent::Decimal(text));
    }
    fn boolean(&mut self, value: bool) {
        self.events.push(TapeEvent::Boolean(value));
    }
    fn big_number(&mut self, digits: &str) {
        let text = self.keep(digits.as_bytes());
        self.events.push(TapeEvent::BigNumber(text));
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        let format = self.keep(format.as_bytes());
        let text = self.keep(text);
        self.events.push(TapeEvent::Verbatim(format, text));
    }
    fn protocol(&mut self, version: Protocol) {
        self.events.push(TapeEvent::Protocol(version));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::{Recorder, Tree};

    #[test]
    fn replay_equals_the_recorded_reply() {
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
        let from = tape.position();
        tree.write(&mut tape);
        let to = tape.position();
        tape.simple("not this");
        tape.cut(to);
        let mut recorder = Recorder::new();
        tape.play(from, tape.position(), &mut recorder);
        assert_eq!(recorder.finish(), Ok(vec![tree]));
    }
}
