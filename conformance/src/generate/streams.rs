//! Generates every stream command, with all of its options. Blocking commands wait for at most one
//! millisecond.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "streams",
    makers: &[
        (60, add),
        (6, add_many),
        (2, delete_at_the_end),
        (10, range),
        (4, length),
        (8, delete),
        (6, trim),
        (3, set_id),
        (10, read),
        (16, group),
        (24, read_group),
        (12, acknowledge),
        (10, pending),
        (8, claim),
        (8, claim_next),
        (8, info),
    ],
};

/// Returns one of a few keys, so that their streams grow, or occasionally any key.
fn key(g: &mut Generator) -> Vec<u8> {
    match g.below(20) {
        0 => g.key(),
        _ => g.pick(&["stream:1", "stream:2", "stream:3"]).into(),
    }
}

/// Returns an id, usually one that may exist.
fn id(g: &mut Generator) -> Vec<u8> {
    match g.below(40) {
        0 => g.odd(),
        1 => g
            .pick(&["-", "+", "5-", "-5", "1-*", "0-0", "abc-1"])
            .into(),
        2 => b"18446744073709551615-18446744073709551615".to_vec(),
        3..=8 => g.below(300).to_string().into(),
        _ => format!("{}-{}", g.below(300), g.below(4)).into(),
    }
}

fn end(g: &mut Generator) -> Vec<u8> {
    match g.below(8) {
        0..=2 => b"-".to_vec(),
        3..=5 => b"+".to_vec(),
        6 => [b"(".to_vec(), id(g)].concat(),
        _ => id(g),
    }
}

fn count(g: &mut Generator) -> Vec<u8> {
    match g.below(12) {
        0 => g.odd(),
        _ => g.pick(&["0", "1", "2", "3", "5", "10", "120"]).into(),
    }
}

/// Returns an idle time in milliseconds that is shorter or longer than the idle time of each
/// delivery in this run.
fn idle(g: &mut Generator) -> Vec<u8> {
    g.pick(&["0", "0", "0", "0", "100000000", "-1", "x"]).into()
}

fn name(g: &mut Generator) -> Vec<u8> {
    g.pick(&["group", "group", "second", "", "a group of a longer name"])
        .into()
}

fn consumer(g: &mut Generator) -> Vec<u8> {
    g.pick(&["one", "two", "a consumer of a longer name", ""])
        .into()
}

/// Adds texts of such sizes that a few texts fill a node of 4,096 bytes, or a single text nearly
/// fills one, regardless of the overhead of each text.
fn filling(g: &mut Generator, out: &mut Vec<Vec<u8>>) {
    let [most_pairs, most_bytes] = [1 << g.below(9), 8 << g.below(10)];
    let texts = 2 * (1 + g.below(most_pairs));
    let most = most_bytes / texts;
    for _ in 0..texts {
        out.push(match g.below(3) {
            0 => (i64::MAX >> (8 * g.below(8))).to_string().into(),
            1 => g.pick(&["", "", "a", "-1"]).into(),
            _ => vec![b'x'; g.below(most + 1)],
        });
    }
}

fn fields(g: &mut Generator, out: &mut Vec<Vec<u8>>) {
    if g.one_in(40) {
        return filling(g, out);
    }
    match g.below(10) {
        0 => {
            for _ in 0..g.pick(&[1, 2, 3, 7]) {
                out.extend([g.value(), g.value()]);
            }
        }
        1 => out.push(b"odd".to_vec()),
        2 | 3 => out.extend([b"number".to_vec(), g.integer()]),
        _ => {
            let user = format!("user:{}", 1000 + g.below(500)).into();
            let number = g.below(100_000).to_string().into();
            out.extend([b"user".to_vec(), user, b"number".to_vec(), number]);
        }
    }
}

