//! The incremental reply parser, which turns bytes into events.

use undercroft_numbers::parse_integer;

use crate::event::{Aggregate, Event, NullForm, ReplyError, ReplyLimits};
use crate::number::{is_signed_digits, parse_double, parse_reply_integer};

/// Splits a server's bytes (RESP2 or RESP3) into [`Event`]s, for a client.
///
/// [`next`](Self::next) receives a slice of all unconsumed bytes, and advances it past the bytes
/// that it consumes. If it returns `None`, call it again with the remaining bytes and more. The
/// parser uses one word of memory per open aggregate, and its work is linear in the number of bytes
/// received.
///
/// ```
/// use undercroft_resp::{Event, ReplyParser};
/// let mut parser = ReplyParser::default();
/// let mut input = &b":1\r\n+O"[..];
/// assert_eq!(parser.next(&mut input), Ok(Some(Event::Integer(1))));
/// assert!(parser.between_replies());
/// assert_eq!(parser.next(&mut input), Ok(None));
/// assert_eq!(input, b"+O");
/// ```
///
/// Unlike the request parser, it checks every line end: a client that loses synchronization could
/// return one caller's data to another. After an error, every call returns that error again.
#[derive(Debug, Default)]
pub struct ReplyParser {
    limits: ReplyLimits,
    open: Vec<Frame>,
    /// The kind and length of the string whose bytes come next.
    string: Option<(StringKind, usize)>,
    /// The number of bytes of the current line that have been searched for a line end.
    searched: usize,
    /// Whether an attribute has ended but the element that it describes has not started yet.
    attribute_waits: bool,
    wanted: usize,
    failed: Option<ReplyError>,
}

/// An open aggregate.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: Aggregate,
    /// The number of elements that have not arrived yet, counting keys and values separately. If
    /// the aggregate is streamed, the number of elements that have arrived, or of bytes in a
    /// streamed string.
    count: u64,
    streamed: bool,
}

/// The kind of a length-prefixed string.
#[derive(Clone, Copy, Debug)]
enum StringKind {
    Bulk,
    Error,
    Verbatim,
    Chunk,
}

impl ReplyParser {
    /// Creates a parser for the start of a connection.
    pub fn new(limits: ReplyLimits) -> Self {
        Self {
            limits: ReplyLimits {
                max_depth: limits.max_depth.min(ReplyLimits::DEEPEST),
                // The parser adds lengths to offsets. Limiting each to half the address space
                // prevents an overflow.
                max_bulk: limits.max_bulk.min(isize::MAX as usize / 2),
                max_line: limits.max_line.min(isize::MAX as usize / 2),
                max_elements: limits.max_elements.min(u64::MAX / 2),
            },
            ..Self::default()
        }
    }

    /// Returns whether the parser is between replies: either the last event ended a reply or push,
    /// or no reply has started.
    #[inline]
    pub fn between_replies(&self) -> bool {
        self.open.is_empty() && !self.attribute_waits && self.string.is_none()
    }

    /// Returns whether a reply has started, or part of its first line has been searched. Otherwise,
    /// the parser has not examined any of the input.
    #[inline]
    pub fn has_begun(&self) -> bool {
        !self.between_replies() || self.searched > 0
    }

    /// Returns the number of open aggregates.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Returns the minimum number of further bytes needed after [`next`](Self::next) returned
    /// `None`. The server announced this length, up to `max_bulk`, so grow a buffer as bytes arrive
    /// instead of allocating all of it in advance.
    pub fn wanted(&self) -> usize {
        self.wanted.max(1)
    }

