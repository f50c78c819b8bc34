//! Generates every string command of Redis 7.0, with all of its options.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "strings",
    makers: &[
        (60, set),
        (6, set_in_the_past),
        (40, get),
        (16, getex),
        (8, getdel),
        (10, getset),
        (10, setnx),
        (10, setex),
        (12, mget),
        (12, mset),
        (8, msetnx),
        (24, append),
        (12, strlen),
        (24, getrange),
        (16, setrange),
        (30, incr),
        (24, incrby),
        (24, incrbyfloat),
        (8, lcs),
    ],
};

/// Adds `EX`, `PX`, `EXAT` or `PXAT` with a time beyond the end of the run, or an invalid time.
fn expiry_option(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    let (name, time) = match g.below(5) {
        0 => ("EX", g.seconds().to_string()),
        1 => ("PX", (g.seconds() * 1000).to_string()),
        2 => ("EXAT", g.future_instant().to_string()),
        3 => ("PXAT", (g.future_instant() * 1000).to_string()),
        _ => (g.pick(&["EX", "PX", "EXAT", "PXAT", "ex"]), String::new()),
    };
    args.push(name.into());
    if time.is_empty() {
        args.push(g.odd());
    } else {
        args.push(time.into());
    }
}

fn set(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), g.value()];
    if g.one_in(4) {
        expiry_option(g, &mut args);
    }
    if g.one_in(5) {
        args.push(g.pick(&["NX", "XX", "nx"]).into());
    }
    if g.one_in(8) {
        args.push("GET".into());
    }
    if g.one_in(10) {
        args.push("KEEPTTL".into());
    }
    if g.one_in(40) {
        args.push(g.pick(&["NX", "XX", "GET", "PERSIST", "bogus"]).into());
    }
    if args.len() > 3 && g.one_in(6) {
        args[2..].reverse();
    }
    out.push(command("SET", args));
}

/// Sets a key that has already expired. Redis stores it until the next access, so the key is read
/// immediately to make the outcome equal on both servers.
fn set_in_the_past(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let (name, time) = if g.one_in(2) {
        ("EXAT", g.past_instant())
    } else {
        ("PXAT", g.past_instant() * 1000)
    };
    out.push(command(
        "SET",
        [key.clone(), g.value(), name.into(), time.to_string().into()],
    ));
    out.push(command(g.pick(&["GET", "EXISTS", "TTL", "TYPE"]), [key]));
}

fn get(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("GET", [g.key()]));
}

fn getex(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(8) {
        0 | 1 => {}
        2 | 3 => args.push("PERSIST".into()),
        4 => args.extend(["EXAT".into(), g.past_instant().to_string().into()]),
        5 => args.extend(["PERSIST".into(), "KEEPTTL".into()]),
        _ => expiry_option(g, &mut args),
    }
    out.push(command("GETEX", args));
}

fn getdel(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("GETDEL", [g.key()]));
}

fn getset(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("GETSET", [g.key(), g.value()]));
}

fn setnx(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SETNX", [g.key(), g.value()]));
}

fn setex(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let (name, time) = match g.below(5) {
        0 | 1 => ("SETEX", g.seconds().to_string().into()),
        2 | 3 => ("PSETEX", (g.seconds() * 1000).to_string().into()),
        _ => (g.pick(&["SETEX", "PSETEX"]), g.odd()),
    };
    out.push(command(name, [key, time, g.value()]));
}

fn mget(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("MGET", g.keys()));
}

fn pairs(g: &mut Generator) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    for key in g.keys() {
        args.push(key);
        args.push(g.value());
    }
    if g.one_in(20) {
        args.pop();
    }
    args
}

fn mset(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("MSET", pairs(g)));
}

fn msetnx(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("MSETNX", pairs(g)));
}

fn append(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("APPEND", [g.key(), g.value()]));
}

fn strlen(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("STRLEN", [g.key()]));
}

fn getrange(g: &mut Generator, out: &mut Vec<Command>) {
    let name = g.pick(&["GETRANGE", "GETRANGE", "SUBSTR"]);
    out.push(command(name, [g.key(), g.position(), g.position()]));
}

fn setrange(g: &mut Generator, out: &mut Vec<Command>) {
    // Avoid large offsets below 512 MiB, which are valid but slow.
    let offset = match g.below(24) {
        0 => "536870912".to_owned(),
        1 => "9223372036854775807".to_owned(),
        2 => "-1".to_owned(),
        3 => "60000".to_owned(),
        4 => "x".to_owned(),
        _ => g.below(80).to_string(),
    };
    out.push(command("SETRANGE", [g.key(), offset.into(), g.value()]));
}

fn incr(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command(g.pick(&["INCR", "DECR"]), [g.key()]));
}

fn incrby(g: &mut Generator, out: &mut Vec<Command>) {
    let by = if g.one_in(8) { g.odd() } else { g.integer() };
    out.push(command(g.pick(&["INCRBY", "DECRBY"]), [g.key(), by]));
}

fn incrbyfloat(g: &mut Generator, out: &mut Vec<Command>) {
    let by = if g.one_in(4) { g.integer() } else { g.float() };
    out.push(command("INCRBYFLOAT", [g.key(), by]));
}

fn lcs(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), g.key()];
    for option in ["LEN", "IDX", "WITHMATCHLEN"] {
        if g.one_in(3) {
            args.push(option.into());
        }
    }
    if g.one_in(3) {
        args.push("MINMATCHLEN".into());
        args.push(if g.one_in(6) {
            g.odd()
        } else {
            g.below(6).to_string().into()
        });
    }
    out.push(command("LCS", args));
}