fn trimming(g: &mut Generator, out: &mut Vec<Vec<u8>>) {
    let by_length = g.below(2) == 0;
    let option: &[u8] = if by_length { b"MAXLEN" } else { b"minid" };
    out.push(option.to_vec());
    let about = g.below(3) == 0;
    if about {
        out.push(b"~".to_vec());
    } else if g.below(3) == 0 {
        out.push(b"=".to_vec());
    }
    out.push(if by_length { count(g) } else { id(g) });
    if about && g.below(3) == 0 || g.one_in(20) {
        out.extend([b"LIMIT".to_vec(), count(g)]);
    }
}

fn add(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g)];
    if g.one_in(15) {
        args.push(b"NOMKSTREAM".to_vec());
    }
    if g.one_in(25) {
        trimming(g, &mut args);
    }
    args.push(match g.below(10) {
        0 => id(g),
        1..=3 => format!("{}-*", g.below(300)).into(),
        _ => format!("{}-{}", g.below(300), g.below(4)).into(),
    });
    fields(g, &mut args);
    out.push(command("XADD", args));
}

/// Adds enough entries to give a stream several leaves, sometimes after recreating it.
fn add_many(g: &mut Generator, out: &mut Vec<Command>) {
    let key = key(g);
    if g.below(2) == 0 {
        out.push(command("DEL", [key.clone()]));
    }
    for number in 0..g.pick(&[20, 90, 130, 250]) {
        let mut args = vec![key.clone(), format!("{}-{}", number, g.below(3) + 1).into()];
        fields(g, &mut args);
        out.push(command("XADD", args));
    }
}

/// Adds entries, deletes some at the end of a node, and trims near the end, where deleted entries
/// still count. No node becomes empty: after XSETID to an id before such a node's first id, Redis
/// stores entries out of order.
fn delete_at_the_end(g: &mut Generator, out: &mut Vec<Command>) {
    let key = key(g);
    out.push(command("DEL", [key.clone()]));
    let number = |number: usize| number.to_string().into_bytes();
    let entries = g.pick(&[2, 3, 101, 102, 205]);
    let add = |id: usize| command("XADD", [&key, &number(id)[..], b"f", b"v"]);
    out.extend((1..=entries).map(add));
    let mut last = entries;
    for _ in 0..=g.below(5) {
        // By default, a node has 100 entries.
        let end = g.pick(&[100, 200, last, last]).min(last);
        let near = |g: &mut Generator| (end + 1).saturating_sub(g.below(4));
        match g.below(4) {
            0 => {
                let more = g.pick(&[1, 2, 100]);
                out.extend((last + 1..=last + more).map(add));
                last += more;
            }
            1 => {
                let mut args = vec![key.clone()];
                trimming(g, &mut args);
                out.push(command("XTRIM", args));
            }
            _ => {
                let mut args = vec![key.clone()];
                args.extend((0..=g.below(3)).map(|_| number(near(g))));
                out.push(command("XDEL", args));
                let about = g.pick(&["~", "~", "="]).as_bytes();
                let least = number(near(g));
                out.push(command("XTRIM", [&key, &b"MINID"[..], about, &least]));
            }
        }
    }
    for most in [150, 50, 0] {
        let most = number(most);
        out.push(command("XTRIM", [&key, &b"MAXLEN"[..], b"~", &most]));
    }
    out.push(command("XTRIM", [&key, &b"MINID"[..], b"1000"]));
}

fn range(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g), end(g), end(g)];
    if g.below(2) == 0 {
        args.extend([b"COUNT".to_vec(), count(g)]);
    }
    out.push(command(g.pick(&["XRANGE", "XREVRANGE"]), args));
}

fn length(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("XLEN", [key(g)]));
}

fn delete(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g)];
    args.extend((0..=g.below(4)).map(|_| id(g)));
    out.push(command("XDEL", args));
}

fn trim(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g)];
    trimming(g, &mut args);
    out.push(command("XTRIM", args));
}

fn set_id(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g), id(g)];
    if g.below(2) == 0 {
        args.extend([b"ENTRIESADDED".to_vec(), count(g)]);
    }
    if g.below(3) == 0 {
        args.extend([b"MAXDELETEDID".to_vec(), id(g)]);
    }
    out.push(command("XSETID", args));
}

