//! Reads RESP2 and RESP3 replies from any buffered source.
//!
//! The types are close to the wire format: doubles and big numbers remain text, and RESP2's two
//! nulls remain distinct from RESP3's null. Comparing two replies therefore compares the
//! transmitted data.

use std::io::{self, BufRead, Read, Write};

use crate::command::quote;

/// The maximum length of an accepted bulk string in bytes, which is Redis' own limit.
const MAX_BULK: i64 = 512 * 1024 * 1024;
/// The maximum accepted nesting depth, far above that of any Redis reply.
const MAX_DEPTH: usize = 32;

/// One reply as it was transmitted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reply {
    /// A simple string: `+OK`
    Simple(Vec<u8>),
    /// An error, `-ERR ...`, without the dash.
    Error(Vec<u8>),
    /// An integer: `:1`
    Integer(i64),
    /// A bulk string: `$3 abc`
    Bulk(Vec<u8>),
    /// RESP2's null bulk string, `$-1`.
    NullBulk,
    /// RESP2's null array, `*-1`.
    NullArray,
    /// RESP3's null, `_`.
    Null,
    /// A boolean, `#t` or `#f`.
    Boolean(bool),
    /// A double, `,1.5`, as text.
    Double(Vec<u8>),
    /// A big number, `(123`, as text.
    BigNumber(Vec<u8>),
    /// A verbatim string, `=7 txt:abc`, including its three-letter format.
    Verbatim(Vec<u8>),
    /// A bulk error: `!5 ERR x`
    BulkError(Vec<u8>),
    /// An array: `*2 ...`
    Array(Vec<Reply>),
    /// A set: `~2 ...`
    Set(Vec<Reply>),
    /// A push message: `>2 ...`
    Push(Vec<Reply>),
    /// A map, `%1 ...`, with alternating keys and values.
    Map(Vec<Reply>),
}

/// Returns an error's text without the code `ERR`.
pub(crate) fn without_code(text: Vec<u8>) -> Vec<u8> {
    match text.strip_prefix(b"ERR ") {
        Some(rest) => rest.to_vec(),
        None => text,
    }
}

