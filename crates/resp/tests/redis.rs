//! Sends the same bytes to this crate and to a real `redis-server` 7.0, and compares the replies.
//!
//! If that version is not installed, prints a note and passes.

mod server;

use server::{Server, answers};
use std::fmt::Write as _;
use undercroft_numbers::double_text;
use undercroft_resp::{
    Aggregate, Event, Limits, NullForm, ReplyParser, ReplyReader, RequestParser, Value, Version,
    encode,
};

/// Returns the expected output of a Redis server that knows only PING, ECHO and AUTH.
fn expected(input: &[u8], password: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut limits = Limits {
        authenticated: password.is_none(),
        ..Limits::default()
    };
    let mut parser = RequestParser::new(limits);
    let mut rest = input;
    loop {
        match parser.parse(rest) {
            Ok(undercroft_resp::Parsed::Command(len)) => {
                let args: Vec<_> = parser.args(rest).iter().collect();
                if execute(&args, limits.authenticated, password, &mut out) {
                    limits.authenticated = true;
                }
                rest = &rest[len..];
                parser.set_limits(limits);
            }
            Ok(undercroft_resp::Parsed::Ignored(len)) => rest = &rest[len..],
            Ok(undercroft_resp::Parsed::Incomplete { .. }) => return out,
            Err(error) => {
                error.reply(&mut out);
                return out;
            }
        }
    }
}

/// Runs one command. Returns whether it authenticated the client.
fn execute(args: &[&[u8]], authenticated: bool, password: Option<&str>, out: &mut Vec<u8>) -> bool {
    let name = args[0].to_ascii_uppercase();
    match (name.as_slice(), args.len()) {
        (b"AUTH", 2) if password.is_some_and(|password| password.as_bytes() == args[1]) => {
            encode::simple(out, b"OK");
            return true;
        }
        (b"PING" | b"ECHO", _) if !authenticated => {
            encode::error(out, b"NOAUTH Authentication required.");
        }
        (b"PING", 1) => encode::simple(out, b"PONG"),
        (b"PING", 2) => encode::bulk(out, args[1]),
        (b"PING", _) => encode::error(out, b"ERR wrong number of arguments for 'ping' command"),
        (b"ECHO", 2) => encode::bulk(out, args[1]),
        (b"ECHO", _) => encode::error(out, b"ERR wrong number of arguments for 'echo' command"),
        _ => {
            // Redis prints the name and the arguments as C strings, which end at a NUL. It prints
            // at most 128 bytes of the name, and at most 128 bytes of all arguments together.
            let text = |arg: &[u8]| arg.split(|&byte| byte == 0).next().unwrap_or(b"").to_vec();
            let mut shown = Vec::new();
            for arg in &args[1..] {
                if shown.len() >= 128 {
                    break;
                }
                let mut arg = text(arg);
                arg.truncate(128 - shown.len());
                shown.push(b'\'');
                shown.extend_from_slice(&arg);
                shown.extend_from_slice(b"' ");
            }
            let mut name = text(args[0]);
            name.truncate(128);
            let mut message = b"ERR unknown command '".to_vec();
            message.extend_from_slice(&name);
            message.extend_from_slice(b"', with args beginning with: ");
            message.extend_from_slice(&shown);
            encode::error(out, &message);
        }
    }
    false
}

fn compare(server: &Server, input: &[u8], password: Option<&str>) {
    let expected = expected(input, password);
    let real = answers(server, input);
    assert_eq!(
        real.escape_ascii().to_string(),
        expected.escape_ascii().to_string(),
        "left: redis-server, right: this crate, on '{}'{}",
        input[..input.len().min(200)].escape_ascii(),
        if input.len() > 200 { "..." } else { "" },
    );
}

