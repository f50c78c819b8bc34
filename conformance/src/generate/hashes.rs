//! Generates every hash command of Redis 7.0, with all of its options.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "hashes",
    makers: &[
        (30, hset),
        (8, hsetnx),
        (6, hmset),
        (16, hget),
        (8, hmget),
        (12, hgetall),
        (16, hdel),
        (6, hexists),
        (8, hlen),
        (5, hkeys),
        (5, hvals),
        (6, hstrlen),
        (12, hincrby),
        (10, hincrbyfloat),
        (10, hrandfield),
        (10, hscan),
        (2, many),
    ],
};

/// Returns a field from a small pool, so that commands use the same fields. Some are around 64
/// bytes long, the length at which Redis changes its encoding.
fn field(g: &mut Generator) -> Vec<u8> {
    match g.below(40) {
        0 => Vec::new(),
        1 => vec![b'f'; 64],
        2 if g.one_in(8) => vec![b'f'; 65],
        3 => b"\x00\xff\r\n".to_vec(),
        4..=9 => g.below(12).to_string().into(),
        _ => format!("field:{}", g.below(12)).into(),
    }
}

/// Returns a value, usually a short one, so that hashes remain small.
fn value(g: &mut Generator) -> Vec<u8> {
    match g.below(16) {
        0 if g.one_in(6) => g.value(),
        1 => vec![b'v'; g.pick(&[1, 44, 63, 64])],
        2..=5 => g.integer(),
        6 => g.float(),
        _ => (0..g.below(12)).map(|_| g.pick(b"abc ")).collect(),
    }
}

fn pairs(g: &mut Generator) -> Vec<Vec<u8>> {
    let mut args = vec![g.key()];
    for _ in 0..=g.below(3) {
        args.push(field(g));
        args.push(value(g));
    }
    if g.one_in(30) {
        args.pop();
    }
    args
}

fn fields(g: &mut Generator) -> Vec<Vec<u8>> {
    let mut args = vec![g.key()];
    for _ in 0..=g.below(3) {
        args.push(field(g));
    }
    args
}

fn hset(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HSET", pairs(g)));
}

fn hmset(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HMSET", pairs(g)));
}

fn hsetnx(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HSETNX", [g.key(), field(g), value(g)]));
}

fn hget(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HGET", [g.key(), field(g)]));
}

fn hmget(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HMGET", fields(g)));
}

fn hgetall(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HGETALL", [g.key()]));
}

fn hdel(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HDEL", fields(g)));
}

fn hexists(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HEXISTS", [g.key(), field(g)]));
}

fn hlen(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HLEN", [g.key()]));
}

fn hkeys(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HKEYS", [g.key()]));
}

fn hvals(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HVALS", [g.key()]));
}

fn hstrlen(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HSTRLEN", [g.key(), field(g)]));
}

fn hincrby(g: &mut Generator, out: &mut Vec<Command>) {
    let change = if g.one_in(10) { g.odd() } else { g.integer() };
    out.push(command("HINCRBY", [g.key(), field(g), change]));
}

fn hincrbyfloat(g: &mut Generator, out: &mut Vec<Command>) {
    let change = if g.one_in(10) { g.odd() } else { g.float() };
    out.push(command("HINCRBYFLOAT", [g.key(), field(g), change]));
}

/// Generates HRANDFIELD, which returns a defined number of random fields.
fn hrandfield(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(8) {
        0 => {}
        1 => args.push(g.odd()),
        _ => args.push((g.below(30) as i64 - 10).to_string().into()),
    }
    if args.len() == 2 && (args[1].len() > 4 || args[1] == b"inf") {
        // Avoid negative counts that make the servers return quintillions of fields.
        args[1] = b"9223372036854775808".to_vec();
    }
    if args.len() == 2 && g.one_in(2) {
        args.push(g.pick(&["WITHVALUES", "withvalues", "VALUES"]).into());
    }
    out.push(command("HRANDFIELD", args));
}

fn hscan(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("HSCAN", walk(g)));
}

/// Returns the arguments of a scan: a key, the cursor 0 and options.
pub(super) fn walk(g: &mut Generator) -> Vec<Vec<u8>> {
    let cursor = if g.one_in(20) { g.odd() } else { b"0".to_vec() };
    let mut args = vec![g.key(), cursor];
    if g.one_in(2) {
        // Request all items in one call, because the number of items per call differs between
        // servers.
        args.extend(["COUNT".into(), "100000".into()]);
    } else if g.one_in(20) {
        args.extend(["COUNT".into(), g.pick(&["0", "-1", "x"]).into()]);
    }
    if g.one_in(3) {
        let pattern = g.pick(&["*", "field:1*", "?", "[0-5]", "*:[^1]", "nothing"]);
        args.extend(["MATCH".into(), pattern.into()]);
    }
    if g.one_in(30) {
        args.push(g.pick(&["TYPE", "MATCH", "COUNT"]).into());
    }
    args
}

/// Generates a hash that grows past the number of fields at which Redis changes its encoding, and
/// then shrinks again.
fn many(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let count = g.pick(&[511, 512, 513, 600]);
    let numbers = 0..count;
    let mut args = vec![key.clone()];
    for number in numbers.clone() {
        args.extend([format!("many:{number}").into(), b"v".to_vec()]);
    }
    out.push(command("HSET", args));
    out.push(command("OBJECT", [b"ENCODING".to_vec(), key.clone()]));
    let mut args = vec![key];
    args.extend(
        numbers
            .skip(g.below(3))
            .map(|number| format!("many:{number}").into()),
    );
    out.push(command("HDEL", args));
}
