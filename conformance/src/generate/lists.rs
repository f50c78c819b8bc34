//! Generates every list command that does not block, with all of its options.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "lists",
    makers: &[
        (40, push),
        (8, push_many),
        (8, pushx),
        (14, pop),
        (6, llen),
        (20, lrange),
        (12, lindex),
        (12, lset),
        (14, linsert),
        (10, lrem),
        (6, ltrim),
        (16, lpos),
        (12, lmove),
        (6, rpoplpush),
        (10, lmpop),
    ],
};

/// Returns an element from a small pool, so that searches find it, or occasionally any value.
fn element(g: &mut Generator) -> Vec<u8> {
    match g.below(12) {
        0 => g.value(),
        1 => g.integer(),
        2 => vec![b'e'; g.pick(&[0, 1, 100, 250, 511, 512, 513, 600])],
        3..=5 => format!("{}", 100_000_000_000_u64 + g.below(300) as u64).into(),
        _ => g
            .pick(&["a", "b", "c", "1", "2", "30", "twelve bytes"])
            .into(),
    }
}

fn side(g: &mut Generator) -> Vec<u8> {
    if g.one_in(30) {
        return g.pick(&["MIDDLE", "", "LEF"]).into();
    }
    g.pick(&["LEFT", "RIGHT", "left", "Right"]).into()
}

/// Returns a position, usually a small one, counted from either end.
fn place(g: &mut Generator) -> Vec<u8> {
    match g.below(20) {
        0 => g.odd(),
        1 => (g.below(4000) as i64 - 2000).to_string().into(),
        _ => (g.below(40) as i64 - 20).to_string().into(),
    }
}

fn push(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    let count = g.pick(&[1, 1, 1, 2, 3, 12]);
    args.extend((0..count).map(|_| element(g)));
    out.push(command(g.pick(&["LPUSH", "RPUSH"]), args));
}

/// Pushes enough elements to make a list outgrow its leaves.
fn push_many(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    let (kind, count) = (g.below(4), g.pick(&[60, 130, 400, 900]));
    for index in 0..count {
        args.push(match kind {
            0 => format!("item {:07}", g.below(1000)).into(),
            1 => (index * 7).to_string().into(),
            2 => vec![b'v'; g.below(40)],
            _ => element(g),
        });
    }
    out.push(command(g.pick(&["LPUSH", "RPUSH"]), args));
}

fn pushx(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), element(g)];
    if g.one_in(3) {
        args.push(element(g));
    }
    out.push(command(g.pick(&["LPUSHX", "RPUSHX"]), args));
}

fn pop(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(6) {
        0 => args.push(g.pick(&["0", "1", "5", "200", "100000"]).into()),
        1 => args.push(place(g)),
        _ => {}
    }
    if g.one_in(60) {
        args.push(place(g));
    }
    out.push(command(g.pick(&["LPOP", "RPOP"]), args));
}

fn llen(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("LLEN", [g.key()]));
}

fn lrange(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("LRANGE", [g.key(), place(g), place(g)]));
}

fn lindex(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("LINDEX", [g.key(), place(g)]));
}

fn lset(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("LSET", [g.key(), place(g), element(g)]));
}

fn linsert(g: &mut Generator, out: &mut Vec<Command>) {
    let side = g.pick(&["BEFORE", "AFTER", "before", "AFTER", "BEHIND"]);
    out.push(command(
        "LINSERT",
        [g.key(), side.into(), element(g), element(g)],
    ));
}

fn lrem(g: &mut Generator, out: &mut Vec<Command>) {
    let count = if g.one_in(12) {
        g.odd()
    } else {
        g.pick(&["0", "1", "2", "-1", "-2", "100"]).into()
    };
    out.push(command("LREM", [g.key(), count, element(g)]));
}

fn ltrim(g: &mut Generator, out: &mut Vec<Command>) {
    let range = match g.below(5) {
        0 => [place(g), place(g)],
        1 => [b"0".to_vec(), b"-1".to_vec()],
        2 => [g.pick(&["1", "7", "100", "500"]).into(), b"-1".to_vec()],
        3 => [b"0".to_vec(), g.pick(&["-2", "-9", "-120", "800"]).into()],
        _ => [g.pick(&["2", "40"]).into(), g.pick(&["-3", "300"]).into()],
    };
    let [start, stop] = range;
    out.push(command("LTRIM", [g.key(), start, stop]));
}

fn lpos(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), element(g)];
    for _ in 0..g.below(4) {
        let name = g.pick(&["RANK", "COUNT", "MAXLEN", "rank", "count", "NONE"]);
        args.push(name.into());
        if !g.one_in(30) {
            let odd = g.one_in(20);
            args.push(if odd {
                g.odd()
            } else {
                g.pick(&["0", "1", "2", "3", "-1", "-2", "10"]).into()
            });
        }
    }
    out.push(command("LPOS", args));
}

fn lmove(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("LMOVE", [g.key(), g.key(), side(g), side(g)]));
}

fn rpoplpush(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("RPOPLPUSH", [g.key(), g.key()]));
}

fn lmpop(g: &mut Generator, out: &mut Vec<Command>) {
    let keys = g.keys();
    let number = if g.one_in(12) {
        g.odd()
    } else {
        keys.len().to_string().into()
    };
    let mut args = vec![number];
    args.extend(keys);
    args.push(side(g));
    if g.one_in(2) {
        args.push(g.pick(&["COUNT", "count", "COUNTS"]).into());
        args.push(g.pick(&["1", "3", "50", "0", "-1", "x"]).into());
    }
    out.push(command("LMPOP", args));
}