#[test]
fn protocol_errors_equal_those_of_redis() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let long = |prefix: &str, len: usize, byte: u8| {
        let mut bytes = prefix.as_bytes().to_vec();
        bytes.resize(prefix.len() + len, byte);
        bytes
    };
    let mut inputs: Vec<Vec<u8>> = [
        "*a\r\n",
        "*\r\n",
        "*01\r\n",
        "*00\r\n",
        "*-0\r\n",
        "*+1\r\n",
        "* 1\r\n",
        "*1 \r\n",
        "*1048576\r\n$x\r\n",
        "*1048577\r\n$x\r\n",
        "*2147483647\r\n$x\r\n",
        "*2147483648\r\n$x\r\n",
        "*9223372036854775808\r\n",
        "*-9223372036854775809\r\n",
        "*99999999999999999999999\r\n",
        "*1\r\n\r\n",
        "*1\r\n\n\r\n",
        "*1\r\nfoo\r\n",
        "*1\r\n*\r\n",
        "*1\r\nfoo",
        "*1\r\n:1\r\n",
        "*1\r\n$\r\n",
        "*1\r\n$a\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$-0\r\n",
        "*1\r\n$04\r\n",
        "*1\r\n$+4\r\n",
        "*1\r\n$536870912\r\n",
        "*1\r\n$536870913\r\n",
        "*1\r\n$9223372036854775807\r\n",
        "*1\r\n$0\r\n\r\nPING\r\n",
        "*1\rX$4\rYPINGabPING\r\n",
        "*1\r\n$4\r\nPINGPING\r\n\r\n",
        "*0\r\n*-1\r\n*-9\r\n\r\n\n \t\r\nPING\n",
        "*2\r\n$4\r\nECHO\r\n$6\r\na\r\nb\0c\r\n",
        "PING\0\r\nPING\r\n",
        "*1\0\r\n$4\r\nPING\r\n",
        "PING\r\r\nPING\r\n",
        "foo\rbar\r\n",
        "\r\r\nPING\r\n",
        "foo\x0b\x0cbar \x0b \"a\"\x0bb\r\n",
        "fo\"o b\" 'it\\'s \\n'\r\n",
        "\"PING\"x\r\n",
        "'PING'x\r\n",
        "\"PING\r\n",
        "'PING\r\n",
        "\"\\\r\n",
        "ECHO \"\\x41\\xfF\\xg1\\x4\\n\\r\\t\\b\\a\\q\\\\\\\"\"\n",
        "\"\" a\r\n",
        "ECHO ''\r\n",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    inputs.push(b"*1\r\n\xff\r\n".to_vec());
    for (prefix, byte) in [("", b'a'), ("*", b'1'), ("*1\r\n$", b'1'), ("*1\r\n", b'a')] {
        let line = 64 * 1024 - prefix.rsplit('\n').next().map_or(0, str::len);
        inputs.push(long(prefix, line, byte));
        inputs.push(long(prefix, line + 1, byte));
    }
    inputs.push(long("ECHO ", 60_000, b'a'));
    inputs.last_mut().expect("pushed").push(b'\n');
    for input in &inputs {
        compare(&server, input, None);
    }
    println!("{} inputs compared with redis-server", inputs.len());
}

#[test]
fn limits_before_authentication_equal_those_of_redis() {
    let password = "secret";
    let Some(server) = Server::start(&["--requirepass", password]) else {
        return;
    };
    for input in [
        "PING\r\n*10\r\n$16384\r\n",
        "*11\r\n",
        "*2147483648\r\n",
        "*1\r\n$16385\r\n",
        "*1\r\n$536870913\r\n",
        "AUTH secret\r\n*11\r\n$16385\r\n",
        "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\nPING\r\n*11\r\n$x\r\n",
    ] {
        compare(&server, input.as_bytes(), Some(password));
    }
}

/// A small random generator (xorshift64*). The seed alone is enough to repeat a run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn pick<'a>(&mut self, choices: &[&'a [u8]]) -> &'a [u8] {
        choices[self.below(choices.len())]
    }

    fn bits(&mut self) -> u64 {
        (0..4).fold(0, |bits, _| bits << 16 | self.below(1 << 16) as u64)
    }
}