    /// Passes the next short bulk strings of an aggregate to `each`, as long as they are complete
    /// and not the aggregate's last element. Long replies consist mostly of short strings, and this
    /// call avoids an event for each. A string for which `each` fails counts as consumed. All other
    /// elements are left to [`next`](Self::next), which can also return short strings as events.
    ///
    /// ```
    /// use undercroft_resp::ReplyParser;
    /// let (mut parser, mut found) = (ReplyParser::default(), Vec::new());
    /// let mut input = &b"*3\r\n$1\r\na\r\n$2\r\nbb\r\n$1\r\nc\r\n"[..];
    /// parser.next(&mut input)?;
    /// let _ = parser.strings(&mut input, |bytes| Ok::<_, ()>(found.push(bytes)));
    /// assert_eq!(found, [&b"a"[..], b"bb"]);
    /// assert_eq!(input, b"$1\r\nc\r\n");
    /// # Ok::<_, undercroft_resp::ReplyError>(())
    /// ```
    #[inline]
    pub fn strings<'a, E>(
        &mut self,
        input: &mut &'a [u8],
        mut each: impl FnMut(&'a [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // In the middle of an element, or after an attribute, the input does not start with an
        // ordinary element.
        let is_between = self.string.is_none() && self.searched == 0 && !self.attribute_waits;
        if !is_between || self.failed.is_some() {
            return Ok(());
        }
        let longest = self.limits.max_bulk;
        let Some(frame) = self.open.last_mut().filter(|frame| !frame.streamed) else {
            return Ok(());
        };
        while frame.count > 1 {
            let Some((begin, end)) = short_string(input).filter(|(a, z)| z - a <= longest) else {
                break;
            };
            let bytes = &input[begin..end];
            *input = &input[end + 2..];
            frame.count -= 1;
            each(bytes)?;
        }
        Ok(())
    }

    /// Returns the length of a bulk string that has started but is incomplete. All of its bytes
    /// received so far are still in the input.
    ///
    /// A caller may consume a long string piece by piece, including its line end. The caller must
    /// then call [`string_taken`](Self::string_taken) instead of [`next`](Self::next).
    pub fn begun_string(&self) -> Option<usize> {
        match self.string {
            Some((StringKind::Bulk, len)) => Some(len),
            _ => None,
        }
    }

    /// Continues after the string reported by [`begun_string`](Self::begun_string), which the
    /// caller has removed from the input.
    pub fn string_taken(&mut self) {
        if self.begun_string().is_some() {
            self.string = None;
            self.element_done();
        }
    }

