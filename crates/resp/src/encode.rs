//! Appends replies (RESP2 and RESP3) and commands to a `Vec<u8>`.
//!
//! Functions with a [`Version`] parameter write what a Redis server sends over a connection of that
//! version. RESP2 lacks maps, sets, doubles, Booleans, big numbers and verbatim strings, so these
//! become arrays, bulk strings and integers. To write an aggregate, first write its header, then
//! write each element with a separate call.

use undercroft_numbers::double_text;

use crate::Version;

/// Appends `<kind><number>\r\n`, which is the form of all headers in the protocol.
#[inline]
fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    // Most lengths are short. Their headers are built on the stack and appended with a single copy
    // of constant size.
    match number {
        0..=9 => out.extend_from_slice(&[kind, digit(number), b'\r', b'\n']),
        10..=99 => {
            let line = [kind, digit(number / 10), digit(number % 10), b'\r', b'\n'];
            out.extend_from_slice(&line);
        }
        _ => number_line(out, kind, itoa::Buffer::new().format(number).as_bytes()),
    }
}

/// Returns the last decimal digit of `number` as a character.
#[inline]
const fn digit(number: usize) -> u8 {
    b'0' + (number % 10) as u8
}

/// Appends a line that consists of a type byte and digits: `<kind><digits>\r\n`.
#[inline]
fn number_line(out: &mut Vec<u8>, kind: u8, digits: &[u8]) {
    out.reserve(digits.len() + 3);
    out.push(kind);
    out.extend_from_slice(digits);
    out.extend_from_slice(b"\r\n");
}

/// Appends `<kind><text>\r\n`. Replaces line breaks in the text with spaces, because they would end
/// the reply early.
fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(text);
    if memchr::memchr2(b'\r', b'\n', text).is_some() {
        for byte in &mut out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a simple string such as `+OK`. Replaces line breaks in the text with spaces.
pub fn simple(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'+', text);
}

/// Appends an error. The text must start with an error code, as in `ERR wrong number of arguments`.
/// Replaces line breaks in the text with spaces, as Redis does.
pub fn error(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'-', text);
}

/// Appends an integer.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    match usize::try_from(value) {
        Ok(number) => header(out, b':', number),
        Err(_) => number_line(out, b':', itoa::Buffer::new().format(value).as_bytes()),
    }
}

/// Appends a bulk string of arbitrary bytes.
pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    counted(out, b'$', bytes);
}

/// Appends several bulk strings, which are concatenated in `bytes`. `ends` contains the end offset
/// of each string.
///
/// # Panics
/// Panics if the ends are not in ascending order or exceed the length of `bytes`.
pub fn bulks(out: &mut Vec<u8>, bytes: &[u8], ends: &[usize]) {
    let mut start = 0;
    for group in ends.chunks(64) {
        let (mut end, mut longest) = (start, 0);
        for &next in group {
            longest = longest.max(next - end);
            end = next;
        }
        if longest <= SHORT {
            short_bulks(out, bytes, start, group);
        } else {
            let mut start = start;
            for &end in group {
                bulk(out, &bytes[start..end]);
                start = end;
            }
        }
        start = end;
    }
}

/// The maximum length of a string whose header has at most five bytes.
const SHORT: usize = 99;
/// Strings of up to this many bytes are copied as a block of this size.
const CHUNK: usize = 32;
/// The number of bytes written for one string: a header, [`CHUNK`] bytes, and the line end.
const WINDOW: usize = 5 + CHUNK + 2;

/// The headers of strings with lengths from 0 to [`SHORT`] bytes.
static HEADERS: [[u8; 5]; SHORT + 1] = {
    let mut all = [*b"$0\r\n\0"; SHORT + 1];
    let mut number = 1;
    while number <= SHORT {
        all[number] = match number {
            0..=9 => [b'$', digit(number), b'\r', b'\n', 0],
            _ => [b'$', digit(number / 10), digit(number), b'\r', b'\n'],
        };
        number += 1;
    }
    all
};

/// Does the same as [`bulks`] for strings of at most [`SHORT`] bytes. Replies with many items
/// consist mostly of such strings, so memory is reserved once for all of them, and each is written
/// with a few copies of constant length.
fn short_bulks(out: &mut Vec<u8>, bytes: &[u8], mut start: usize, ends: &[usize]) {
    let first = out.len();
    let total = ends.last().map_or(0, |end| end - start);
    out.resize(first + total + ends.len() * 7 + WINDOW, 0);
    let mut room = &mut out[first..];
    for &end in ends {
        let length = end - start;
        let lead = if length < 10 { 4 } else { 5 };
        if length <= CHUNK
            && let Some(window) = room.first_chunk_mut::<WINDOW>()
            && let Some(item) = bytes[start..].first_chunk::<CHUNK>()
        {
            window[..5].copy_from_slice(&HEADERS[length]);
            // Two copies at constant offsets are faster than one at a variable offset.
            if lead == 4 {
                window[4..4 + CHUNK].copy_from_slice(item);
            } else {
                window[5..5 + CHUNK].copy_from_slice(item);
            }
            window[lead + length] = b'\r';
            window[lead + length + 1] = b'\n';
        } else {
            room[..5].copy_from_slice(&HEADERS[length]);
            room[lead..lead + length].copy_from_slice(&bytes[start..end]);
            room[lead + length..lead + length + 2].copy_from_slice(b"\r\n");
        }
        room = &mut room[lead + length + 2..];
        start = end;
    }
    let left = room.len();
    out.truncate(out.len() - left);
}

