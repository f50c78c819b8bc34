//! The incremental request parser.

use super::{ProtocolError, Span, split_args};
use std::fmt;
use std::ops::Index;

use undercroft_numbers::parse_integer;

/// Longest line: an inline command, or the digits of a count. Redis' PROTO_INLINE_MAX_SIZE.
const MAX_LINE: usize = 64 * 1024;

/// Most arguments of a client that has yet to log in.
const UNAUTHENTICATED_ARGS: i64 = 10;

/// Longest argument, in bytes, of a client that has yet to log in.
const UNAUTHENTICATED_BULK: i64 = 16 * 1024;

/// A list of spans that has grown beyond this many entries (1 MiB) is given back with the next command.
const KEPT_SPANS: usize = 64 * 1024;

/// What a client may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest argument in bytes: Redis' `proto-max-bulk-len`, 512 MiB by default.
    pub max_bulk: usize,
    /// Most arguments of one command; Redis 7.0 takes 2,147,483,647.
    pub max_args: usize,
    /// Whether the client may use these limits, because it has logged in or need not. Until then a command has at most
    /// 10 arguments of 16 KiB.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bulk: 512 * 1024 * 1024,
            max_args: i32::MAX as usize,
            authenticated: true,
        }
    }
}

/// What [`RequestParser::parse`] found at the start of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A command of this many bytes; [`RequestParser::args`] gives its arguments, at least one.
    Command(usize),
    /// This many bytes that ask for nothing (an empty line, `*0`, `*-1`): skip them.
    Ignored(usize),
    /// The command goes on beyond the input.
    Incomplete {
        /// At least this many more bytes are needed, so a receive buffer may be sized by it. It is what the client
        /// announced, up to `max_bulk`: let a buffer grow with what arrives rather than all at once.
        wanted: usize,
    },
}

/// Finds commands in the bytes a client sends.
///
/// The caller keeps the received bytes in a buffer and calls [`parse`](Self::parse) with all bytes from the first
/// unconsumed one on. After `Command(n)` or `Ignored(n)` the next call's input starts `n` bytes further; after
/// `Incomplete` it starts at the same byte, with more bytes behind. No byte is looked at twice over all of these calls,
/// and an argument's bytes are not looked at at all: offsets are relative to the command's start, so the buffer may be
/// moved or compacted between calls.
///
/// ```
/// use undercroft_resp::{Parsed, RequestParser};
/// let mut parser = RequestParser::default();
/// let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n";
/// assert_eq!(parser.parse(&input[..15]), Ok(Parsed::Incomplete { wanted: 1 }));
/// assert_eq!(parser.parse(input), Ok(Parsed::Command(20)));
/// assert_eq!(&parser.args(input)[1], b"k");
/// assert_eq!(parser.parse(&input[20..]), Ok(Parsed::Command(6)));
/// ```
///
/// A line ends where Redis sees its end: at `\r` and one byte more in the multibulk form, at `\n` in the inline form.
/// The two bytes after an argument are skipped unread, also as in Redis. Lengths and limits are checked as soon as
/// their line is complete. After an error every call returns that error again: the stream has no next command.
#[derive(Debug, Default)]
pub struct RequestParser {
    limits: Limits,
    /// The arguments found so far; of an inline command they point into `inline_text`.
    spans: Vec<Span>,
    inline_text: Vec<u8>,
    form: Form,
    /// Offset of the next byte to parse, from the command's start.
    position: usize,
    /// How many bytes of the current line were searched for its end already.
    searched: usize,
    /// Arguments still to come.
    missing: usize,
    /// Length of the argument whose bytes come next, once known.
    bulk: Option<usize>,
    failed: Option<ProtocolError>,
}

/// How far the current command is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    /// Nothing of it was read.
    #[default]
    Unknown,
    /// `*` or a line, whose end is not there yet.
    FirstLine,
    /// The count of arguments is known.
    Multibulk,
    /// An inline command was returned: its arguments are in `inline_text`.
    Inline,
}

impl RequestParser {
    /// A parser at the start of a connection.
    pub fn new(limits: Limits) -> Self {
        let mut parser = Self::default();
        parser.set_limits(limits);
        parser
    }

    /// Changes the limits, from the next line on: after a login, or when the configuration changed.
    pub fn set_limits(&mut self, limits: Limits) {
        // Offsets are sums of a position and a length; half the address space for each cannot overflow.
        let max_bulk = limits.max_bulk.min(isize::MAX as usize / 2);
        self.limits = Limits { max_bulk, ..limits };
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Reads on to the end of the current command, or of the input. Input that ended nowhere asks for one byte.
    pub fn parse(&mut self, input: &[u8]) -> Result<Parsed, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let parsed = self.parse_checked(input);
        match parsed {
            Ok(Parsed::Incomplete { .. }) => {}
            Ok(_) => {
                self.position = 0;
                if self.form != Form::Inline {
                    self.form = Form::Unknown;
                }
            }
            Err(error) => self.failed = Some(error),
        }
        parsed
    }

