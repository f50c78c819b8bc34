//! Property tests with random input: encoded values can be read back, fragmentation does not
//! matter, nothing panics, and memory usage is bounded.
//!
//! On failure, proptest prints the shrunk input and the seed with which to repeat the run.

use proptest::collection::vec;
use proptest::prelude::*;
use undercroft_resp::{
    Event, Limits, NullForm, Parsed, ProtocolError, ReplyError, ReplyLimits, ReplyParser,
    ReplyReader, RequestParser, Span, Value, Version, encode, split_args,
};

type Commands = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>, usize);
type Replies = (Vec<Value>, Option<ReplyError>, usize);

/// Parses `input` in fragments that end at `cuts`, which must be ascending. Returns the commands,
/// the error, and the number of bytes consumed.
fn commands(input: &[u8], cuts: &[usize]) -> Commands {
    let mut parser = RequestParser::new(Limits::default());
    let mut found = Vec::new();
    let mut start = 0;
    for &cut in cuts.iter().chain([&input.len()]) {
        loop {
            let pending = &input[start..cut];
            match parser.parse(pending) {
                Ok(Parsed::Command(len)) => {
                    let args = parser.args(pending);
                    found.push(args.iter().map(<[u8]>::to_vec).collect());
                    start += len;
                }
                Ok(Parsed::Ignored(len)) => start += len,
                Ok(Parsed::Incomplete { .. }) => break,
                Err(error) => return (found, Some(error), start),
            }
            // An argument occupies at least four bytes and a span 16 bytes, and a growing list's
            // capacity is up to twice its length.
            assert!(parser.allocated() <= 4096 + 16 * input.len());
        }
    }
    (found, None, start)
}

/// Reads `input` in fragments that end at `cuts`. Returns the replies, the error, and the number of
/// bytes consumed.
fn replies(input: &[u8], cuts: &[usize]) -> Replies {
    let limits = ReplyLimits {
        max_bulk: 100,
        max_line: 100,
        max_elements: 100,
        max_depth: 5,
    };
    let mut reader = ReplyReader::new(limits);
    let mut found = Vec::new();
    let mut start = 0;
    for &cut in cuts.iter().chain([&input.len()]) {
        let mut rest = &input[start..cut];
        loop {
            match reader.read(&mut rest) {
                Ok(Some(value)) => found.push(value),
                Ok(None) => break,
                Err(error) => return (found, Some(error), cut - rest.len()),
            }
        }
        start = cut - rest.len();
    }
    (found, None, start)
}

