//! Complete replies as owned values, for tools and tests.

use crate::event::{Aggregate, Event, NullForm, ReplyError, ReplyLimits};
use crate::{ReplyParser, Version, encode};

/// A reply of any type, including all nested values.
///
/// Streamed strings and aggregates are represented like any others: a streamed string is a
/// [`Value::Bulk`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A simple string.
    Simple(Vec<u8>),
    /// An error line, which starts with an error code.
    Error(Vec<u8>),
    /// An integer.
    Integer(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// A null.
    Null(NullForm),
    /// A double.
    Double(f64),
    /// A Boolean.
    Boolean(bool),
    /// An integer of any size, as decimal digits.
    BigNumber(Vec<u8>),
    /// A length-prefixed error.
    BulkError(Vec<u8>),
    /// A text with its three-letter format.
    Verbatim([u8; 3], Vec<u8>),
    /// Elements in wire order.
    Array(Vec<Value>),
    /// Keys and values in wire order. Keys may repeat.
    Map(Vec<(Value, Value)>),
    /// Elements in wire order, which may repeat.
    Set(Vec<Value>),
    /// An out-of-band message, which is not the reply to a command.
    Push(Vec<Value>),
    /// A value preceded by attributes.
    Attributed(Vec<(Value, Value)>, Box<Value>),
}

impl Value {
    /// Appends the value as a server sends it. In RESP2, attributes are omitted, and types that
    /// RESP2 lacks become arrays, bulk strings and integers. In RESP3, all nulls are `_`. The
    /// recursion is as deep as the nesting of the value.
    pub fn encode(&self, out: &mut Vec<u8>, version: Version) {
        match self {
            Self::Simple(text) => encode::simple(out, text),
            Self::Error(text) => encode::error(out, text),
            Self::Integer(value) => encode::integer(out, *value),
            Self::Bulk(bytes) => encode::bulk(out, bytes),
            Self::Null(NullForm::Array) => encode::null_array(out, version),
            Self::Null(_) => encode::null(out, version),
            Self::Double(value) => encode::double(out, version, *value),
            Self::Boolean(value) => encode::boolean(out, version, *value),
            Self::BigNumber(digits) => encode::big_number(out, version, digits),
            Self::BulkError(text) => encode::bulk_error(out, version, text),
            Self::Verbatim(format, text) => encode::verbatim(out, version, *format, text),
            Self::Array(items) => {
                encode::array(out, items.len());
                encode_all(items, out, version);
            }
            Self::Set(items) => {
                encode::set(out, version, items.len());
                encode_all(items, out, version);
            }
            Self::Push(items) => {
                encode::push(out, version, items.len());
                encode_all(items, out, version);
            }
            Self::Map(pairs) => {
                encode::map(out, version, pairs.len());
                encode_pairs(pairs, out, version);
            }
            Self::Attributed(attributes, value) => {
                if version == Version::Resp3 {
                    encode::attribute(out, attributes.len());
                    encode_pairs(attributes, out, version);
                }
                value.encode(out, version);
            }
        }
    }
}

fn encode_all(items: &[Value], out: &mut Vec<u8>, version: Version) {
    for item in items {
        item.encode(out, version);
    }
}

fn encode_pairs(pairs: &[(Value, Value)], out: &mut Vec<u8>, version: Version) {
    for (key, value) in pairs {
        key.encode(out, version);
        value.encode(out, version);
    }
}

/// The maximum number of elements for which memory is reserved when an aggregate starts. Memory for
/// further elements is allocated as they arrive.
const RESERVED: u64 = 64;

/// Reads complete replies. Consists of a [`ReplyParser`], and the values built so far from its
/// events.
///
/// Its memory usage is proportional to the number of bytes received: about 20 bytes of memory per
/// byte if a reply consists of tiny elements. A caller that does not trust its server must limit
/// the number of bytes that it accepts for one reply.
#[derive(Debug, Default)]
pub struct ReplyReader {
    parser: ReplyParser,
    open: Vec<Building>,
    /// Top-level attributes whose value has not arrived yet.
    attributes: Option<Vec<(Value, Value)>>,
}

/// An aggregate whose elements are arriving.
#[derive(Debug, Default)]
struct Building {
    /// The elements so far. In a map, keys and values alternate.
    items: Vec<Value>,
    /// The bytes of a streamed string that have arrived so far.
    text: Vec<u8>,
    /// Attributes whose element has not arrived yet.
    attributes: Option<Vec<(Value, Value)>>,
}

impl ReplyReader {
    /// Creates a reader for the start of a connection.
    pub fn new(limits: ReplyLimits) -> Self {
        Self {
            parser: ReplyParser::new(limits),
            ..Self::default()
        }
    }

    /// Returns the next reply or push, or `None` if the input ends too early. Advances the slice
    /// past the bytes consumed, which are no longer needed even in the middle of a reply.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<Value>, ReplyError> {
        while let Some(event) = self.parser.next(input)? {
            let value = match event {
                Event::Begin { len, .. } => {
                    let reserved = len.unwrap_or(0).min(RESERVED) as usize;
                    self.open.push(Building {
                        items: Vec::with_capacity(reserved),
                        ..Building::default()
                    });
                    continue;
                }
                Event::Chunk(bytes) => {
                    if let Some(building) = self.open.last_mut() {
                        building.text.extend_from_slice(bytes);
                    }
                    continue;
                }
                Event::End(kind) => {
                    let done = self.open.pop().unwrap_or_default();
                    match kind {
                        Aggregate::Attribute => {
                            *self.waiting_attributes() = Some(pairs(done.items));
                            continue;
                        }
                        Aggregate::StreamedString => Value::Bulk(done.text),
                        Aggregate::Array => Value::Array(done.items),
                        Aggregate::Set => Value::Set(done.items),
                        Aggregate::Push => Value::Push(done.items),
                        Aggregate::Map => Value::Map(pairs(done.items)),
                    }
                }
                Event::Simple(text) => Value::Simple(text.to_vec()),
                Event::Error(text) => Value::Error(text.to_vec()),
                Event::Integer(value) => Value::Integer(value),
                Event::Bulk(bytes) => Value::Bulk(bytes.to_vec()),
                Event::Null(form) => Value::Null(form),
                Event::Double(value) => Value::Double(value),
                Event::Boolean(value) => Value::Boolean(value),
                Event::BigNumber(digits) => Value::BigNumber(digits.to_vec()),
                Event::BulkError(text) => Value::BulkError(text.to_vec()),
                Event::Verbatim { format, text } => Value::Verbatim(format, text.to_vec()),
            };
            let value = match self.waiting_attributes().take() {
                Some(attributes) => Value::Attributed(attributes, Box::new(value)),
                None => value,
            };
            match self.open.last_mut() {
                Some(building) => building.items.push(value),
                None => return Ok(Some(value)),
            }
        }
        Ok(None)
    }

    /// Returns whether a reply has started, or part of its first line has been examined. Otherwise,
    /// a caller that recognizes a reply's format may consume the reply from the input without using
    /// the reader.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.attributes.is_some() || self.parser.has_begun()
    }

    /// Returns the minimum number of further bytes needed after [`read`](Self::read) returned
    /// `None`.
    pub fn wanted(&self) -> usize {
        self.parser.wanted()
    }

    fn waiting_attributes(&mut self) -> &mut Option<Vec<(Value, Value)>> {
        match self.open.last_mut() {
            Some(building) => &mut building.attributes,
            None => &mut self.attributes,
        }
    }
}

/// Splits alternating keys and values into pairs. The parser guarantees that their number is even.
fn pairs(items: Vec<Value>) -> Vec<(Value, Value)> {
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}
