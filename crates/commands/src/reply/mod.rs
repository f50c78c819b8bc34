//! Defines command replies: the [`Reply`] trait that every handler writes to, and [`Recorder`],
//! which records a reply as a [`Tree`].
//!
//! A handler does not know how its reply is used. The server writes RESP2 or RESP3, Python builds
//! objects, and the command line prints text, each through its own implementation of `Reply`. As on
//! the wire, an aggregate starts with its length, followed by that number of replies, so writers
//! need no buffer.
//!
//! All modules of this crate except `algorithms` can call this module.
//!
//! - `print`: prints a reply as redis-cli does on a terminal.
//! - `streams`: writes stream entries.
//! - `tape`: records a reply that can be replayed, or converted to values of another language.

mod print;
pub(crate) mod streams;
mod tape;

use undercroft_engine::Ranges;
use undercroft_engine::strings::TextBuffer;

use crate::protocol::Protocol;

pub use print::print;
pub(crate) use print::quote;
pub(crate) use tape::TapePosition;
pub use tape::{Tape, TapeEvent, TapeText};

/// A receiver of one command's reply.
///
/// A handler writes exactly one reply: either a scalar, or an aggregate header followed by the
/// announced number of complete replies. A [`map`](Reply::map) contains twice that number of
/// replies, alternating between keys and values. Handlers use RESP3 types, and a RESP2 writer
/// translates them: maps to flat arrays, sets and pushes to arrays, doubles, big numbers and
/// verbatim texts to bulk strings, and Booleans to integers.
pub trait Reply {
    /// Writes a status such as `OK`. The text must not contain line breaks.
    fn simple(&mut self, text: &str);
    /// Writes a status from a script. The status may be invalid UTF-8.
    fn simple_bytes(&mut self, text: &[u8]) {
        self.simple(&String::from_utf8_lossy(text));
    }
    /// Writes an error that starts with its error code, such as `ERR syntax error`. The text must
    /// not contain line breaks.
    fn error(&mut self, text: &str);
    /// Writes an error that quotes bytes from the client, which may be invalid UTF-8.
    fn error_bytes(&mut self, text: &[u8]) {
        self.error(&String::from_utf8_lossy(text));
    }
    /// Writes a signed 64-bit integer.
    fn integer(&mut self, value: i64);
    /// Writes a bulk string of arbitrary bytes.
    fn bulk(&mut self, bytes: &[u8]);
    /// Returns a buffer into which a string can be read directly from the store as a complete
    /// reply. Returns `None` if the writer has no such buffer. If nothing is read into the buffer,
    /// no reply is written.
    fn text(&mut self) -> Option<&mut dyn TextBuffer> {
        None
    }
    /// Writes a null: a null bulk string in RESP2, or a null in RESP3.
    fn null(&mut self);
    /// Writes a null array: `*-1` in RESP2, or a null in RESP3.
    fn null_array(&mut self);
    /// Begins an array, which consists of the next `length` replies.
    fn array(&mut self, length: usize);
    /// Writes each item as a separate bulk string.
    fn bulks(&mut self, items: &Ranges) {
        items.iter().for_each(|item| self.bulk(item));
    }
    /// Begins a map, which consists of the next `pairs` key-value pairs.
    fn map(&mut self, pairs: usize);
    /// Begins a set, which consists of the next `length` replies.
    fn set(&mut self, length: usize);
    /// Begins a push of out-of-band data, which consists of the next `length` replies.
    fn push(&mut self, length: usize);
    /// Writes a floating-point number.
    fn double(&mut self, value: f64);
    /// Writes a floating-point number that is given in decimal digits. Text protocols send the
    /// digits unchanged, and other writers convert them to the nearest floating-point number.
    fn decimal(&mut self, digits: &str);
    /// Writes a Boolean value.
    fn boolean(&mut self, value: bool);
    /// Writes an integer of arbitrary size that is given in decimal digits.
    fn big_number(&mut self, digits: &str);
    /// Writes text that is shown without quotes. `format` has three letters, such as `txt`.
    fn verbatim(&mut self, format: &str, text: &[u8]);

    /// Switches the protocol for all following replies. HELLO and RESET call this method before
    /// they write their own reply. Only writers for the wire need to implement it.
    fn protocol(&mut self, version: Protocol) {
        let _ = version;
    }

    /// Writes the status `OK`.
    fn ok(&mut self) {
        self.simple("OK");
    }

    /// Writes a bulk string, or a null if `bytes` is `None`.
    fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }
}