    /// The arguments of the command that the last call of [`parse`](Self::parse) returned, given the same input.
    ///
    /// # Panics
    /// An argument's access panics when `input` is shorter than the command.
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        let bytes = match self.form {
            Form::Inline => &self.inline_text,
            _ => input,
        };
        Args {
            bytes,
            spans: &self.spans,
        }
    }

    /// Where a command goes on beyond the input and only its last argument is missing: the arguments before that one, and
    /// where it lies. To be asked after [`Parsed::Incomplete`].
    pub fn unfinished(&self) -> Option<(&[Span], Span)> {
        let len = self.bulk.filter(|_| self.missing == 1)?;
        let start = self.position;
        Some((&self.spans, Span { start, len }))
    }

    /// Bytes of heap memory held, for a server's account of its clients.
    pub fn allocated(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.inline_text.capacity()
    }

    #[inline]
    fn parse_checked(&mut self, input: &[u8]) -> Result<Parsed, ProtocolError> {
        if matches!(self.form, Form::Unknown | Form::Inline) {
            self.spans.clear();
            if self.spans.capacity() > KEPT_SPANS {
                self.spans.shrink_to(KEPT_SPANS);
            }
            self.form = Form::FirstLine;
        }
        if self.form == Form::FirstLine {
            match input.first() {
                None => return Ok(Parsed::Incomplete { wanted: 1 }),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(input),
            }
            let count = match short_length(input, 0, b'*') {
                Some((count, next)) => {
                    self.position = next;
                    self.searched = 0;
                    count as i64
                }
                None => {
                    let Some(digits) =
                        self.length_line(input, ProtocolError::TooBigMultibulkCount)?
                    else {
                        return Ok(Parsed::Incomplete { wanted: 1 });
                    };
                    parse_integer(&digits[1..]).ok_or(ProtocolError::InvalidMultibulkLength)?
                }
            };
            if count > 0 && count as u64 > self.limits.max_args as u64 {
                return Err(ProtocolError::InvalidMultibulkLength);
            }
            if count > UNAUTHENTICATED_ARGS && !self.limits.authenticated {
                return Err(ProtocolError::UnauthenticatedMultibulkLength);
            }
            if count <= 0 {
                return Ok(Parsed::Ignored(self.position));
            }
            self.missing = count as usize;
            self.form = Form::Multibulk;
        }
        self.parse_arguments(input)
    }

    /// Reads those of the arguments still to come that are there whole, in the form that nearly every client sends.
    #[inline]
    fn parse_plain(&mut self, input: &[u8]) {
        let most = match self.limits.authenticated {
            true => self.limits.max_bulk,
            false => self.limits.max_bulk.min(UNAUTHENTICATED_BULK as usize),
        };
        let (mut position, mut missing) = (self.position, self.missing);
        while missing > 0
            && let Some((len, start)) = short_length(input, position, b'$')
            && len <= most
            && start + len + 2 <= input.len()
        {
            self.spans.push(Span { start, len });
            position = start + len + 2;
            missing -= 1;
        }
        if missing != self.missing {
            (self.position, self.missing, self.searched) = (position, missing, 0);
        }
    }

    #[inline]
    fn parse_arguments(&mut self, input: &[u8]) -> Result<Parsed, ProtocolError> {
        loop {
            if self.bulk.is_none() {
                self.parse_plain(input);
            }
            if self.missing == 0 {
                return Ok(Parsed::Command(self.position));
            }
            let len = match self.bulk {
                Some(len) => len,
                None => match self.bulk_length(input)? {
                    Some(len) => len,
                    None => return Ok(Parsed::Incomplete { wanted: 1 }),
                },
            };
            let end = self.position + len + 2;
            if input.len() < end {
                self.bulk = Some(len);
                return Ok(Parsed::Incomplete {
                    wanted: end - input.len(),
                });
            }
            self.bulk = None;
            self.spans.push(Span {
                start: self.position,
                len,
            });
            self.position = end;
            self.missing -= 1;
        }
    }

    /// Reads a `$` line of any form, when it is complete.
    #[cold]
    fn bulk_length(&mut self, input: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(line) = self.length_line(input, ProtocolError::TooBigBulkCount)? else {
            return Ok(None);
        };
        // An empty line's first byte is its `\r`, which the error names as a blank.
        match line.first().copied().unwrap_or(b'\r') {
            b'$' => {}
            other => return Err(ProtocolError::ExpectedDollar(other)),
        }
        let len = parse_integer(&line[1..]).ok_or(ProtocolError::InvalidBulkLength)?;
        self.checked_bulk(len).map(Some)
    }

    #[inline]
    fn checked_bulk(&self, len: i64) -> Result<usize, ProtocolError> {
        let len_in_bytes = usize::try_from(len).map_err(|_| ProtocolError::InvalidBulkLength)?;
        if len_in_bytes > self.limits.max_bulk {
            return Err(ProtocolError::InvalidBulkLength);
        }
        if len > UNAUTHENTICATED_BULK && !self.limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        Ok(len_in_bytes)
    }

    /// The line at `position` without its end (`\r` and one byte), when it is complete; moves behind it.
    #[cold]
    fn length_line<'a>(
        &mut self,
        input: &'a [u8],
        too_big: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let start = self.position;
        let Some(len) = self.find_end(input, b'\r', too_big)? else {
            return Ok(None);
        };
        // The byte after `\r` must be there, but Redis does not look at it.
        if input.len() < start + len + 2 {
            return Ok(None);
        }
        self.position = start + len + 2;
        self.searched = 0;
        Ok(Some(&input[start..start + len]))
    }

    #[cold]
    fn parse_inline(&mut self, input: &[u8]) -> Result<Parsed, ProtocolError> {
        let Some(len) = self.find_end(input, b'\n', ProtocolError::TooBigInlineRequest)? else {
            return Ok(Parsed::Incomplete { wanted: 1 });
        };
        self.searched = 0;
        let line = &input[..len];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.inline_text.clear();
        split_args(line, &mut self.inline_text, &mut self.spans)
            .map_err(|_| ProtocolError::UnbalancedQuotes)?;
        self.form = Form::Inline;
        Ok(if self.spans.is_empty() {
            Parsed::Ignored(len + 1)
        } else {
            Parsed::Command(len + 1)
        })
    }

    /// Length of the line at `position` up to `end`, searching only bytes that were not searched before.
    ///
    /// A NUL byte hides everything behind it, as it does from Redis' strchr: such a line has no end and runs into the
    /// limit. So does, here as there, whoever sends 64 KiB without one; but the answer does not depend on how the bytes
    /// were cut on their way.
    fn find_end(
        &mut self,
        input: &[u8],
        end: u8,
        too_big: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let line = input.get(self.position..).unwrap_or_default();
        let window = &line[..line.len().min(MAX_LINE + 1)];
        let fresh = window.get(self.searched..).unwrap_or_default();
        #[cfg(test)]
        tests::SEARCHED.with(|total| total.set(total.get() + fresh.len()));
        match memchr::memchr2(end, 0, fresh) {
            Some(found) if fresh[found] == end => Ok(Some(self.searched + found)),
            found => {
                // Stop in front of a NUL, to find it again at once.
                self.searched += found.unwrap_or(fresh.len());
                if line.len() > MAX_LINE {
                    return Err(too_big);
                }
                Ok(None)
            }
        }
    }
}