    /// Returns the next event, or `None` if the input ends too early.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, ReplyError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.wanted = 1;
        let event = self.next_checked(input);
        if let Err(error) = event {
            self.failed = Some(error);
        }
        event
    }

    #[inline]
    fn next_checked<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, ReplyError> {
        if let Some((kind, len)) = self.string {
            return self.string_body(input, kind, len);
        }
        if let Some(kind) = self.ended() {
            return Ok(Some(self.end(kind)));
        }
        let Some(&byte) = input.first() else {
            return Ok(None);
        };
        self.check_place(byte)?;
        let Some(text) = self.line(input)? else {
            return Ok(None);
        };
        let event = match byte {
            b'+' => Event::Simple(text),
            b'-' => Event::Error(text),
            b':' => Event::Integer(parse_reply_integer(text).ok_or(ReplyError::Malformed(byte))?),
            b'_' if text.is_empty() => Event::Null(NullForm::Resp3),
            b'#' if text == b"t" => Event::Boolean(true),
            b'#' if text == b"f" => Event::Boolean(false),
            b',' => Event::Double(parse_double(text).ok_or(ReplyError::Malformed(byte))?),
            b'(' if is_signed_digits(text) => Event::BigNumber(text),
            b'$' if text == b"-1" => Event::Null(NullForm::Bulk),
            b'*' if text == b"-1" => Event::Null(NullForm::Array),
            b'$' if text == b"?" => return self.begin(Aggregate::StreamedString, None).map(Some),
            b';' if text == b"0" => return Ok(Some(self.end(Aggregate::StreamedString))),
            b'.' if text.is_empty() => {
                let kind = self
                    .open
                    .last()
                    .map_or(Aggregate::Array, |frame| frame.kind);
                return Ok(Some(self.end(kind)));
            }
            b'$' => return self.string(input, byte, StringKind::Bulk, text),
            b'!' => return self.string(input, byte, StringKind::Error, text),
            b'=' => return self.string(input, byte, StringKind::Verbatim, text),
            b';' => return self.string(input, byte, StringKind::Chunk, text),
            b'*' => return self.aggregate(byte, Aggregate::Array, text),
            b'%' => return self.aggregate(byte, Aggregate::Map, text),
            b'~' => return self.aggregate(byte, Aggregate::Set, text),
            b'>' => return self.aggregate(byte, Aggregate::Push, text),
            b'|' => return self.aggregate(byte, Aggregate::Attribute, text),
            _ => return Err(ReplyError::Malformed(byte)),
        };
        self.element_done();
        Ok(Some(event))
    }

    /// Checks that an element with this type byte may occur now.
    #[inline]
    fn check_place(&self, byte: u8) -> Result<(), ReplyError> {
        let top = self.open.last();
        let in_string = top.is_some_and(|frame| frame.kind == Aggregate::StreamedString);
        let fits = match byte {
            b';' => in_string,
            _ if in_string => false,
            b'.' => top.is_some_and(|frame| {
                let whole = !is_paired(frame.kind) || frame.count % 2 == 0;
                frame.streamed && whole && !self.attribute_waits
            }),
            b'>' => top.is_none(),
            b'|' => !self.attribute_waits,
            b'+' | b'-' | b':' | b'$' | b'*' | b'_' | b'#' | b',' | b'(' | b'!' | b'=' | b'%'
            | b'~' => true,
            _ => return Err(ReplyError::UnknownType(byte)),
        };
        if fits {
            Ok(())
        } else {
            Err(ReplyError::Misplaced(byte))
        }
    }

    /// Returns the text between the type byte and `\r\n` if the line is complete, and advances past
    /// the line.
    #[inline]
    fn line<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, ReplyError> {
        let whole: &'a [u8] = input;
        let limit = self.limits.max_line;
        let window = &whole[..whole.len().min(limit.saturating_add(2))];
        let fresh = window.get(self.searched..).unwrap_or_default();
        #[cfg(test)]
        tests::SEARCHED.with(|total| total.set(total.get() + fresh.len()));
        // Most lines consist of a few digits, for which a plain loop is faster than setting up a
        // vectorized search.
        let found = match fresh.iter().take(8).position(|&byte| byte == b'\r') {
            None if fresh.len() > 8 => memchr::memchr(b'\r', &fresh[8..]).map(|at| at + 8),
            near => near,
        };
        let Some(found) = found else {
            if window.len() > limit + 1 {
                return Err(ReplyError::LineTooLong(limit));
            }
            self.searched = window.len();
            return Ok(None);
        };
        let end = self.searched + found;
        match whole.get(end + 1) {
            Some(b'\n') => {}
            Some(other) => return Err(ReplyError::LineEnd([b'\r', *other])),
            None => {
                self.searched = end;
                return Ok(None);
            }
        }
        self.searched = 0;
        *input = &whole[end + 2..];
        Ok(Some(&whole[1..end]))
    }

    /// Starts a length-prefixed string, and returns the string if it is complete.
    #[inline]
    fn string<'a>(
        &mut self,
        input: &mut &'a [u8],
        byte: u8,
        kind: StringKind,
        text: &[u8],
    ) -> Result<Option<Event<'a>>, ReplyError> {
        let len = length(byte, text)?;
        let mut total = len;
        if let (StringKind::Chunk, Some(frame)) = (kind, self.open.last_mut()) {
            // The chunks of a streamed string together must not exceed the limit of one string.
            total = frame.count.saturating_add(len);
            frame.count = total;
        }
        if total > self.limits.max_bulk as u64 {
            return Err(ReplyError::BulkTooLong {
                len: total,
                limit: self.limits.max_bulk,
            });
        }
        let len = len as usize;
        self.string = Some((kind, len));
        self.string_body(input, kind, len)
    }

    #[inline]
    fn string_body<'a>(
        &mut self,
        input: &mut &'a [u8],
        kind: StringKind,
        len: usize,
    ) -> Result<Option<Event<'a>>, ReplyError> {
        let whole: &'a [u8] = input;
        let Some((bytes, rest)) = whole.split_at_checked(len + 2) else {
            self.wanted = len + 2 - whole.len();
            return Ok(None);
        };
        let (bytes, end) = bytes.split_at(len);
        if end != b"\r\n" {
            return Err(ReplyError::LineEnd([end[0], end[1]]));
        }
        let event = match kind {
            StringKind::Bulk => Event::Bulk(bytes),
            StringKind::Error => Event::BulkError(bytes),
            StringKind::Chunk => Event::Chunk(bytes),
            StringKind::Verbatim => match bytes {
                [a, b, c, b':', text @ ..] => Event::Verbatim {
                    format: [*a, *b, *c],
                    text,
                },
                _ => return Err(ReplyError::Malformed(b'=')),
            },
        };
        *input = rest;
        self.string = None;
        if !matches!(kind, StringKind::Chunk) {
            self.element_done();
        }
        Ok(Some(event))
    }

    fn aggregate<'a>(
        &mut self,
        byte: u8,
        kind: Aggregate,
        text: &[u8],
    ) -> Result<Option<Event<'a>>, ReplyError> {
        // Other aggregates cannot be streamed: Redis streams neither pushes nor attributes, and the
        // specification does not mention streamed pushes or attributes.
        let streams = matches!(kind, Aggregate::Array | Aggregate::Map | Aggregate::Set);
        if text == b"?" && streams {
            return self.begin(kind, None).map(Some);
        }
        let len = length(byte, text)?;
        if len > self.limits.max_elements {
            return Err(ReplyError::TooManyElements {
                len,
                limit: self.limits.max_elements,
            });
        }
        self.begin(kind, Some(len)).map(Some)
    }

    fn begin<'a>(&mut self, kind: Aggregate, len: Option<u64>) -> Result<Event<'a>, ReplyError> {
        if self.open.len() >= self.limits.max_depth {
            return Err(ReplyError::TooDeep(self.limits.max_depth));
        }
        let elements = len.unwrap_or(0) * if is_paired(kind) { 2 } else { 1 };
        self.attribute_waits = false;
        self.open.push(Frame {
            kind,
            count: elements,
            streamed: len.is_none(),
        });
        Ok(Event::Begin { kind, len })
    }

    /// Returns the innermost open aggregate, if its last element has arrived.
    #[inline]
    fn ended(&self) -> Option<Aggregate> {
        match self.open.last() {
            Some(frame) if frame.count == 0 && !frame.streamed => Some(frame.kind),
            _ => None,
        }
    }

    fn end<'a>(&mut self, kind: Aggregate) -> Event<'a> {
        self.open.pop();
        if kind == Aggregate::Attribute {
            self.attribute_waits = true;
        } else {
            self.element_done();
        }
        Event::End(kind)
    }

    #[inline]
    fn element_done(&mut self) {
        self.attribute_waits = false;
        if let Some(frame) = self.open.last_mut() {
            if frame.streamed {
                frame.count += 1;
            } else {
                frame.count -= 1;
            }
        }
    }
}

/// Returns the position of a bulk string whose length has up to four digits, if the input starts
/// with such a string and the string is complete.
#[inline(always)]
fn short_string(bytes: &[u8]) -> Option<(usize, usize)> {
    let [b'$', line @ ..] = bytes else {
        return None;
    };
    let mut length = 0;
    for (digits, byte) in line.iter().take(5).enumerate() {
        match byte {
            // Lengths must not have leading zeros.
            b'0'..=b'9' if digits == 0 || length > 0 => {
                length = length * 10 + usize::from(byte - b'0');
            }
            b'\r' if digits > 0 && line.get(digits + 1) == Some(&b'\n') => {
                let begin = digits + 3;
                let end = begin + length;
                return (bytes.get(end..end + 2) == Some(b"\r\n")).then_some((begin, end));
            }
            _ => return None,
        }
    }
    None
}

fn is_paired(kind: Aggregate) -> bool {
    matches!(kind, Aggregate::Map | Aggregate::Attribute)
}

/// Parses a length: digits without a sign or leading zeros.
#[inline]
fn length(byte: u8, text: &[u8]) -> Result<u64, ReplyError> {
    parse_integer(text)
        .and_then(|len| u64::try_from(len).ok())
        .ok_or(ReplyError::Malformed(byte))
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