impl<R: Reply + ?Sized> Reply for &mut R {
    fn simple(&mut self, text: &str) {
        (**self).simple(text);
    }
    fn simple_bytes(&mut self, text: &[u8]) {
        (**self).simple_bytes(text);
    }
    fn error(&mut self, text: &str) {
        (**self).error(text);
    }
    fn error_bytes(&mut self, text: &[u8]) {
        (**self).error_bytes(text);
    }
    fn integer(&mut self, value: i64) {
        (**self).integer(value);
    }
    fn bulk(&mut self, bytes: &[u8]) {
        (**self).bulk(bytes);
    }
    fn text(&mut self) -> Option<&mut dyn TextBuffer> {
        (**self).text()
    }
    fn null(&mut self) {
        (**self).null();
    }
    fn null_array(&mut self) {
        (**self).null_array();
    }
    fn array(&mut self, length: usize) {
        (**self).array(length);
    }
    fn bulks(&mut self, items: &Ranges) {
        (**self).bulks(items);
    }
    fn map(&mut self, pairs: usize) {
        (**self).map(pairs);
    }
    fn set(&mut self, length: usize) {
        (**self).set(length);
    }
    fn push(&mut self, length: usize) {
        (**self).push(length);
    }
    fn double(&mut self, value: f64) {
        (**self).double(value);
    }
    fn decimal(&mut self, digits: &str) {
        (**self).decimal(digits);
    }
    fn boolean(&mut self, value: bool) {
        (**self).boolean(value);
    }
    fn big_number(&mut self, digits: &str) {
        (**self).big_number(digits);
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        (**self).verbatim(format, text);
    }
    fn protocol(&mut self, version: Protocol) {
        (**self).protocol(version);
    }
}

/// A complete, owned reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// A status reply. That of a script can be invalid UTF-8.
    Simple(Vec<u8>),
    /// An error that starts with its error code.
    Error(String),
    /// An integer reply.
    Integer(i64),
    /// A bulk string of arbitrary bytes.
    Bulk(Vec<u8>),
    /// A null reply.
    Null,
    /// A null array.
    NullArray,
    /// An array of replies.
    Array(Vec<Tree>),
    /// A map, with its key-value pairs in the order in which they were written.
    Map(Vec<(Tree, Tree)>),
    /// A set, with its elements in the order in which they were written.
    Set(Vec<Tree>),
    /// Out-of-band data.
    Push(Vec<Tree>),
    /// A floating-point number.
    Double(f64),
    /// A floating-point number, given in decimal digits.
    Decimal(String),
    /// A Boolean value.
    Boolean(bool),
    /// An integer of arbitrary size, given in decimal digits.
    BigNumber(String),
    /// Text that is shown without quotes.
    Verbatim {
        /// The format of the text, in three letters: `txt` or `mkd`.
        format: String,
        /// The text, without its format.
        text: Vec<u8>,
    },
}

impl Tree {
    /// Writes this recorded reply to another writer.
    pub fn write(&self, reply: &mut dyn Reply) {
        match self {
            Tree::Simple(text) => match std::str::from_utf8(text) {
                Ok(text) => reply.simple(text),
                Err(_) => reply.simple_bytes(text),
            },
            Tree::Error(text) => reply.error(text),
            Tree::Integer(value) => reply.integer(*value),
            Tree::Bulk(bytes) => reply.bulk(bytes),
            Tree::Null => reply.null(),
            Tree::NullArray => reply.null_array(),
            Tree::Array(items) => {
                reply.array(items.len());
                items.iter().for_each(|item| item.write(reply));
            }
            Tree::Map(pairs) => {
                reply.map(pairs.len());
                for (key, value) in pairs {
                    key.write(reply);
                    value.write(reply);
                }
            }
            Tree::Set(items) => {
                reply.set(items.len());
                items.iter().for_each(|item| item.write(reply));
            }
            Tree::Push(items) => {
                reply.push(items.len());
                items.iter().for_each(|item| item.write(reply));
            }
            Tree::Double(value) => reply.double(*value),
            Tree::Decimal(digits) => reply.decimal(digits),
            Tree::Boolean(value) => reply.boolean(*value),
            Tree::BigNumber(digits) => reply.big_number(digits),
            Tree::Verbatim { format, text } => reply.verbatim(format, text),
        }
    }

    /// Converts the reply to the form that a RESP2 client receives.
    pub fn into_resp2(self) -> Tree {
        let all = |items: Vec<Tree>| Tree::Array(items.into_iter().map(Tree::into_resp2).collect());
        match self {
            Tree::Array(items) | Tree::Set(items) | Tree::Push(items) => all(items),
            Tree::Map(pairs) => all(pairs
                .into_iter()
                .flat_map(|(key, value)| [key, value])
                .collect()),
            Tree::Double(value) => Tree::Bulk(undercroft_numbers::double_text(value).to_vec()),
            Tree::Boolean(value) => Tree::Integer(value.into()),
            Tree::Decimal(digits) | Tree::BigNumber(digits) => Tree::Bulk(digits.into_bytes()),
            Tree::Verbatim { text, .. } => Tree::Bulk(text),
            scalar => scalar,
        }
    }
}

/// A [`Reply`] that records everything written to it as [`Tree`]s.
#[derive(Debug, Default)]
pub struct Recorder {
    finished: Vec<Tree>,
    open: Vec<Frame>,
}

/// An aggregate that is incomplete until `missing` more replies are written.
#[derive(Debug)]
struct Frame {
    kind: Kind,
    missing: usize,
    items: Vec<Tree>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
}

