//! Generates blocking commands with timeouts of at most one millisecond, and pushes that serve
//! them.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "blocking",
    makers: &[
        (4, push),
        (3, add),
        (3, pop),
        (4, move_item),
        (2, pop_many),
        (2, pop_scored),
        (2, pop_many_scored),
    ],
};

/// Returns a timeout, usually a short one and sometimes an invalid one, which makes the command
/// fail. The timeout is never 0, which means no limit.
fn timeout(g: &mut Generator) -> Vec<u8> {
    let timeouts: [&[u8]; 12] = [
        b"0.001", b"0.001", b"0.001", b"1e-3", b"0.0005", b"0x1p-10", b"-1", b"abc", b"", b"inf",
        b"nan", b"1e30",
    ];
    g.pick(&timeouts).to_vec()
}

fn side(g: &mut Generator) -> &'static str {
    g.pick(&["LEFT", "RIGHT", "left", "RIGHT", "MIDDLE"])
}

fn push(g: &mut Generator, out: &mut Vec<Command>) {
    let name: &str = g.pick(&["LPUSH", "RPUSH"]);
    let mut args = vec![g.key()];
    for _ in 0..=g.below(3) {
        args.push(g.value());
    }
    out.push(command(name, args));
}

fn add(g: &mut Generator, out: &mut Vec<Command>) {
    let args = [
        g.key(),
        b"1.5".to_vec(),
        g.value(),
        b"-2".to_vec(),
        g.value(),
    ];
    out.push(command("ZADD", args));
}

fn pop(g: &mut Generator, out: &mut Vec<Command>) {
    let name: &str = g.pick(&["BLPOP", "BRPOP"]);
    with_keys(g, name, out);
}

fn pop_scored(g: &mut Generator, out: &mut Vec<Command>) {
    let name: &str = g.pick(&["BZPOPMIN", "BZPOPMAX"]);
    with_keys(g, name, out);
}

fn with_keys(g: &mut Generator, name: &str, out: &mut Vec<Command>) {
    let mut args = g.keys();
    args.push(timeout(g));
    out.push(command(name, args));
}

fn move_item(g: &mut Generator, out: &mut Vec<Command>) {
    let (from, to) = (g.key(), g.key());
    if g.one_in(2) {
        let args = [from, to, timeout(g)];
        out.push(command("BRPOPLPUSH", args));
        return;
    }
    let (one, other) = (side(g).into(), side(g).into());
    let args = [from, to, one, other, timeout(g)];
    out.push(command("BLMOVE", args));
}

fn pop_many(g: &mut Generator, out: &mut Vec<Command>) {
    let place = side(g);
    many(g, "BLMPOP", place, out);
}

fn pop_many_scored(g: &mut Generator, out: &mut Vec<Command>) {
    let place = g.pick(&["MIN", "MAX", "min", "MIDDLE"]);
    many(g, "BZMPOP", place, out);
}

fn many(g: &mut Generator, name: &str, place: &str, out: &mut Vec<Command>) {
    let keys = g.keys();
    let number = match g.below(12) {
        0 => g.odd(),
        1 => b"0".to_vec(),
        _ => keys.len().to_string().into_bytes(),
    };
    let mut args = vec![timeout(g), number];
    args.extend(keys);
    args.push(place.into());
    if g.one_in(2) {
        args.push(b"COUNT".to_vec());
        let counts: [&[u8]; 5] = [b"1", b"2", b"10", b"0", b"-1"];
        args.push(g.pick(&counts).to_vec());
    }
    out.push(command(name, args));
}