impl Reply {
    /// Returns whether this reply is an error of either kind.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_) | Reply::BulkError(_))
    }

    /// Returns whether this reply is one of the three nulls.
    pub fn is_null(&self) -> bool {
        matches!(self, Reply::NullBulk | Reply::NullArray | Reply::Null)
    }

    /// Returns the text of a simple, bulk or verbatim string.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Simple(b) | Reply::Bulk(b) => Some(b),
            // Skip the first four bytes, which are the name of the format: "txt:".
            Reply::Verbatim(b) => b.get(4..),
            _ => None,
        }
    }

    /// Returns the elements of any aggregate. The elements of a map are alternating keys and
    /// values.
    pub fn items(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(v) | Reply::Set(v) | Reply::Push(v) | Reply::Map(v) => Some(v),
            _ => None,
        }
    }

    /// Returns the reply with the types that a language's values distinguish: integers, strings, lists,
    /// errors and null.
    #[must_use]
    pub fn loosened(self) -> Reply {
        let loosened = |items: Vec<Reply>| items.into_iter().map(Reply::loosened).collect();
        match self {
            Reply::Simple(text) | Reply::Double(text) | Reply::BigNumber(text) => Reply::Bulk(text),
            Reply::Boolean(value) => Reply::Integer(i64::from(value)),
            Reply::Null | Reply::NullArray => Reply::NullBulk,
            // The first four bytes tell the format.
            Reply::Verbatim(text) => Reply::Bulk(text.get(4..).unwrap_or_default().to_vec()),
            Reply::Error(text) | Reply::BulkError(text) => Reply::Error(without_code(text)),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Map(items) => {
                Reply::Array(loosened(items))
            }
            other => other,
        }
    }

    /// Returns the first byte on the wire, which identifies the type.
    pub fn marker(&self) -> char {
        match self {
            Reply::Simple(_) => '+',
            Reply::Error(_) => '-',
            Reply::Integer(_) => ':',
            Reply::Bulk(_) | Reply::NullBulk => '$',
            Reply::Array(_) | Reply::NullArray => '*',
            Reply::Null => '_',
            Reply::Boolean(_) => '#',
            Reply::Double(_) => ',',
            Reply::BigNumber(_) => '(',
            Reply::Verbatim(_) => '=',
            Reply::BulkError(_) => '!',
            Reply::Set(_) => '~',
            Reply::Push(_) => '>',
            Reply::Map(_) => '%',
        }
    }

    /// Returns the reply in the notation of the case files, one line per element.
    pub fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.write_lines(0, &mut out);
        out
    }

    fn write_lines(&self, depth: usize, out: &mut Vec<String>) {
        let marker = self.marker();
        let text = match self {
            // Show these types escaped but without quotes, because they cannot contain control
            // bytes.
            Reply::Simple(b) | Reply::Error(b) | Reply::Double(b) | Reply::BigNumber(b) => {
                let quoted = quote(b, true);
                let bare = quoted[1..quoted.len() - 1].replace("\\\"", "\"");
                // Escape a trailing space, which editors may strip.
                match bare.strip_suffix(' ') {
                    Some(head) => format!("{head}\\x20"),
                    None => bare,
                }
            }
            Reply::Integer(i) => i.to_string(),
            Reply::Bulk(b) | Reply::Verbatim(b) | Reply::BulkError(b) => quote(b, true),
            Reply::NullBulk | Reply::NullArray => "-1".to_owned(),
            Reply::Null => String::new(),
            Reply::Boolean(b) => (if *b { "t" } else { "f" }).to_owned(),
            Reply::Array(v) | Reply::Set(v) | Reply::Push(v) => v.len().to_string(),
            Reply::Map(v) => (v.len() / 2).to_string(),
        };
        out.push(format!("{:width$}{marker}{text}", "", width = depth * 2));
        for item in self.items().unwrap_or_default() {
            item.write_lines(depth + 1, out);
        }
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for line in self.lines() {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(line.trim_start());
            // Shorten the text, because a long value can be identified by its beginning.
            if text.len() > 400 {
                let head: String = text.chars().take(300).collect();
                return write!(f, "{head}... (shortened)");
            }
        }
        f.write_str(&text)
    }
}

fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Reads one complete reply, blocking until it has arrived.
///
/// # Errors
/// Returns `UnexpectedEof` if the peer closed the connection, and `InvalidData` with the received
/// bytes if they are not RESP. Other errors come from the source.
pub fn read_reply(from: &mut impl BufRead) -> io::Result<Reply> {
    read_nested(from, 0)
}

fn read_nested(from: &mut impl BufRead, depth: usize) -> io::Result<Reply> {
    if depth > MAX_DEPTH {
        return Err(malformed("reply nested deeper than 32 levels"));
    }
    let line = read_line(from)?;
    let (&kind, rest) = line
        .split_first()
        .ok_or_else(|| malformed("expected a type byte, got an empty line"))?;
    let text = || rest.to_vec();
    Ok(match kind {
        b'+' => Reply::Simple(text()),
        b'-' => Reply::Error(text()),
        b':' => Reply::Integer(number(rest)?),
        b',' => Reply::Double(text()),
        b'(' => Reply::BigNumber(text()),
        b'_' if rest.is_empty() => Reply::Null,
        b'#' if rest == b"t" => Reply::Boolean(true),
        b'#' if rest == b"f" => Reply::Boolean(false),
        b'$' => match number(rest)? {
            -1 => Reply::NullBulk,
            n => Reply::Bulk(read_bulk(from, n)?),
        },
        b'=' => Reply::Verbatim(read_bulk(from, number(rest)?)?),
        b'!' => Reply::BulkError(read_bulk(from, number(rest)?)?),
        b'*' => match number(rest)? {
            -1 => Reply::NullArray,
            n => Reply::Array(read_items(from, n, depth)?),
        },
        b'~' => Reply::Set(read_items(from, number(rest)?, depth)?),
        b'>' => Reply::Push(read_items(from, number(rest)?, depth)?),
        b'%' => {
            let pairs = number(rest)?;
            Reply::Map(read_items(from, pairs.saturating_mul(2), depth)?)
        }
        _ => {
            let shown = quote(&line[..line.len().min(80)], true);
            return Err(malformed(format!("expected a RESP type byte, got {shown}")));
        }
    })
}