/// Reads `<kind><digits>\r` and one byte at `at` in the form that nearly every client sends: one to seven digits without
/// a leading zero. Returns the number and the offset behind it, or nothing for whatever else stands there.
// Inlined by force into its two callers, each with its own constant kind: a fifth of a command's time, measured.
#[inline(always)]
fn short_length(input: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let line = input.get(at..)?;
    match line {
        [first, ..] if *first != kind => None,
        [_, digit @ b'0'..=b'9', b'\r', _, ..] => Some((usize::from(digit - b'0'), at + 4)),
        [_, lead @ b'1'..=b'9', digit @ b'0'..=b'9', b'\r', _, ..] => {
            let value = usize::from(lead - b'0') * 10 + usize::from(digit - b'0');
            Some((value, at + 5))
        }
        [_, lead @ b'1'..=b'9', rest @ ..] => {
            let mut value = usize::from(lead - b'0');
            for (place, byte) in rest.iter().take(7).enumerate() {
                match byte {
                    b'0'..=b'9' => value = value * 10 + usize::from(byte - b'0'),
                    b'\r' if place + 1 < rest.len() => return Some((value, at + place + 4)),
                    _ => return None,
                }
            }
            None
        }
        _ => None,
    }
}

/// The arguments of a command: slices of the receive buffer.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// Number of arguments, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none, which no command has.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Where the arguments lie. Of a command in the multibulk form that is from its start in the input on; those of an
    /// inline command lie elsewhere, and their places tell nothing.
    #[inline]
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }

    /// The argument at `index`; the command's name is number 0.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.bytes[span.range()])
    }

    /// All of them in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.range()])
    }
}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.iter().map(|arg| arg.escape_ascii().to_string());
        f.debug_list().entries(text).finish()
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// The argument at `index`.
    ///
    /// # Panics
    /// Panics when there is no such argument.
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.spans[index].range()]
    }
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
