//! Lists the fuzz targets, one function for each kind of input from outside the process.

use crate::{calls, files, journal, json, libraries, packs, payload, store, structs, tls};
use undercroft_resp::{Limits, Parsed, ProtocolError, RequestParser, encode};

/// A fuzz target: a function under test and the parameters of its inputs.
#[derive(Debug)]
pub struct Target {
    /// The name of the target and of its seed directory.
    pub name: &'static str,
    /// Pieces from which the random driver builds inputs.
    pub tokens: &'static [&'static [u8]],
    /// The cost of an input, as a multiple of the cost for the cheapest target. The random driver
    /// generates proportionally fewer inputs for a costly target.
    pub cost: u64,
    /// The function under test. It must return for every input, and panics only if the tested code
    /// is wrong.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "request",
        tokens: &[
            b"\r\n", b"\n", b"*", b"$", b"$-1\r\n", b"*-1\r\n", b"\"", b"'", b"\\x", b" ",
        ],
        cost: 1,
        run: request,
    },
    Target {
        name: "store",
        tokens: store::TOKENS,
        cost: 100,
        run: store::open_and_use,
    },
    Target {
        name: "journal",
        tokens: journal::TOKENS,
        cost: 100,
        run: journal::recover,
    },
    Target {
        name: "restore",
        tokens: payload::TOKENS,
        cost: 10,
        run: payload::restore,
    },
    Target {
        name: "rdb",
        tokens: files::RDB_TOKENS,
        cost: 50,
        run: files::load_and_save,
    },
    Target {
        name: "aof",
        tokens: files::AOF_TOKENS,
        cost: 5,
        run: files::replay,
    },
    Target {
        name: "cjson",
        tokens: json::TOKENS,
        cost: 10,
        run: json::decode_and_encode,
    },
    Target {
        name: "cmsgpack",
        tokens: packs::TOKENS,
        cost: 10,
        run: packs::unpack_and_pack,
    },
    Target {
        name: "struct",
        tokens: structs::TOKENS,
        cost: 10,
        run: structs::unpack_and_pack,
    },
    Target {
        name: "functions",
        tokens: libraries::TOKENS,
        cost: 50,
        run: libraries::restore_and_dump,
    },
    Target {
        name: "calls",
        tokens: calls::TOKENS,
        cost: 200,
        run: calls::call,
    },
    Target {
        name: "tls",
        tokens: tls::TOKENS,
        cost: 10,
        run: tls::receive,
    },
];

/// The commands in a stream of bytes, and the error that ended the stream, if any.
#[derive(Debug, PartialEq)]
struct Stream {
    commands: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
}

/// Fuzzes client requests: the parsed commands must not depend on how the bytes are split, and a
/// command that is encoded again must parse to the same command.
fn request(input: &[u8]) {
    for authenticated in [true, false] {
        let limits = Limits {
            authenticated,
            ..Limits::default()
        };
        let whole = receive(input, limits, input.len());
        assert_eq!(whole, receive(input, limits, 1), "one byte at a time");
        assert_eq!(whole, receive(input, limits, 7), "seven bytes at a time");

        let mut again = Vec::new();
        for command in &whole.commands {
            encode::command(&mut again, command);
        }
        let again = receive(&again, Limits::default(), again.len());
        assert_eq!(again.error, None, "reading commands written out again");
        assert_eq!(whole.commands, again.commands, "written out again");
    }
}

/// Parses `input` as if it arrived in pieces of `piece` bytes.
fn receive(input: &[u8], limits: Limits, piece: usize) -> Stream {
    let mut parser = RequestParser::new(limits);
    let mut commands = Vec::new();
    let (mut start, mut end) = (0, piece.min(input.len()));
    loop {
        let received = &input[start..end];
        let parsed = match parser.parse(received) {
            Ok(parsed) => parsed,
            Err(error) => {
                assert_eq!(parser.parse(received), Err(error), "after an error");
                let error = Some(error);
                return Stream { commands, error };
            }
        };
        // Announcing the length of an argument must not allocate memory before bytes of the
        // argument arrive.
        let held = parser.allocated();
        assert!(
            held <= 1024 + 64 * input.len(),
            "{held} bytes for {}",
            input.len()
        );
        match parsed {
            Parsed::Command(length) => {
                let arguments = parser.args(received);
                assert!(!arguments.is_empty(), "a command has a name");
                commands.push(arguments.iter().map(<[u8]>::to_vec).collect());
                start += consumed(length, received);
            }
            Parsed::Ignored(length) => start += consumed(length, received),
            Parsed::Incomplete { wanted } => {
                assert!(wanted > 0, "more input is wanted, but none of it");
                if end == input.len() {
                    let error = None;
                    return Stream { commands, error };
                }
                end = (end + piece).min(input.len());
            }
        }
    }
}

fn consumed(length: usize, received: &[u8]) -> usize {
    assert!(length > 0, "nothing consumed: the stream would never end");
    assert!(
        length <= received.len(),
        "{length} bytes of {}",
        received.len()
    );
    length
}
