//! Unit tests for the request parser: accepted forms, errors, and the amount of work for fragmented
//! input.

use super::*;
use std::cell::Cell;

thread_local! {
    /// The number of bytes that parsers on this thread have searched for line ends.
    pub(super) static SEARCHED: Cell<usize> = const { Cell::new(0) };
}

type Commands = Vec<Vec<Vec<u8>>>;

/// Parses `input` in fragments that end at `cuts`. Returns all commands, and the error that ended
/// parsing.
fn parse_cut(
    limits: Limits,
    input: &[u8],
    cuts: impl Iterator<Item = usize>,
) -> (Commands, Option<ProtocolError>) {
    let mut parser = RequestParser::new(limits);
    let mut commands = Vec::new();
    let mut start = 0;
    for cut in cuts.chain([input.len()]) {
        loop {
            let pending = &input[start..cut];
            match parser.parse(pending) {
                Ok(Parsed::Command(len)) => {
                    let args: Vec<_> = parser.args(pending).iter().map(<[u8]>::to_vec).collect();
                    assert!(!args.is_empty());
                    commands.push(args);
                    start += len;
                }
                Ok(Parsed::Ignored(len)) => start += len,
                Ok(Parsed::Incomplete { wanted }) => {
                    assert!(wanted > 0);
                    break;
                }
                Err(error) => {
                    assert_eq!(parser.parse(pending), Err(error), "an error must last");
                    return (commands, Some(error));
                }
            }
        }
    }
    (commands, None)
}

/// Parses `input` in one piece, byte by byte, and cut once at every position. All results must be
/// equal.
fn parse_every_way(limits: Limits, input: &[u8]) -> (Commands, Option<ProtocolError>) {
    let whole = parse_cut(limits, input, std::iter::empty());
    assert_eq!(parse_cut(limits, input, 0..input.len()), whole, "by bytes");
    if input.len() < 1000 {
        for cut in 0..input.len() {
            let torn = parse_cut(limits, input, std::iter::once(cut));
            assert_eq!(torn, whole, "cut at {cut}: {}", input.escape_ascii());
        }
    }
    whole
}

#[test]
fn both_forms_of_commands_parse() {
    type Case = (&'static [u8], &'static [&'static [&'static [u8]]]);
    let cases: [Case; 9] = [
        (b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]]),
        (b"PING\r\nPING\n", &[&[b"PING"], &[b"PING"]]),
        (
            b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nGET j\r\n",
            &[&[b"GET", b"k"], &[b"GET", b"j"]],
        ),
        (b"\r\n\n  \r\n*0\r\n*-1\r\n*-999\r\nPING\r\n", &[&[b"PING"]]),
        (b"*1\r\n$0\r\n\r\n\"\"\n", &[&[b""], &[b""]]),
        (b"*2\r\n$2\r\n\r\n\r\n$1\r\n$\r\n", &[&[b"\r\n", b"$"]]),
        // Redis ignores the byte after `\r`, and the two bytes after an argument.
        (b"*1\rX$4\rYPINGab", &[&[b"PING"]]),
        (b"PING\0\r\nPING\r\n", &[]),
        (b"*1\r\nfoo", &[]),
    ];
    for (input, expected) in cases {
        let expected: Commands = expected
            .iter()
            .map(|args| args.iter().map(|arg| arg.to_vec()).collect())
            .collect();
        let found = parse_every_way(Limits::default(), input);
        assert_eq!(found, (expected, None), "{}", input.escape_ascii());
    }
}

#[test]
fn malformed_requests_are_rejected() {
    use ProtocolError::*;
    let long = |prefix: &[u8], len: usize| {
        let mut bytes = prefix.to_vec();
        bytes.resize(len, b'1');
        bytes
    };
    let cases: Vec<(Vec<u8>, Option<ProtocolError>)> = vec![
        (b"*a\r\n".to_vec(), Some(InvalidMultibulkLength)),
        (b"*\r\n".to_vec(), Some(InvalidMultibulkLength)),
        (b"*01\r\n".to_vec(), Some(InvalidMultibulkLength)),
        (b"*00\r\n".to_vec(), Some(InvalidMultibulkLength)),
        (b"*+1\r\n".to_vec(), Some(InvalidMultibulkLength)),
        (b"*2147483648\r\n".to_vec(), Some(InvalidMultibulkLength)),
        (b"*2147483647\r\n".to_vec(), None),
        (b"*1\r\n\r\n".to_vec(), Some(ExpectedDollar(b'\r'))),
        (b"*1\r\nfoo\r\n".to_vec(), Some(ExpectedDollar(b'f'))),
        (b"*1\r\n$-1\r\n".to_vec(), Some(InvalidBulkLength)),
        (b"*1\r\n$\r\n".to_vec(), Some(InvalidBulkLength)),
        (b"*1\r\n$01\r\n".to_vec(), Some(InvalidBulkLength)),
        (b"*1\r\n$536870913\r\n".to_vec(), Some(InvalidBulkLength)),
        (b"*1\r\n$536870912\r\n".to_vec(), None),
        (b"\"PING\"x\r\n".to_vec(), Some(UnbalancedQuotes)),
        (b"'PING\r\n".to_vec(), Some(UnbalancedQuotes)),
        (long(b"a", 65536), None),
        (long(b"a", 65537), Some(TooBigInlineRequest)),
        (long(b"*", 65536), None),
        (long(b"*", 65537), Some(TooBigMultibulkCount)),
        (long(b"*1\r\n$", 4 + 65536), None),
        (long(b"*1\r\n$", 4 + 65537), Some(TooBigBulkCount)),
    ];
    for (input, error) in cases {
        let found = parse_every_way(Limits::default(), &input);
        let head = &input[..input.len().min(40)];
        assert_eq!(found, (vec![], error), "{}", head.escape_ascii());
    }
}

