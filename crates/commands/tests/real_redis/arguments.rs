//! Compares error texts and the accepted forms of integers with those of a real server.

use undercroft_commands::arguments::{CommandError, TimeBase, TimeUnit, positive_deadline};
use undercroft_commands::reply::Tree;
use undercroft_numbers::parse_integer;

use crate::support::{RealServer, random};

#[test]
fn accepted_integer_spellings_equal_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    let mut integers = 0;
    for _ in 0..5_000 {
        let text = match random.u8(..4) {
            0 => (random.i64(..) >> random.u32(..64))
                .to_string()
                .into_bytes(),
            1 => (0..random.usize(..22))
                .map(|_| b"0123456789"[random.usize(..10)])
                .collect(),
            2 => (i128::from(i64::MIN) + i128::from(random.i8(..)))
                .to_string()
                .into_bytes(),
            _ => (0..random.usize(..4))
                .map(|_| b"019-+ .\0"[random.usize(..8)])
                .collect(),
        };
        client.call(&[b"SET", b"k", &text]);
        let expected = match parse_integer(&text) {
            Some(value) => Tree::Integer(value),
            None => Tree::Error(CommandError::NOT_AN_INTEGER.text().into()),
        };
        integers += u32::from(matches!(expected, Tree::Integer(_)));
        assert_eq!(
            client.words("INCRBY k 0"),
            expected,
            "{}",
            text.escape_ascii()
        );
    }
    assert!(integers > 1_000);
}

#[test]
fn unknown_command_errors_equal_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let long = "x".repeat(200);
    let cases: [&[&[u8]]; 7] = [
        &[b"FOO"],
        &[b"FOO", b"a", b"b"],
        &[b"fo\r\no", b"a\nb", b"c\0d", b""],
        &[long.as_bytes(), long.as_bytes(), b"unseen"],
        &[b"FOO", &[b'y'; 125], b"seen", b"unseen"],
        &[b"FOO", &[b'y'; 120], b"abcdefghi", b"unseen"],
        &[b"", b""],
    ];
    for arguments in cases {
        let expected = Tree::Error(CommandError::unknown_command(arguments).text().into());
        assert_eq!(client.call(arguments), expected, "{arguments:?}");
    }
    for name in ["FOO", "a\r\nb", &long] {
        let expected = CommandError::unknown_subcommand("client", name.as_bytes());
        assert_eq!(
            client.call(&[b"client", name.as_bytes()]),
            Tree::Error(expected.text().into()),
            "{name}"
        );
    }
    let expected = CommandError::subcommand_syntax("CLIENT", b"list")
        .text()
        .to_owned();
    assert_eq!(
        client.words("CLIENT list a b c d"),
        Tree::Error(CommandError::SYNTAX.text().into())
    );
    assert_eq!(
        client.words("SLOWLOG GET 1 2"),
        Tree::Error(expected.replace("CLIENT", "SLOWLOG").replace("list", "GET"))
    );
    assert_eq!(
        client.words("GET"),
        Tree::Error(CommandError::wrong_arity("get").text().into())
    );
    assert_eq!(
        client.words("CLIENT ID 1"),
        Tree::Error(CommandError::wrong_arity("client|id").text().into())
    );
}

#[test]
fn invalid_time_to_live_errors_equal_redis() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    // A fixed time close enough to the server's current time that a time to live overflows either
    // with both clocks or with neither.
    let now = 1_700_000_000_000;
    let mut refused = 0;
    for text in [
        "0",
        "-1",
        "1x",
        "9223372036854775807",
        "9223372036854775",
        "9223372036854776",
        "-9223372036854775808",
        "100",
    ] {
        for (option, unit, base) in [
            ("EX", TimeUnit::Seconds, TimeBase::Now),
            ("PX", TimeUnit::Milliseconds, TimeBase::Now),
            ("EXAT", TimeUnit::Seconds, TimeBase::Epoch),
            ("PXAT", TimeUnit::Milliseconds, TimeBase::Epoch),
        ] {
            let expected = match positive_deadline(text.as_bytes(), unit, base, now, "set") {
                Ok(_) => Tree::Simple("OK".into()),
                Err(error) => Tree::Error(error.text().into()),
            };
            refused += u32::from(expected != Tree::Simple("OK".into()));
            assert_eq!(
                client.words(&format!("SET k v {option} {text}")),
                expected,
                "{option} {text}"
            );
        }
    }
    assert!(refused > 10);
}