/// Adds keys, and one id for each key.
fn streams(g: &mut Generator, ids: &[&str], args: &mut Vec<Vec<u8>>) {
    if g.one_in(8) {
        args.extend([b"BLOCK".to_vec(), g.pick(&["1", "1", "-1", "x"]).into()]);
    }
    if g.below(2) == 0 {
        args.extend([b"COUNT".to_vec(), count(g)]);
    }
    args.push(b"STREAMS".to_vec());
    let keys = g.pick(&[1, 1, 2, 3]);
    args.extend((0..keys).map(|_| key(g)));
    for _ in 0..keys {
        args.push(match g.below(3) {
            0 => id(g),
            _ => g.pick(ids).into(),
        });
    }
}

fn read(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = Vec::new();
    streams(g, &["0", "$", "100"], &mut args);
    out.push(command("XREAD", args));
}

fn group(g: &mut Generator, out: &mut Vec<Command>) {
    let what: &str = g.pick(&[
        "CREATE",
        "CREATE",
        "CREATE",
        "CREATE",
        "SETID",
        "DESTROY",
        "CREATECONSUMER",
        "DELCONSUMER",
    ]);
    let mut args: Vec<Vec<u8>> = vec![what.into(), key(g), name(g)];
    if what.ends_with("CONSUMER") {
        args.push(consumer(g));
    } else if what != "DESTROY" {
        args.push(match g.below(3) {
            0 => id(g),
            _ => g.pick(&["0", "$"]).into(),
        });
        if what == "CREATE" && g.below(3) == 0 {
            args.push(b"MKSTREAM".to_vec());
        }
        if g.one_in(5) {
            args.extend([b"ENTRIESREAD".to_vec(), count(g)]);
        }
    }
    out.push(command("XGROUP", args));
}

fn read_group(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![b"GROUP".to_vec(), name(g), consumer(g)];
    if g.one_in(8) {
        args.push(b"NOACK".to_vec());
    }
    streams(g, &[">", ">", ">", "0"], &mut args);
    out.push(command("XREADGROUP", args));
}

fn acknowledge(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g), name(g)];
    args.extend((0..=g.below(5)).map(|_| id(g)));
    out.push(command("XACK", args));
}

fn pending(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g), name(g)];
    if g.below(3) > 0 {
        if g.below(3) == 0 {
            args.extend([b"IDLE".to_vec(), idle(g)]);
        }
        args.extend([end(g), end(g), count(g)]);
        if g.below(2) == 0 {
            args.push(consumer(g));
        }
    }
    out.push(command("XPENDING", args));
}

fn claim(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g), name(g), consumer(g), idle(g)];
    args.extend((0..=g.below(4)).map(|_| id(g)));
    for option in [
        "FORCE",
        "JUSTID",
        "IDLE",
        "TIME",
        "RETRYCOUNT",
        "LASTID",
        "NONE",
    ] {
        if !g.one_in(6) {
            continue;
        }
        args.push(option.into());
        match option {
            "IDLE" | "TIME" => args.push(b"0".to_vec()),
            "RETRYCOUNT" => args.push(count(g)),
            "LASTID" => args.push(id(g)),
            _ => {}
        }
    }
    out.push(command("XCLAIM", args));
}

fn claim_next(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g), name(g), consumer(g), idle(g), end(g)];
    if g.below(2) == 0 {
        args.extend([b"COUNT".to_vec(), count(g)]);
    }
    if g.below(3) == 0 {
        args.push(b"JUSTID".to_vec());
    }
    out.push(command("XAUTOCLAIM", args));
}

fn info(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![key(g)];
    let what: &str = g.pick(&["STREAM", "STREAM", "GROUPS", "CONSUMERS"]);
    match what {
        "STREAM" if g.below(2) == 0 => {
            args.push(b"FULL".to_vec());
            if g.below(2) == 0 {
                args.extend([b"COUNT".to_vec(), count(g)]);
            }
        }
        "CONSUMERS" => args.push(name(g)),
        _ => {}
    }
    args.insert(0, what.into());
    out.push(command("XINFO", args));
}
