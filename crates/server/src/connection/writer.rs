//! Encodes replies in the Redis protocol, and appends their bytes to a connection's output.

use undercroft_commands::protocol::Protocol;
use undercroft_commands::reply::Reply;
use undercroft_engine::strings::{Text, TextBuffer};
use undercroft_engine::{Error, Ranges, Scratch, View};
use undercroft_resp::{Version, encode};

/// A writer that encodes replies in the connection's protocol version.
pub struct Writer {
    /// The buffer to which replies are appended.
    pub out: Vec<u8>,
    version: Version,
    /// The offset in `out` at which the reply that is being read from the store starts.
    start: usize,
}

impl Writer {
    /// Creates a writer that appends replies to `out`. It encodes them in the given version until a
    /// command changes the version.
    pub fn new(out: Vec<u8>, protocol: Protocol) -> Writer {
        Writer {
            out,
            version: version(protocol),
            start: 0,
        }
    }
}

impl Scratch for Writer {
    #[inline]
    fn clear(&mut self) {
        self.out.truncate(self.start);
    }
}

impl TextBuffer for Writer {
    #[inline]
    fn fill(&mut self, view: &View<'_>, text: Text) -> Result<(), Error> {
        encode::bulk_begin(&mut self.out, text.length() as usize);
        text.append_to(view, &mut self.out)?;
        encode::bulk_end(&mut self.out);
        Ok(())
    }
}

fn version(protocol: Protocol) -> Version {
    match protocol {
        Protocol::Resp2 => Version::Resp2,
        Protocol::Resp3 => Version::Resp3,
    }
}

impl Reply for Writer {
    #[inline]
    fn simple(&mut self, text: &str) {
        encode::simple(&mut self.out, text.as_bytes());
    }
    fn simple_bytes(&mut self, text: &[u8]) {
        encode::simple(&mut self.out, text);
    }
    fn error(&mut self, text: &str) {
        encode::error(&mut self.out, text.as_bytes());
    }
    fn error_bytes(&mut self, text: &[u8]) {
        encode::error(&mut self.out, text);
    }
    #[inline]
    fn integer(&mut self, value: i64) {
        encode::integer(&mut self.out, value);
    }
    #[inline]
    fn bulk(&mut self, bytes: &[u8]) {
        encode::bulk(&mut self.out, bytes);
    }
    #[inline]
    fn text(&mut self) -> Option<&mut dyn TextBuffer> {
        self.start = self.out.len();
        Some(self)
    }
    #[inline]
    fn null(&mut self) {
        encode::null(&mut self.out, self.version);
    }
    fn null_array(&mut self) {
        encode::null_array(&mut self.out, self.version);
    }
    fn array(&mut self, length: usize) {
        encode::array(&mut self.out, length);
    }
    fn bulks(&mut self, items: &Ranges) {
        let (bytes, ends) = items.parts();
        encode::bulks(&mut self.out, bytes, ends);
    }
    fn map(&mut self, pairs: usize) {
        encode::map(&mut self.out, self.version, pairs);
    }
    fn set(&mut self, length: usize) {
        encode::set(&mut self.out, self.version, length);
    }
    fn push(&mut self, length: usize) {
        encode::push(&mut self.out, self.version, length);
    }
    fn double(&mut self, value: f64) {
        encode::double(&mut self.out, self.version, value);
    }
    fn decimal(&mut self, digits: &str) {
        encode::decimal(&mut self.out, self.version, digits);
    }
    fn boolean(&mut self, value: bool) {
        encode::boolean(&mut self.out, self.version, value);
    }
    fn big_number(&mut self, digits: &str) {
        encode::big_number(&mut self.out, self.version, digits.as_bytes());
    }
    fn verbatim(&mut self, format: &str, text: &[u8]) {
        let mut letters = *b"txt";
        if let Ok(given) = format.as_bytes().try_into() {
            letters = given;
        }
        encode::verbatim(&mut self.out, self.version, letters, text);
    }
    fn protocol(&mut self, protocol: Protocol) {
        self.version = version(protocol);
    }
    #[inline]
    fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_version_can_change_within_a_reply() {
        let mut writer = Writer::new(Vec::new(), Protocol::Resp2);
        writer.map(1);
        writer.null();
        writer.protocol(Protocol::Resp3);
        writer.map(1);
        writer.null();
        writer.ok();
        writer.verbatim("mkd", b"x");
        writer.error_bytes(b"ERR \xff\n");
        assert_eq!(
            writer.out,
            b"*2\r\n$-1\r\n%1\r\n_\r\n+OK\r\n=5\r\nmkd:x\r\n-ERR \xff \r\n"
        );
    }
}