fn read_line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    // Limit the length: a line is a type byte followed by a number or a message, so a valid line is
    // far shorter than a megabyte.
    let mut limited = from.by_ref().take(1 << 20);
    limited.read_until(b'\n', &mut line)?;
    // The message of an error that a script of Redis 8.2 raises can contain line feeds.
    while line.starts_with(b"-")
        && !line.ends_with(b"\r\n")
        && limited.read_until(b'\n', &mut line)? > 0
    {}
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !line.ends_with(b"\r\n") {
        let shown = quote(&line[..line.len().min(80)], true);
        return Err(malformed(format!(
            "expected a line ending in CRLF, got {shown}"
        )));
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

fn number(text: &[u8]) -> io::Result<i64> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|t| t.parse().ok())
        .ok_or_else(|| malformed(format!("expected an integer, got {}", quote(text, true))))
}

fn read_bulk(from: &mut impl BufRead, len: i64) -> io::Result<Vec<u8>> {
    if !(0..=MAX_BULK).contains(&len) {
        return Err(malformed(format!(
            "expected a bulk length of 0 to 512 MiB, got {len}"
        )));
    }
    let len = usize::try_from(len).map_err(|_| malformed("length out of range"))?;
    let mut body = Vec::with_capacity(len.min(1 << 16));
    from.by_ref().take(len as u64 + 2).read_to_end(&mut body)?;
    if body.len() < len + 2 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !body.ends_with(b"\r\n") {
        return Err(malformed("expected CRLF after a bulk string"));
    }
    body.truncate(len);
    Ok(body)
}

fn read_items(from: &mut impl BufRead, len: i64, depth: usize) -> io::Result<Vec<Reply>> {
    if !(0..=1 << 24).contains(&len) {
        return Err(malformed(format!("expected 0 to 16M elements, got {len}")));
    }
    (0..len).map(|_| read_nested(from, depth + 1)).collect()
}

/// Writes a command as an array of bulk strings.
///
/// # Errors
/// Returns any error from the sink.
pub fn write_command(to: &mut impl Write, args: &[Vec<u8>]) -> io::Result<()> {
    write!(to, "*{}\r\n", args.len())?;
    for arg in args {
        write!(to, "${}\r\n", arg.len())?;
        to.write_all(arg)?;
        to.write_all(b"\r\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> io::Result<Reply> {
        read_reply(&mut io::BufReader::with_capacity(3, bytes))
    }

    #[test]
    fn reads_every_type() {
        let all =
            b"*13\r\n+OK\r\n-ERR x\r\n:-5\r\n$2\r\n\r\n\r\n$-1\r\n*-1\r\n_\r\n#t\r\n,1.50\r\n\
                    (123\r\n=5\r\ntxt:a\r\n%1\r\n+k\r\n~1\r\n:1\r\n>1\r\n!3\r\nERR\r\n";
        let Ok(Reply::Array(items)) = parse(all) else {
            panic!("not an array")
        };
        let markers: String = items.iter().map(Reply::marker).collect();
        assert_eq!(markers, "+-:$$*_#,(=%>");
        assert_eq!(items[3], Reply::Bulk(b"\r\n".to_vec()));
    }

    #[test]
    fn error_can_contain_line_feeds() {
        let reply = parse(b"-ERR user_script:3: abc\n\r\n").expect("a whole error");
        assert_eq!(reply, Reply::Error(b"ERR user_script:3: abc\n".to_vec()));
    }

    #[test]
    fn refuses_malformed_resp() {
        for bad in [
            &b"OK\r\n"[..],
            b"+OK\n",
            b":1x\r\n",
            b"$2\r\nabcd",
            b"$-2\r\n",
            b"#x\r\n",
            b"\r\n",
            b"*-2\r\n",
            b"$99999999999\r\n",
        ] {
            let error = parse(bad).expect_err("accepted bad bytes");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bad:?}");
        }
        for cut in [&b""[..], b"$3\r\nab", b"*2\r\n:1\r\n"] {
            let error = parse(cut).expect_err("accepted a cut reply");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut:?}");
        }
        assert!(parse("*1\r\n".repeat(40).as_bytes()).is_err());
    }
}