/// Appends an integer as a bulk string, for replies whose type is a string but whose value is a
/// number.
pub fn bulk_integer(out: &mut Vec<u8>, value: i64) {
    bulk(out, itoa::Buffer::new().format(value).as_bytes());
}

/// Appends the header of a bulk string. The caller must append its `len` bytes and the final `\r\n`
/// (see [`bulk_end`]).
///
/// For values that are copied directly from elsewhere into the output. Reserves no memory for the
/// value, because a length that was read without a lock may turn out to be wrong.
#[inline]
pub fn bulk_begin(out: &mut Vec<u8>, len: usize) {
    header(out, b'$', len);
}

/// Completes a bulk string whose header was appended with [`bulk_begin`].
#[inline]
pub fn bulk_end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Appends `<kind><length>\r\n<bytes>\r\n`, with a single reservation.
fn counted(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.reserve(bytes.len() + 25);
    header(out, kind, bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends a null in place of a string or another scalar.
pub fn null(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"$-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Appends a null in place of an array. In RESP2, this null differs from the null of a string.
pub fn null_array(out: &mut Vec<u8>, version: Version) {
    out.extend_from_slice(match version {
        Version::Resp2 => b"*-1\r\n",
        Version::Resp3 => b"_\r\n",
    });
}

/// Appends the header of an array with `len` elements.
pub fn array(out: &mut Vec<u8>, len: usize) {
    header(out, b'*', len);
}

/// Appends the header of a map with `pairs` keys, each followed by its value.
pub fn map(out: &mut Vec<u8>, version: Version, pairs: usize) {
    match version {
        Version::Resp2 => header(out, b'*', pairs.saturating_mul(2)),
        Version::Resp3 => header(out, b'%', pairs),
    }
}

/// Appends the header of a set with `len` elements.
pub fn set(out: &mut Vec<u8>, version: Version, len: usize) {
    match version {
        Version::Resp2 => header(out, b'*', len),
        Version::Resp3 => header(out, b'~', len),
    }
}

/// Appends the header of an out-of-band message (pub/sub, invalidation) with `len` elements.
pub fn push(out: &mut Vec<u8>, version: Version, len: usize) {
    match version {
        Version::Resp2 => header(out, b'*', len),
        Version::Resp3 => header(out, b'>', len),
    }
}

/// Appends the header of `pairs` attributes that precede a reply. For RESP3 only: attributes must
/// never be sent to a RESP2 client.
pub fn attribute(out: &mut Vec<u8>, pairs: usize) {
    header(out, b'|', pairs);
}

/// Inserts an aggregate's header before the elements that start at byte `at` of `out`.
///
/// For replies whose element count is known only after the last element. `write_header` must call
/// one of the header functions of this module. Moves all bytes after `at`.
pub fn insert_header(out: &mut Vec<u8>, at: usize, write_header: impl FnOnce(&mut Vec<u8>)) {
    let end = out.len();
    write_header(out);
    let written = out.len() - end;
    out[at..].rotate_right(written);
}

/// Appends a double, formatted as in Redis 7.0 ([`double_text`]). In RESP2, it becomes a bulk
/// string.
pub fn double(out: &mut Vec<u8>, version: Version, value: f64) {
    let text = double_text(value);
    match version {
        Version::Resp2 => bulk(out, &text),
        Version::Resp3 => line(out, b',', &text),
    }
}

/// Appends a double given as decimal digits. In RESP2, it becomes a bulk string.
pub fn decimal(out: &mut Vec<u8>, version: Version, digits: &str) {
    match version {
        Version::Resp2 => bulk(out, digits.as_bytes()),
        Version::Resp3 => line(out, b',', digits.as_bytes()),
    }
}

/// Appends a Boolean. In RESP2, it becomes 1 or 0.
pub fn boolean(out: &mut Vec<u8>, version: Version, value: bool) {
    out.extend_from_slice(match (version, value) {
        (Version::Resp2, false) => b":0\r\n",
        (Version::Resp2, true) => b":1\r\n",
        (Version::Resp3, false) => b"#f\r\n",
        (Version::Resp3, true) => b"#t\r\n",
    });
}

/// Appends an integer of any size, given as decimal digits. In RESP2, it becomes a bulk string.
pub fn big_number(out: &mut Vec<u8>, version: Version, digits: &[u8]) {
    match version {
        Version::Resp2 => bulk(out, digits),
        Version::Resp3 => line(out, b'(', digits),
    }
}

/// Appends a text with a three-letter format (`txt`, `mkd`). In RESP2, it becomes a plain bulk
/// string.
pub fn verbatim(out: &mut Vec<u8>, version: Version, format: [u8; 3], text: &[u8]) {
    match version {
        Version::Resp2 => bulk(out, text),
        Version::Resp3 => {
            out.reserve(text.len() + 29);
            header(out, b'=', text.len() + 4);
            out.extend_from_slice(&format);
            out.push(b':');
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends a length-prefixed error of arbitrary bytes. In RESP2, it becomes an error line. Redis
/// 7.0 itself never sends such errors.
pub fn bulk_error(out: &mut Vec<u8>, version: Version, text: &[u8]) {
    match version {
        Version::Resp2 => error(out, text),
        Version::Resp3 => counted(out, b'!', text),
    }
}

/// Appends a command in the form used by clients: an array of bulk strings.
pub fn command<A: AsRef<[u8]>>(out: &mut Vec<u8>, args: &[A]) {
    array(out, args.len());
    for arg in args {
        bulk(out, arg.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before|".to_vec();
        write(&mut out);
        String::from_utf8(out.split_off(7)).expect("these tests write text")
    }

    #[test]
    fn types_encode_as_each_version_requires() {
        use Version::{Resp2, Resp3};
        let both = |write: fn(&mut Vec<u8>, Version)| {
            (
                written(|out| write(out, Resp2)),
                written(|out| write(out, Resp3)),
            )
        };
        type Case = (fn(&mut Vec<u8>, Version), &'static str, &'static str);
        let cases: [Case; 12] = [
            (null, "$-1\r\n", "_\r\n"),
            (null_array, "*-1\r\n", "_\r\n"),
            (|out, v| map(out, v, 2), "*4\r\n", "%2\r\n"),
            (|out, v| set(out, v, 3), "*3\r\n", "~3\r\n"),
            (|out, v| push(out, v, 3), "*3\r\n", ">3\r\n"),
            (|out, v| double(out, v, 0.5), "$3\r\n0.5\r\n", ",0.5\r\n"),
            (
                |out, v| double(out, v, f64::NEG_INFINITY),
                "$4\r\n-inf\r\n",
                ",-inf\r\n",
            ),
            (|out, v| boolean(out, v, true), ":1\r\n", "#t\r\n"),
            (|out, v| boolean(out, v, false), ":0\r\n", "#f\r\n"),
            (
                |out, v| big_number(out, v, b"-12"),
                "$3\r\n-12\r\n",
                "(-12\r\n",
            ),
            (
                |out, v| verbatim(out, v, *b"txt", b"a\nb"),
                "$3\r\na\nb\r\n",
                "=7\r\ntxt:a\nb\r\n",
            ),
            (
                |out, v| bulk_error(out, v, b"ERR a\nb"),
                "-ERR a b\r\n",
                "!7\r\nERR a\nb\r\n",
            ),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(both(write), (resp2.to_owned(), resp3.to_owned()));
        }
    }

    #[test]
    fn types_shared_by_both_versions_encode_alike() {
        assert_eq!(written(|out| simple(out, b"OK")), "+OK\r\n");
        assert_eq!(written(|out| error(out, b"ERR a\r\nb\n")), "-ERR a  b \r\n");
        assert_eq!(
            written(|out| integer(out, i64::MIN)),
            ":-9223372036854775808\r\n"
        );
        assert_eq!(written(|out| bulk(out, b"")), "$0\r\n\r\n");
        assert_eq!(written(|out| bulk_integer(out, -5)), "$2\r\n-5\r\n");
        assert_eq!(written(|out| attribute(out, 1)), "|1\r\n");
        assert_eq!(
            written(|out| command(out, &["GET", "k"])),
            "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
        );
    }

    #[test]
    fn bulks_equal_separate_bulk_strings() {
        let lengths = [0, 1, 9, 10, 12, 31, 32, 33, 40, 99, 100, 1000];
        for count in [0, 1, 63, 64, 65, 200] {
            for spread in 1..=lengths.len() {
                let (mut bytes, mut ends, mut expected) = (Vec::new(), Vec::new(), Vec::new());
                for number in 0..count {
                    let item = vec![b'a' + (number % 26) as u8; lengths[number % spread]];
                    bulk(&mut expected, &item);
                    bytes.extend_from_slice(&item);
                    ends.push(bytes.len());
                }
                let text = written(|out| bulks(out, &bytes, &ends));
                assert_eq!(text.as_bytes(), expected, "{count} of {spread} lengths");
            }
        }
    }

    #[test]
    fn bulk_string_can_be_appended_in_place() {
        let text = written(|out| {
            bulk_begin(out, 3);
            out.extend_from_slice(b"abc");
            bulk_end(out);
        });
        assert_eq!(text, "$3\r\nabc\r\n");
    }

    #[test]
    fn header_can_be_inserted_after_its_elements() {
        let text = written(|out| {
            let at = out.len();
            integer(out, 1);
            integer(out, 2);
            insert_header(out, at, |out| array(out, 2));
        });
        assert_eq!(text, "*2\r\n:1\r\n:2\r\n");
    }
}
