//! Generates every set command of Redis 7.0, with all of its options.

use super::hashes::walk;
use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "sets",
    makers: &[
        (40, sadd),
        (16, srem),
        (12, sismember),
        (6, smismember),
        (8, scard),
        (12, smembers),
        (10, spop),
        (10, srandmember),
        (10, smove),
        (8, sinter),
        (8, sunion),
        (8, sdiff),
        (6, sinterstore),
        (6, sunionstore),
        (6, sdiffstore),
        (10, sintercard),
        (10, sscan),
        (2, many),
    ],
};

/// Returns a member from the pool, usually an integer, so that some sets contain only integers.
fn member(g: &mut Generator) -> Vec<u8> {
    match g.below(24) {
        0 => Vec::new(),
        1 => format!("member:{}", g.below(12)).into(),
        2 => g.integer(),
        3 if g.one_in(3) => g.value(),
        4 => g.pick(&["01", "+1", "-0", " 1", "1.0"]).into(),
        _ => g.below(16).to_string().into(),
    }
}

fn members(g: &mut Generator) -> Vec<Vec<u8>> {
    let mut args = vec![g.key()];
    for _ in 0..=g.below(4) {
        args.push(member(g));
    }
    args
}

fn sadd(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SADD", members(g)));
}

fn srem(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SREM", members(g)));
}

fn sismember(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SISMEMBER", [g.key(), member(g)]));
}

fn smismember(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SMISMEMBER", members(g)));
}

fn scard(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SCARD", [g.key()]));
}

fn smembers(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SMEMBERS", [g.key()]));
}

/// Generates SPOP calls that leave equal sets on both servers despite the random choice. They are
/// paired with other commands, so that the generator does not corrupt them into calls whose outcome
/// is random.
fn spop(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(8) {
        // From a set with one member, SPOP has no choice.
        0..=2 => {
            out.push(command("DEL", [args[0].clone()]));
            out.push(command("SADD", [args[0].clone(), member(g)]));
        }
        3 => args.push(g.pick(&["-1", "x", "9223372036854775808", ""]).into()),
        4 => args.push(b"0".to_vec()),
        5 => args.extend([b"1".to_vec(), b"1".to_vec()]),
        _ => args.push(b"1000000".to_vec()),
    }
    let left = command("SCARD", [args[0].clone()]);
    out.push(command("SPOP", args));
    out.push(left);
}

/// Generates SRANDMEMBER, which returns a defined number of random members.
fn srandmember(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(8) {
        0 => {}
        1 => args.push(g.pick(&["x", "", "9223372036854775808", "1.0"]).into()),
        2 => args.extend([b"1".to_vec(), b"1".to_vec()]),
        _ => args.push((g.below(30) as i64 - 10).to_string().into()),
    }
    out.push(command("SRANDMEMBER", args));
}

fn smove(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SMOVE", [g.key(), g.key(), member(g)]));
}

fn sinter(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SINTER", g.keys()));
}

fn sunion(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SUNION", g.keys()));
}

fn sdiff(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SDIFF", g.keys()));
}

fn with_destination(g: &mut Generator) -> Vec<Vec<u8>> {
    let mut args = vec![g.key()];
    args.extend(g.keys());
    args
}

fn sinterstore(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SINTERSTORE", with_destination(g)));
}

fn sunionstore(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SUNIONSTORE", with_destination(g)));
}

fn sdiffstore(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SDIFFSTORE", with_destination(g)));
}

fn sintercard(g: &mut Generator, out: &mut Vec<Command>) {
    let keys = g.keys();
    let number = match g.below(12) {
        0 => g.odd(),
        1 => (keys.len() + 1).to_string().into(),
        2 => (keys.len() - 1).to_string().into(),
        _ => keys.len().to_string().into(),
    };
    let mut args = vec![number];
    args.extend(keys);
    if g.one_in(2) {
        args.push(g.pick(&["LIMIT", "limit", "COUNT"]).into());
        args.push(g.pick(&["0", "1", "2", "5", "-1", "x"]).into());
    }
    if g.one_in(20) {
        args.push(b"LIMIT".to_vec());
    }
    out.push(command("SINTERCARD", args));
}

fn sscan(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SSCAN", walk(g)));
}

/// Generates a set that grows past the number of integers at which Redis changes its encoding, and
/// then shrinks again.
fn many(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let count = g.pick(&[511, 512, 513, 600]);
    let numbers: Vec<Vec<u8>> = (1000..1000 + count)
        .map(|number: u32| number.to_string().into())
        .collect();
    let with_key = |members: &[Vec<u8>]| [std::slice::from_ref(&key), members].concat();
    out.push(command("SADD", with_key(&numbers)));
    out.push(command("OBJECT", [b"ENCODING".to_vec(), key.clone()]));
    out.push(command("SREM", with_key(&numbers[g.below(3)..])));
}