impl Recorder {
    /// Returns an empty recorder.
    pub fn new() -> Recorder {
        Recorder::default()
    }

    /// Returns all replies written so far, oldest first.
    ///
    /// # Errors
    /// Returns the number of missing replies if a handler wrote fewer replies to an aggregate than
    /// it announced.
    pub fn finish(self) -> Result<Vec<Tree>, usize> {
        match self.open.last() {
            None => Ok(self.finished),
            Some(frame) => Err(frame.missing),
        }
    }

    fn add(&mut self, mut tree: Tree) {
        loop {
            let Some(frame) = self.open.last_mut() else {
                self.finished.push(tree);
                return;
            };
            frame.items.push(tree);
            frame.missing -= 1;
            if frame.missing > 0 {
                return;
            }
            let Some(Frame { kind, items, .. }) = self.open.pop() else {
                return;
            };
            tree = kind.close(items);
        }
    }

    fn begin(&mut self, kind: Kind, missing: usize) {
        if missing == 0 {
            self.add(kind.close(Vec::new()));
        } else {
            self.open.push(Frame {
                kind,
                missing,
                items: Vec::new(),
            });
        }
    }
}

impl Kind {
    fn close(self, items: Vec<Tree>) -> Tree {
        match self {
            Kind::Array => Tree::Array(items),
            Kind::Set => Tree::Set(items),
            Kind::Push => Tree::Push(items),
            Kind::Map => {
                let mut pairs = Vec::with_capacity(items.len() / 2);
                let mut items = items.into_iter();
                while let (Some(key), Some(value)) = (items.next(), items.next()) {
                    pairs.push((key, value));
                }
                Tree::Map(pairs)
            }
        }
    }
}

impl Reply for Recorder {
    fn simple(&mut self, text: &str) {
        self.add(Tree::Simple(text.into()));
    }
    fn simple_bytes(&mut self, text: &[u8]) {
        self.add(Tree::Simple(text.to_vec()));
    }
    fn error(&mut self, text: &str) {
        self.add(Tree::Error(text.to_owned()));
    }
    fn integer(&mut self, value: i64) {
        self.add(Tree::Integer(value));
    }
    fn bulk(&mut self, bytes: &[u8]) {
        self.add(Tree::Bulk(bytes.to_vec()));
    }
    fn null(&mut self) {
        self.add(Tree::Null);
    }
    fn null_array(&mut self) {
        self.add(Tree::NullArray);
    }
    fn array(&mut self, length: usize) {
        self.begin(Kind::Array, length);
    }
    fn map(&mut self, pairs: usize) {
        self.begin(Kind::Map, pairs * 2);
    }
    fn set(&mut self, length: usize) {
        self.begin(Kind::Set, length);
    }
    fn push(&mut self, length: usize) {
        self.begin(Kind::Push, length);
    }
    fn double(&mut self, value: f64) {
        self.add(Tree::Double(value));
    }
    fn decimal(&mut self, digits: &str) {
        self.add(Tree::Decimal(digits.to_owned()));
    }
    fn boolean(&mut self, value: bool) {
        self.add(Tree::Boolean(value));
    }
    fn big_number(&mut self, digits: &str) {
        self.add(Tree::BigNumber(digits.to_owned()));
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        self.add(Tree::Verbatim {
            format: format.to_owned(),
            text: text.to_vec(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_aggregates_close_when_complete() {
        let mut recorder = Recorder::new();
        recorder.array(3);
        recorder.map(1);
        recorder.bulk(b"k");
        recorder.set(0);
        recorder.array(0);
        recorder.null();
        recorder.integer(7);
        let map = Tree::Map(vec![(Tree::Bulk(b"k".to_vec()), Tree::Set(vec![]))]);
        let array = Tree::Array(vec![map, Tree::Array(vec![]), Tree::Null]);
        assert_eq!(recorder.finish(), Ok(vec![array, Tree::Integer(7)]));
    }

    #[test]
    fn incomplete_aggregate_is_reported() {
        let mut recorder = Recorder::new();
        recorder.array(2);
        recorder.ok();
        assert_eq!(recorder.finish(), Err(1));
    }

    #[test]
    fn tree_survives_being_written_and_recorded() {
        let tree = Tree::Push(vec![
            Tree::Map(vec![(Tree::Boolean(true), Tree::Double(1.5))]),
            Tree::Verbatim {
                format: "txt".into(),
                text: b"x".to_vec(),
            },
            Tree::BigNumber("12".into()),
            Tree::NullArray,
        ]);
        let mut recorder = Recorder::new();
        tree.write(&mut recorder);
        assert_eq!(recorder.finish(), Ok(vec![tree.clone()]));
        let flat = Tree::Array(vec![Tree::Integer(1), Tree::Bulk(b"1.5".to_vec())]);
        let expected = [
            flat,
            Tree::Bulk(b"x".to_vec()),
            Tree::Bulk(b"12".to_vec()),
            Tree::NullArray,
        ];
        assert_eq!(tree.into_resp2(), Tree::Array(expected.to_vec()));
    }
}
