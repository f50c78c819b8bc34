//! Fuzzes FUNCTION RESTORE payloads. The libraries of an accepted payload are dumped, and restoring
//! the dump must yield the same libraries. A refused payload must change nothing.

use undercroft_commands::reply::Tree;

use crate::lua::{check, run, shortened};
use crate::payload::sealed;

/// Pieces of inputs: starts and ends of libraries, functions and flags, and wrong lengths.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"\xf5",
    b"\xf6",
    b"\xff",
    b"\xfa",
    b"\x40\x80",
    b"\xc3",
    b"\x80\xff\xff\xff\xff",
    b"#!lua name=",
    b"#!lua",
    b"\n",
    b"name=",
    b"redis.register_function('f', function() return 1 end)",
    b"redis.register_function{",
    b"function_name=",
    b"callback=",
    b"flags={'no-writes'}",
    b"flags={'allow-oom'",
    b"local function f() end ",
    b"error('x')",
    b"end",
    b"--",
    b"}",
    b"redis.call('get', 'k')",
    b"_G.x = 1",
];

fn list() -> Tree {
    run(&[b"FUNCTION", b"LIST", b"WITHCODE"])
}

fn is_ok(reply: &Tree) -> bool {
    *reply == Tree::Simple("OK".into())
}

fn restore(payload: &[u8]) -> bool {
    match run(&[b"FUNCTION", b"RESTORE", payload]) {
        reply if is_ok(&reply) => true,
        Tree::Error(_) => false,
        reply => panic!("{reply:?}"),
    }
}

fn dump() -> Vec<u8> {
    match run(&[b"FUNCTION", b"DUMP"]) {
        Tree::Bulk(payload) => payload,
        reply => panic!("{reply:?}"),
    }
}

/// Restores the input as libraries, after appending a version and a checksum.
pub(crate) fn restore_and_dump(input: &[u8]) {
    assert!(is_ok(&run(&[b"FUNCTION", b"FLUSH"])));
    let is_accepted = restore(&sealed(shortened(input)));
    let listed = list();
    if !is_accepted {
        assert_eq!(listed, Tree::Array(Vec::new()), "what was refused");
        return;
    }
    let dumped = dump();
    assert!(
        !restore(&dumped) || listed == Tree::Array(Vec::new()),
        "a name twice"
    );
    assert_eq!(list(), listed, "what was refused");
    assert!(is_ok(&run(&[b"FUNCTION", b"FLUSH"])));
    assert!(restore(&dumped), "what was dumped is accepted");
    assert_eq!(list(), listed, "dumped and restored");
    assert_eq!(dump(), dumped, "dumped anew");
    check();
}