/// Returns the seed of this run, taken from the environment or the clock, and prints it.
fn seed() -> u64 {
    let seed = match std::env::var("UNDERCROFT_SEED") {
        Ok(text) => text.parse().expect("UNDERCROFT_SEED is a number"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |time| time.as_nanos() as u64),
    };
    println!("UNDERCROFT_SEED={seed}");
    seed | 1
}

#[test]
fn random_requests_parse_as_in_redis() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let mut random = Random(seed());
    let fragments: [&[u8]; 34] = [
        b"*1\r\n$4\r\nPING\r\n",
        b"*2\r\n$4\r\nECHO\r\n",
        b"$3\r\nabc\r\n",
        b"$0\r\n\r\n",
        b"*1\r\n",
        b"*2\r\n",
        b"*3\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"$1\r\n",
        b"$2\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"*",
        b"$",
        b"-",
        b"0",
        b"1",
        b"PING",
        b"ECHO ",
        b"foo",
        b"\"",
        b"'",
        b"\\",
        b"\\x4",
        b"\\n",
        b" ",
        b"\t",
        b"\x0b",
        b"\xe9",
        b"PING\r\n",
        b"foo a 'b c' \"d\\n\"\r\n",
        b"\0",
    ];
    let mut answered = 0;
    for _ in 0..3000 {
        let mut input = Vec::new();
        for _ in 0..1 + random.below(9) {
            input.extend_from_slice(random.pick(&fragments));
        }
        if random.below(2) == 0 {
            input.extend_from_slice(b"\r\n");
        }
        compare(&server, &input, None);
        answered += usize::from(!expected(&input, None).is_empty());
    }
    println!("3000 random inputs compared, {answered} of them with an answer");
    assert!(answered > 1000, "the generator makes too little sense");
}

/// Sends commands through this crate's encoder, and reads the replies with this crate's reader.
fn call(server: &Server, commands: &[Vec<&[u8]>]) -> Vec<Value> {
    let mut input = Vec::new();
    for command in commands {
        encode::command(&mut input, command);
    }
    let answer = answers(server, &input);
    let mut rest = &answer[..];
    let mut reader = ReplyReader::default();
    let mut values = Vec::new();
    while let Some(value) = reader.read(&mut rest).expect("Redis speaks RESP") {
        values.push(value);
    }
    assert!(rest.is_empty(), "left over: {}", rest.escape_ascii());
    values
}

#[test]
fn doubles_print_as_in_redis() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let mut random = Random(seed());
    let mut scores = vec![
        0.0,
        1.0,
        -1.0,
        0.1,
        0.5,
        3.1,
        1e-4,
        1e-5,
        1.5e-5,
        1e16,
        1e17,
        123456789012345678.0,
        99999999999999984.0,
        1e21,
        1e300,
        5e-324,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1.0 / 3.0,
        2e15 + 0.5,
    ];
    while scores.len() < 3000 {
        let score = match random.below(3) {
            0 => f64::from_bits(random.bits()),
            1 => random.bits() as i64 as f64 / 10f64.powi(random.below(25) as i32),
            _ => random.below(1_000_000) as f64 / 1000.0,
        };
        if !score.is_nan() {
            scores.push(score);
        }
    }
    let texts: Vec<_> = scores.iter().map(|score| format!("{score:e}")).collect();
    for (version, hello) in [(Version::Resp2, b"2"), (Version::Resp3, b"3")] {
        let mut commands: Vec<Vec<&[u8]>> = vec![vec![b"HELLO", hello]];
        for text in &texts {
            commands.push(vec![b"ZADD", b"z", text.as_bytes(), b"m"]);
            commands.push(vec![b"ZSCORE", b"z", b"m"]);
        }
        let mut input = Vec::new();
        for command in &commands {
            encode::command(&mut input, command);
        }
        // Compare the raw bytes, because the exact text matters.
        let answer = answers(&server, &input);
        let mut rest = &answer[..];
        let mut reader = ReplyReader::default();
        reader.read(&mut rest).expect("RESP").expect("HELLO's map");
        for score in &scores {
            reader.read(&mut rest).expect("RESP").expect("ZADD's count");
            let mut text = Vec::new();
            encode::double(&mut text, version, *score);
            let real = &rest[..text.len().min(rest.len())];
            assert_eq!(
                real.escape_ascii().to_string(),
                text.escape_ascii().to_string(),
                "left: redis-server, right: this crate, for {score:e} ({:?})",
                double_text(*score)
            );
            rest = &rest[text.len()..];
        }
        assert!(rest.is_empty());
    }
    println!("{} doubles compared in RESP2 and RESP3", scores.len());
}

