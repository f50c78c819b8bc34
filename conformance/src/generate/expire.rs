//! Generates commands that set, read and remove the expiry times of keys.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "expire",
    makers: &[
        (40, expire),
        (10, expire_in_the_past),
        (24, time_to_live),
        (10, persist),
    ],
};

fn conditions(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    if g.one_in(2) {
        args.push(g.pick(&["NX", "XX", "GT", "LT", "gt"]).into());
    }
    if g.one_in(15) {
        args.push(g.pick(&["NX", "XX", "GT", "LT", "KEEP"]).into());
    }
}

fn expire(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let (name, time) = match g.below(9) {
        0 | 1 => ("EXPIRE", g.seconds().to_string().into()),
        2 | 3 => ("PEXPIRE", (g.seconds() * 1000).to_string().into()),
        4 | 5 => ("EXPIREAT", g.future_instant().to_string().into()),
        6 | 7 => ("PEXPIREAT", (g.future_instant() * 1000).to_string().into()),
        _ => (
            g.pick(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]),
            g.odd(),
        ),
    };
    let mut args = vec![key, time];
    conditions(g, &mut args);
    out.push(command(name, args));
}

fn expire_in_the_past(g: &mut Generator, out: &mut Vec<Command>) {
    let (name, time) = match g.below(4) {
        0 => ("EXPIRE", format!("-{}", g.seconds())),
        1 => ("PEXPIRE", format!("-{}", g.seconds())),
        2 => ("EXPIREAT", g.past_instant().to_string()),
        _ => ("PEXPIREAT", g.past_instant().to_string()),
    };
    let mut args = vec![g.key(), time.into()];
    conditions(g, &mut args);
    out.push(command(name, args));
}

fn time_to_live(g: &mut Generator, out: &mut Vec<Command>) {
    let name = g.pick(&["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]);
    out.push(command(name, [g.key()]));
}

fn persist(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("PERSIST", [g.key()]));
}