#[test]
fn limits_apply_before_authentication() {
    let limits = Limits {
        authenticated: false,
        ..Limits::default()
    };
    for (input, error) in [
        (&b"*10\r\n$16384\r\n"[..], None),
        (
            b"*11\r\n",
            Some(ProtocolError::UnauthenticatedMultibulkLength),
        ),
        (
            b"*1\r\n$16385\r\n",
            Some(ProtocolError::UnauthenticatedBulkLength),
        ),
        (
            b"*1\r\n$536870913\r\n",
            Some(ProtocolError::InvalidBulkLength),
        ),
    ] {
        assert_eq!(parse_every_way(limits, input), (vec![], error));
    }
}

#[test]
fn limits_can_change_between_commands() {
    let mut parser = RequestParser::new(Limits {
        authenticated: false,
        ..Limits::default()
    });
    assert_eq!(parser.parse(b"PING\r\n"), Ok(Parsed::Command(6)));
    parser.set_limits(Limits {
        max_bulk: usize::MAX,
        ..Limits::default()
    });
    let wanted = isize::MAX as usize / 2;
    let input = format!("*11\r\n${wanted}\r\n");
    assert_eq!(
        parser.parse(input.as_bytes()),
        Ok(Parsed::Incomplete { wanted: wanted + 2 })
    );
}

#[test]
fn wanted_counts_down_to_the_end_of_an_argument() {
    let mut parser = RequestParser::default();
    let mut input = b"*1\r\n$100000\r\n".to_vec();
    for arrived in 0..100_002 {
        assert_eq!(
            parser.parse(&input),
            Ok(Parsed::Incomplete {
                wanted: 100_002 - arrived
            })
        );
        input.push(b'x');
    }
    assert_eq!(parser.parse(&input), Ok(Parsed::Command(input.len())));
    assert_eq!(parser.args(&input)[0].len(), 100_000);
}

#[test]
fn no_byte_is_searched_twice() {
    let mut input = vec![b'a'; 60_000];
    input.push(b'\n');
    input.extend_from_slice(b"*1\r\n$99999999\r");
    SEARCHED.set(0);
    parse_cut(Limits::default(), &input, 0..input.len());
    // Only a final `\r`, which needs one more byte, is examined twice.
    assert!(
        SEARCHED.get() <= input.len() + 8,
        "searched {} bytes of {}",
        SEARCHED.get(),
        input.len()
    );
}

#[test]
fn steady_state_allocates_nothing_and_a_peak_is_freed() {
    let mut parser = RequestParser::default();
    let mut command = Vec::new();
    crate::encode::command(&mut command, &["SET", "key", "value"]);
    parser.parse(&command).expect("valid");
    parser.parse(b"SET key value\n").expect("valid");
    let settled = parser.allocated();
    for _ in 0..1000 {
        parser.parse(&command).expect("valid");
        parser.parse(b"SET key value\n").expect("valid");
    }
    assert_eq!(parser.allocated(), settled);

    let mut huge = Vec::new();
    crate::encode::command(&mut huge, &vec!["a"; 500_000]);
    parser.parse(&huge).expect("valid");
    assert!(parser.allocated() >= 500_000 * size_of::<Span>());
    parser.parse(&command).expect("valid");
    assert!(parser.allocated() <= (KEPT_SPANS + 1) * size_of::<Span>());

    // An announced count alone must not reserve memory.
    let mut parser = RequestParser::default();
    parser.parse(b"*2147483647\r\n").expect("valid");
    assert_eq!(parser.allocated(), 0);
}

#[test]
fn fast_path_parses_lengths_like_the_slow_path() {
    let tails = ["\rX", "\r", "", "x\r\n", "\n\n"];
    let numbers = (0..2000).chain([9_999_999, 10_000_000, 10_000_001]);
    for number in numbers {
        for lead in ["$", "$0", "$-", "*", ""] {
            for tail in tails {
                let line = format!("ab{lead}{number}{tail}");
                let expected = (lead == "$" && tail == "\rX" && number < 10_000_000)
                    .then_some((number, line.len()));
                let found = short_length(line.as_bytes(), 2, b'$');
                assert_eq!(found, expected, "{line:?}");
            }
        }
    }
}

#[test]
fn arguments_print_as_text() {
    let mut parser = RequestParser::default();
    let input = b"SET k \"\\xff\"\n";
    parser.parse(input).expect("valid");
    assert_eq!(
        format!("{:?}", parser.args(input)),
        r#"["SET", "k", "\\xff"]"#
    );
}
