//! Generates SORT and SORT_RO, with all of their options.
//!
//! Each value is created just before it is sorted. Only then can the generator know which order
//! Redis leaves undefined, and that SORT does not change the encoding of a sorted set.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "sort",
    makers: &[
        (8, weights),
        (20, sort_list),
        (10, sort_set),
        (8, sort_zset),
        (3, sort_other),
        (2, wrong),
    ],
};

/// Returns an element, usually a number, from a small pool, so that its weight exists.
fn element(g: &mut Generator, numbers: bool) -> Vec<u8> {
    match g.below(if numbers { 20 } else { 30 }) {
        0 => g
            .pick(&["1.5", "-3", "0x10", " 4", "1e2", "inf", "01"])
            .into(),
        1..20 => g.below(30).to_string().into(),
        20 => g.value(),
        _ => vec![g.pick(b"abcdefgh")],
    }
}

/// Creates the strings and hashes to which patterns refer.
fn weights(g: &mut Generator, out: &mut Vec<Command>) {
    for _ in 0..4 {
        let element = g.below(30).to_string();
        let number = g.below(10).to_string();
        let weight = match g.below(8) {
            0 => element_text(g),
            1 => format!("{number}\x00x"),
            _ => number,
        };
        let name = format!("w_{element}");
        out.push(match g.below(3) {
            0 => command("HSET", [format!("h_{element}"), "f".into(), weight]),
            1 if g.one_in(10) => command("DEL", [name]),
            _ => command("SET", [name, weight]),
        });
    }
}

fn element_text(g: &mut Generator) -> String {
    g.pick(&["ten", "", "1.5", "a", "ab", "nan"]).into()
}

/// Returns a pattern, usually one with an asterisk.
fn pattern(g: &mut Generator) -> Vec<u8> {
    match g.below(12) {
        0 => b"#".into(),
        1 => g.pick(&["nosort", "w_", "->", "*->", "#*", "h_*->"]).into(),
        2 => b"h_*->g".into(),
        3 => b"w_*->f".into(),
        4..8 => b"h_*->f".into(),
        _ => b"w_*".into(),
    }
}

/// Adds options that do not make the order ambiguous: LIMIT, GET, ASC and DESC.
fn options(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    while g.one_in(3) {
        args.push(b"GET".into());
        args.push(pattern(g));
    }
    if g.one_in(3) {
        let number = |g: &mut Generator| match g.below(12) {
            0 => g.odd(),
            1 => b"-2".into(),
            _ => g.below(12).to_string().into_bytes(),
        };
        args.push(b"LIMIT".into());
        args.extend([number(g), number(g)]);
    }
    if g.one_in(2) {
        args.push(g.pick(&["ASC", "DESC", "desc"]).into());
    }
}

/// Appends the command, optionally with STORE.
fn finish(g: &mut Generator, mut args: Vec<Vec<u8>>, out: &mut Vec<Command>) {
    // Read a score first: Redis' SORT fails if any earlier command contained an out-of-range number
    // and no command has read a score since.
    out.push(command("ZADD", ["no such set", "XX", "1", "x"]));
    match g.below(6) {
        0 | 1 => {
            args.push(b"STORE".into());
            args.push(g.key());
            out.push(command("SORT", args));
        }
        2 => out.push(command("SORT_RO", args)),
        _ => out.push(command("SORT", args)),
    }
}

fn sort_list(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let numbers = !g.one_in(3);
    let length = if g.one_in(8) { 150 } else { 12 };
    let mut args = vec![key.clone()];
    for _ in 0..g.below(length) {
        args.push(element(g, numbers));
    }
    out.push(command("DEL", [key.clone()]));
    if args.len() > 1 {
        out.push(command("RPUSH", args));
    }
    let mut args = vec![key];
    if !numbers || g.one_in(3) {
        args.push(b"ALPHA".into());
    }
    if g.one_in(2) {
        args.push(b"BY".into());
        args.push(pattern(g));
    }
    options(g, &mut args);
    finish(g, args, out);
}

/// Generates SORT on a set. The order is defined if all elements are compared, or if the members
/// are integers.
fn sort_set(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let integers = g.one_in(2);
    let mut args = vec![key.clone()];
    for _ in 0..1 + g.below(12) {
        args.push(if integers {
            g.below(30).to_string().into()
        } else {
            element(g, false)
        });
    }
    out.push(command("DEL", [key.clone()]));
    out.push(command("SADD", args));
    let mut args = vec![key];
    match g.below(4) {
        0 if integers => args.extend([b"BY".to_vec(), b"nosort".to_vec()]),
        1 => args.extend([b"BY".to_vec(), b"w_*".to_vec()]),
        _ => args.push(b"ALPHA".into()),
    }
    options(g, &mut args);
    finish(g, args, out);
}

fn sort_zset(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    // Include one member that is too long for Redis' compact sorted sets.
    let mut args = vec![key.clone(), b"1".to_vec(), vec![b'l'; 70]];
    for _ in 0..g.below(12) {
        args.push(g.below(20).to_string().into());
        args.push(element(g, false));
    }
    out.push(command("DEL", [key.clone()]));
    out.push(command("ZADD", args));
    let mut args = vec![key];
    match g.below(3) {
        0 => args.extend([b"BY".to_vec(), b"nosort".to_vec()]),
        1 => args.extend([b"BY".to_vec(), b"h_*->f".to_vec()]),
        _ => args.push(b"ALPHA".into()),
    }
    options(g, &mut args);
    finish(g, args, out);
}

/// Generates SORT on a missing key, or on a value that cannot be sorted.
fn sort_other(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    out.push(command("DEL", [key.clone()]));
    match g.below(3) {
        0 => out.push(command("SET", [key.clone(), b"3".to_vec()])),
        1 => out.push(command("HSET", [key.clone(), b"1".to_vec(), b"2".to_vec()])),
        _ => {}
    }
    let mut args = vec![key];
    options(g, &mut args);
    finish(g, args, out);
}

/// Generates SORT with invalid options.
fn wrong(g: &mut Generator, out: &mut Vec<Command>) {
    let key = b"no such list".to_vec();
    let options: &[&str] = g.pick(&[
        &["LIMIT", "1"][..],
        &["LIMIT", "a", "1"],
        &["LIMIT", "1", "a", "x"],
        &["GET"],
        &["BY"],
        &["STORE"],
        &["ASC", "x"],
        &["BY", "w_*", "GET", "#", "DESC", "ALPHA", "SCORES"],
    ]);
    let args = std::iter::once(key).chain(options.iter().map(|option| option.as_bytes().to_vec()));
    let name = g.pick(&["SORT", "SORT_RO"]);
    out.push(command(name, args));
    out.push(command("SORT_RO", ["a", "STORE", "b"]));
}
