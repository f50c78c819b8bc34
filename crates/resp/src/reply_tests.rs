//! Unit tests for the reply parser and reader: all forms and all errors, with input fragmented at
//! every byte.

use super::*;
use crate::{ReplyReader, Value};
use std::cell::Cell;

thread_local! {
    /// The number of bytes that parsers on this thread have searched for line ends.
    pub(super) static SEARCHED: Cell<usize> = const { Cell::new(0) };
}

type Replies = (Vec<Value>, Option<ReplyError>);

/// Reads `input` in fragments that end at `cuts`. Returns all replies, and the error that ended
/// reading.
fn read_cut(limits: ReplyLimits, input: &[u8], cuts: impl Iterator<Item = usize>) -> Replies {
    let mut reader = ReplyReader::new(limits);
    let mut values = Vec::new();
    let mut start = 0;
    for cut in cuts.chain([input.len()]) {
        let mut rest = &input[start..cut];
        loop {
            match reader.read(&mut rest) {
                Ok(Some(value)) => values.push(value),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.read(&mut rest), Err(error), "an error must last");
                    return (values, Some(error));
                }
            }
        }
        start = cut - rest.len();
    }
    (values, None)
}

fn read_every_way(limits: ReplyLimits, input: &[u8]) -> Replies {
    let whole = read_cut(limits, input, std::iter::empty());
    assert_eq!(read_cut(limits, input, 0..input.len()), whole, "by bytes");
    for cut in 0..input.len() {
        let torn = read_cut(limits, input, std::iter::once(cut));
        assert_eq!(torn, whole, "cut at {cut}: {}", input.escape_ascii());
    }
    whole
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

#[test]
fn every_reply_form_parses() {
    use Value::*;
    let cases: Vec<(&[u8], Value)> = vec![
        (b"+OK\r\n", Simple(b"OK".to_vec())),
        (b"+\r\n", Simple(vec![])),
        (b"-ERR no\r\n", Error(b"ERR no".to_vec())),
        (b":-12\r\n", Integer(-12)),
        (b":+12\r\n", Integer(12)),
        (b"$0\r\n\r\n", bulk("")),
        (b"$4\r\n\r\n\r\n\r\n", bulk("\r\n\r\n")),
        (b"$-1\r\n", Null(NullForm::Bulk)),
        (b"*-1\r\n", Null(NullForm::Array)),
        (b"_\r\n", Null(NullForm::Resp3)),
        (b",1.5\r\n", Double(1.5)),
        (b",-inf\r\n", Double(f64::NEG_INFINITY)),
        (b"#t\r\n", Boolean(true)),
        (b"#f\r\n", Boolean(false)),
        (
            b"(-123456789012345678901\r\n",
            BigNumber(b"-123456789012345678901".to_vec()),
        ),
        (b"!5\r\nERR a\r\n", BulkError(b"ERR a".to_vec())),
        (b"=5\r\ntxt:a\r\n", Verbatim(*b"txt", b"a".to_vec())),
        (b"*0\r\n", Array(vec![])),
        (
            b"*2\r\n*1\r\n:1\r\n~1\r\n$1\r\na\r\n",
            Array(vec![Array(vec![Integer(1)]), Set(vec![bulk("a")])]),
        ),
        (
            b"%2\r\n:1\r\n*0\r\n:2\r\n_\r\n",
            Map(vec![
                (Integer(1), Array(vec![])),
                (Integer(2), Null(NullForm::Resp3)),
            ]),
        ),
        (b">1\r\n+a\r\n", Push(vec![Simple(b"a".to_vec())])),
        (
            b"|1\r\n+a\r\n:1\r\n*1\r\n|0\r\n:2\r\n",
            Attributed(
                vec![(Simple(b"a".to_vec()), Integer(1))],
                Box::new(Array(vec![Attributed(vec![], Box::new(Integer(2)))])),
            ),
        ),
        (b"$?\r\n;4\r\nHell\r\n;1\r\no\r\n;0\r\n", bulk("Hello")),
        (b"$?\r\n;0\r\n", bulk("")),
        (
            b"*?\r\n:1\r\n~?\r\n.\r\n%?\r\n:1\r\n:2\r\n.\r\n.\r\n",
            Array(vec![
                Integer(1),
                Set(vec![]),
                Map(vec![(Integer(1), Integer(2))]),
            ]),
        ),
    ];
    for (input, value) in cases {
        let found = read_every_way(ReplyLimits::default(), input);
        assert_eq!(found, (vec![value], None), "{}", input.escape_ascii());
    }
}

#[test]
fn malformed_replies_are_rejected() {
    use ReplyError::*;
    let limits = ReplyLimits {
        max_bulk: 9,
        max_line: 20,
        max_elements: 5,
        max_depth: 3,
    };
    let cases: Vec<(&[u8], ReplyError)> = vec![
        (b"x", UnknownType(b'x')),
        (b"\r\n", UnknownType(b'\r')),
        (b"*1\r\n?", UnknownType(b'?')),
        (b":1\rx", LineEnd(*b"\rx")),
        (b"$1\r\naxy", LineEnd(*b"xy")),
        (b"$1\r\na\nx", LineEnd(*b"\nx")),
        (b":\r\n", Malformed(b':')),
        (b":1a\r\n", Malformed(b':')),
        (b":9223372036854775808\r\n", Malformed(b':')),
        (b",one\r\n", Malformed(b',')),
        (b"#x\r\n", Malformed(b'#')),
        (b"_x\r\n", Malformed(b'_')),
        (b"(1.5\r\n", Malformed(b'(')),
        (b"$-2\r\n", Malformed(b'$')),
        (b"$\r\n", Malformed(b'$')),
        (b"*-2\r\n", Malformed(b'*')),
        (b"%-1\r\n", Malformed(b'%')),
        (b">?\r\n", Malformed(b'>')),
        (b"=3\r\ntxt\r\n", Malformed(b'=')),
        (b"=4\r\ntext\r\n", Malformed(b'=')),
        (b"$10\r\n", BulkTooLong { len: 10, limit: 9 }),
        (
            b"$?\r\n;5\r\n12345\r\n;5\r\n",
            BulkTooLong { len: 10, limit: 9 },
        ),
        (b"*6\r\n", TooManyElements { len: 6, limit: 5 }),
        (b"+123456789012345678901", LineTooLong(20)),
        (b"*1\r\n*1\r\n*1\r\n*1\r\n", TooDeep(3)),
        (b"*?\r\n*?\r\n*?\r\n$?\r\n", TooDeep(3)),
        (b"*1\r\n>1\r\n", Misplaced(b'>')),
        (b"|0\r\n|0\r\n", Misplaced(b'|')),
        (b";1\r\na\r\n", Misplaced(b';')),
        (b".\r\n", Misplaced(b'.')),
        (b"*1\r\n.\r\n", Misplaced(b'.')),
        (b"%?\r\n:1\r\n.\r\n", Misplaced(b'.')),
        (b"*?\r\n|0\r\n.\r\n", Misplaced(b'.')),
        (b"$?\r\n:1\r\n", Misplaced(b':')),
    ];
    for (input, error) in cases {
        let found = read_every_way(limits, input);
        assert_eq!(found, (vec![], Some(error)), "{}", input.escape_ascii());
        assert!(error.to_string().starts_with("bad reply: "));
    }
    let longest = b"+12345678901234567890\r\n";
    assert_eq!(read_every_way(limits, longest).1, None);
}

#[test]
fn hostile_nesting_neither_recurses_nor_allocates() {
    let limits = ReplyLimits {
        max_depth: usize::MAX,
        ..ReplyLimits::default()
    };
    let input = b"*1\r\n".repeat(1_000_000);
    let found = read_cut(limits, &input, std::iter::empty());
    assert_eq!(
        found,
        (vec![], Some(ReplyError::TooDeep(ReplyLimits::DEEPEST)))
    );
}

#[test]
fn announced_lengths_reserve_little_memory() {
    let mut parser = ReplyParser::default();
    let mut input = &b"*4294967296\r\n%4294967296\r\n$536870912\r\nab"[..];
    while parser.next(&mut input).expect("valid").is_some() {}
    assert_eq!(parser.depth(), 2);
    assert!(!parser.between_replies());
    assert_eq!(parser.wanted(), 536_870_912);
    assert!(parser.open.capacity() < 16);
}

#[test]
fn nested_reply_yields_events_in_order() {
    let mut parser = ReplyParser::default();
    let mut input = &b"*2\r\n$1\r\na\r\n$?\r\n;1\r\nb\r\n;0\r\n:1\r\n"[..];
    let mut events = Vec::new();
    while let Some(event) = parser.next(&mut input).expect("valid") {
        events.push(event);
        if parser.between_replies() {
            break;
        }
    }
    use Event::*;
    assert_eq!(
        events,
        [
            Begin {
                kind: Aggregate::Array,
                len: Some(2)
            },
            Bulk(b"a"),
            Begin {
                kind: Aggregate::StreamedString,
                len: None
            },
            Chunk(b"b"),
            End(Aggregate::StreamedString),
            End(Aggregate::Array),
        ]
    );
    assert_eq!(input, b":1\r\n");
}

#[test]
fn no_byte_is_searched_twice() {
    let mut input = b"+".to_vec();
    input.resize(60_000, b'a');
    input.extend_from_slice(b"\r\n$50000\r\n");
    input.resize(110_000, b'b');
    SEARCHED.set(0);
    read_cut(ReplyLimits::default(), &input, 0..input.len());
    // Only a `\r` whose `\n` has not arrived yet is examined again.
    assert!(
        SEARCHED.get() <= 60_020,
        "searched {} bytes in lines of 60,010",
        SEARCHED.get()
    );
}

/// Parses the strings after an array's header with the fast path that bypasses events.
fn strings(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut parser = ReplyParser::new(ReplyLimits {
        max_bulk: 10,
        ..ReplyLimits::default()
    });
    let (mut rest, mut found) = (input, Vec::new());
    assert!(matches!(parser.next(&mut rest), Ok(Some(_))));
    let told = parser.strings(&mut rest, |bytes| {
        found.push(bytes);
        if bytes == b"no" { Err(()) } else { Ok(()) }
    });
    assert_eq!(told.is_err(), found.last() == Some(&&b"no"[..]));
    (found, rest)
}

#[test]
fn fast_path_parses_only_ordinary_short_strings() {
    let (found, rest) = strings(b"*4\r\n$1\r\na\r\n$0\r\n\r\n$10\r\n0123456789\r\n$1\r\nz\r\n");
    assert_eq!(found, [&b"a"[..], b"", b"0123456789"]);
    assert_eq!(rest, b"$1\r\nz\r\n", "the last ends the array as well");
    let (found, rest) = strings(b"%1\r\n$2\r\nno\r\n$1\r\nb\r\n");
    assert_eq!((found, rest), (vec![&b"no"[..]], &b"$1\r\nb\r\n"[..]));
    for special in [
        &b"$01\r\na\r\n"[..],
        b"$00\r\n\r\n",
        b"$-1\r\n",
        b"$\r\n\r\n",
        b"$1\r\naXY",
        b"$1\ra\r\n",
        b"$11\r\n01234567890\r\n",
        b"$1\r\na\r",
        b"$1\r\n",
        b"$1",
        b"+a\r\n",
        b"",
    ] {
        let input = [b"*2\r\n", special].concat();
        assert_eq!(
            strings(&input),
            (vec![], special),
            "{}",
            special.escape_ascii()
        );
        let input = [b"*?\r\n$1\r\na\r\n", special].concat();
        assert!(strings(&input).0.is_empty());
    }
    let mut parser = ReplyParser::default();
    let mut input = &b"*3\r\n?$1\r\na\r\n"[..];
    assert!(matches!(parser.next(&mut input), Ok(Some(_))));
    assert!(parser.next(&mut input).is_err());
    let mut input = &b"$1\r\na\r\n"[..];
    assert_eq!(parser.strings(&mut input, |_| Err(())), Ok(()));
}

#[test]
fn caller_can_take_a_string_itself() {
    let mut parser = ReplyParser::default();
    let mut input = &b"*2\r\n$3\r\nab"[..];
    assert_eq!(parser.begun_string(), None);
    parser.string_taken();
    assert!(matches!(
        parser.next(&mut input),
        Ok(Some(Event::Begin { .. }))
    ));
    assert_eq!(parser.next(&mut input), Ok(None));
    assert_eq!((parser.begun_string(), input), (Some(3), &b"ab"[..]));
    parser.string_taken();
    assert_eq!(parser.begun_string(), None);
    let mut input = &b":1\r\n"[..];
    assert_eq!(parser.next(&mut input), Ok(Some(Event::Integer(1))));
    assert_eq!(
        parser.next(&mut input),
        Ok(Some(Event::End(Aggregate::Array)))
    );
    assert!(parser.between_replies());
}