/// Lists the events that [`ReplyParser`] returns for `input` in two fragments. If `short` is true,
/// strings are also consumed through the two fast paths that bypass events.
fn told(input: &[u8], cut: usize, short: bool) -> (Vec<String>, Option<ReplyError>) {
    let limits = ReplyLimits {
        max_bulk: 100,
        max_line: 100,
        max_elements: 100,
        max_depth: 5,
    };
    let mut parser = ReplyParser::new(limits);
    let mut found = Vec::new();
    let mut start = 0;
    for cut in [cut, input.len()] {
        let mut rest = &input[start..cut];
        loop {
            if short {
                let told = parser.strings(&mut rest, |bytes| {
                    found.push(format!("{:?}", Event::Bulk(bytes)));
                    Ok::<_, ()>(())
                });
                assert_eq!(told, Ok(()));
            }
            match parser.next(&mut rest) {
                Ok(Some(event)) => found.push(format!("{event:?}")),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        start = cut - rest.len();
        // If the fragment ends within a string, take the string from the complete input if its end
        // is there.
        if short && let Some(len) = parser.begun_string() {
            let string = &input[start..];
            if string.get(len..len + 2) == Some(b"\r\n") {
                found.push(format!("{:?}", Event::Bulk(&string[..len])));
                parser.string_taken();
                start += len + 2;
            }
        }
    }
    (found, None)
}

/// Generates valid protocol fragments mixed with noise. The beginning of the result is often valid.
fn protocol_like() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![
        6 => (0i64..5).prop_map(|n| n.to_string()),
        1 => (-3i64..70_000).prop_map(|n| n.to_string()),
        1 => any::<i64>().prop_map(|n| n.to_string()),
        1 => "[0-9?+-]{0,3}",
    ];
    let line_end = prop_oneof![12 => Just("\r\n"), 1 => Just("\n"), 1 => Just("\r"), 1 => Just("")];
    let fragment = prop_oneof![
        6 => ("[*$:+,#(!=%~>|;_.-]", number, line_end)
            .prop_map(|(kind, number, end)| format!("{kind}{number}{end}").into_bytes()),
        3 => vec(any::<u8>(), 0..4),
        2 => "[a-c'\" \\\\x]{0,6}\n".prop_map(String::into_bytes),
        1 => "(a|bb|ccc|txt:d)\r\n".prop_map(String::into_bytes),
        1 => Just(b"*2\r\n$1\r\na\r\n$3\r\nccc\r\n".to_vec()),
        1 => Just(b"%1\r\n+a\r\n*?\r\n:1\r\n.\r\n".to_vec()),
        1 => Just(b"$?\r\n;1\r\na\r\n;0\r\n#t\r\n".to_vec()),
    ];
    vec(fragment, 0..12).prop_map(|fragments| fragments.concat())
}

/// Generates any value that RESP3 can represent and that reads back unchanged.
fn any_value() -> impl Strategy<Value = Value> {
    let bytes = || vec(any::<u8>(), 0..20);
    let line = || {
        vec(any::<u8>(), 0..20).prop_map(|mut text| {
            text.retain(|byte| !matches!(byte, b'\r' | b'\n'));
            text
        })
    };
    let leaf = prop_oneof![
        line().prop_map(Value::Simple),
        line().prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        bytes().prop_map(Value::Bulk),
        Just(Value::Null(NullForm::Resp3)),
        any::<f64>()
            .prop_filter("a NaN equals nothing", |value| !value.is_nan())
            .prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        "-?[0-9]{1,40}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
        bytes().prop_map(Value::BulkError),
        (any::<[u8; 3]>(), bytes()).prop_map(|(format, text)| Value::Verbatim(format, text)),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let pairs = || vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec(inner.clone(), 0..4).prop_map(Value::Set),
            pairs().prop_map(Value::Map),
            // An attribute describes a value, never another attribute.
            (pairs(), inner.clone()).prop_map(|(attributes, value)| match value {
                Value::Attributed(..) => value,
                value => Value::Attributed(attributes, Box::new(value)),
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn commands_read_back(
        sent in vec(vec(vec(any::<u8>(), 0..40), 1..6), 1..5),
        mut cuts in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut input = Vec::new();
        for args in &sent {
            encode::command(&mut input, args);
        }
        let mut cuts: Vec<_> = cuts.drain(..).map(|cut| cut.index(input.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(commands(&input, &cuts), (sent, None, input.len()));
    }

    #[test]
    fn fast_paths_agree_with_events(
        input in protocol_like(),
        values in vec(any_value(), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut whole = Vec::new();
        for value in &values {
            value.encode(&mut whole, Version::Resp3);
        }
        whole.extend_from_slice(&input);
        let cut = cut.index(whole.len() + 1);
        prop_assert_eq!(told(&whole, cut, true), told(&whole, cut, false));
    }

    #[test]
    fn quoted_words_read_back(words in vec(vec(any::<u8>(), 0..10), 0..5), single in any::<bool>()) {
        let mut line = Vec::new();
        for word in &words {
            let quote = if single { b'\'' } else { b'"' };
            line.push(quote);
            for &byte in word {
                match byte {
                    b'\'' if single => line.extend_from_slice(b"\\'"),
                    // Single quotes have no escape for a backslash, so replace backslashes: none
                    // may precede a quote.
                    b'\\' if single => line.push(b'/'),
                    _ if single => line.push(byte),
                    b'a'..=b'z' => line.push(byte),
                    _ => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                }
            }
            line.extend_from_slice(&[quote, b' ']);
        }
        let (mut text, mut spans) = (Vec::new(), Vec::new());
        prop_assert_eq!(split_args(&line, &mut text, &mut spans), Ok(()));
        let read: Vec<_> = spans.iter().map(|span: &Span| text[span.range()].to_vec()).collect();
        let mut sent = words;
        if single {
            for byte in sent.iter_mut().flatten().filter(|byte| **byte == b'\\') {
                *byte = b'/';
            }
        }
        prop_assert_eq!(read, sent);
    }

    #[test]
    fn fragmentation_does_not_change_requests(input in protocol_like()) {
        let whole = commands(&input, &[]);
        let every: Vec<_> = (0..input.len()).collect();
        prop_assert_eq!(&commands(&input, &every), &whole);
        for cut in every {
            prop_assert_eq!(&commands(&input, &[cut]), &whole, "cut at {}", cut);
        }
    }

    #[test]
    fn fragmentation_does_not_change_replies(input in protocol_like()) {
        let whole = format!("{:?}", replies(&input, &[]));
        let every: Vec<_> = (0..input.len()).collect();
        // Compare the results as text, because a NaN does not equal itself.
        prop_assert_eq!(format!("{:?}", replies(&input, &every)), whole.clone());
        for cut in every {
            prop_assert_eq!(format!("{:?}", replies(&input, &[cut])), whole.clone(), "cut at {}", cut);
        }
    }

    #[test]
    fn replies_read_back(value in any_value(), push in any::<bool>()) {
        let value = if push { Value::Push(vec![value]) } else { value };
        let mut input = Vec::new();
        value.encode(&mut input, Version::Resp3);
        let mut reader = ReplyReader::default();
        let mut rest = &input[..];
        prop_assert_eq!(reader.read(&mut rest), Ok(Some(value.clone())));
        prop_assert!(rest.is_empty());

        // RESP2 carries less information, but the result must be complete and survive a second
        // round trip.
        let mut input = Vec::new();
        value.encode(&mut input, Version::Resp2);
        let mut rest = &input[..];
        let plain = reader.read(&mut rest).expect("valid").expect("whole");
        prop_assert!(rest.is_empty());
        let mut again = Vec::new();
        plain.encode(&mut again, Version::Resp2);
        prop_assert_eq!(again, input);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(input in vec(any::<u8>(), 0..200)) {
        commands(&input, &[]);
        replies(&input, &[]);
    }
}