#[test]
fn replies_of_every_type_equal_those_of_redis() {
    let Some(server) = Server::start(&["--enable-debug-command", "yes"]) else {
        return;
    };
    let int = Value::Integer;
    let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
    let flag = |number, flag| (int(number), Value::Boolean(flag));
    let numbers = || vec![int(0), int(1), int(2)];
    let verbatim = b"This is a verbatim\nstring";
    let big = "1234567999999999999999999999999999999";
    let cases: Vec<(&str, Vec<Value>)> = vec![
        ("string", vec![bulk("Hello World")]),
        ("integer", vec![int(12345)]),
        ("double", vec![Value::Double(3141.0 / 1000.0)]),
        ("null", vec![Value::Null(NullForm::Resp3)]),
        ("array", vec![Value::Array(numbers())]),
        ("set", vec![Value::Set(numbers())]),
        (
            "map",
            vec![Value::Map(vec![
                flag(0, false),
                flag(1, true),
                flag(2, false),
            ])],
        ),
        (
            "attrib",
            vec![Value::Attributed(
                vec![(
                    bulk("key-popularity"),
                    Value::Array(vec![bulk("key:123"), int(90)]),
                )],
                Box::new(bulk("Some real reply following the attribute")),
            )],
        ),
        (
            "push",
            vec![
                Value::Push(vec![bulk("server-cpu-usage"), int(42)]),
                bulk("Some real reply following the push reply"),
            ],
        ),
        (
            "verbatim",
            vec![Value::Verbatim(*b"txt", verbatim.to_vec())],
        ),
        ("true", vec![Value::Boolean(true)]),
        ("false", vec![Value::Boolean(false)]),
        ("bignum", vec![Value::BigNumber(big.into())]),
    ];
    for (kind, values) in &cases {
        let debug = || vec![&b"DEBUG"[..], b"PROTOCOL", kind.as_bytes()];
        let read = call(&server, &[vec![b"HELLO", b"3"], debug()]);
        assert_eq!(&read[1..], values, "{kind}");
        for version in [Version::Resp2, Version::Resp3] {
            if version == Version::Resp2 && *kind == "push" {
                continue; // Redis rejects this value.
            }
            let mut input = Vec::new();
            let hello = if version == Version::Resp2 {
                b"2"
            } else {
                b"3"
            };
            encode::command(&mut input, &[&b"HELLO"[..], hello]);
            encode::command(&mut input, &debug());
            let mut written = Vec::new();
            for value in values {
                value.encode(&mut written, version);
            }
            let answer = answers(&server, &input);
            assert!(
                answer.ends_with(&written),
                "{kind} in {version:?}: '{}' should end '{}'",
                answer.escape_ascii(),
                written.escape_ascii()
            );
        }
    }
}

#[test]
fn real_map_reply_yields_events_in_order() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let answer = answers(&server, b"HELLO 3\r\n");
    let mut rest = &answer[..];
    let mut parser = ReplyParser::default();
    let mut shape = String::new();
    while let Some(event) = parser.next(&mut rest).expect("Redis speaks RESP") {
        match event {
            Event::Begin { kind, len } => {
                assert!(matches!(kind, Aggregate::Map | Aggregate::Array));
                let _ = write!(shape, "{kind:?}{}(", len.expect("counted"));
            }
            Event::End(_) => shape.push(')'),
            Event::Bulk(_) => shape.push('s'),
            Event::Integer(_) => shape.push('i'),
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(parser.between_replies());
    assert_eq!(shape, "Map7(sssssisisssssArray0())");
}
