//! Generates HyperLogLog commands, on sparse and dense values, intact and damaged.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "hyperloglog",
    makers: &[
        (40, pfadd),
        (6, pfadd_many),
        (20, pfcount),
        (12, pfmerge),
        (6, pfdebug),
        (3, damaged),
        (6, range),
    ],
};

/// Returns a key, usually one that only ever contains HyperLogLogs, because every command fails on
/// other strings.
fn key(g: &mut Generator) -> Vec<u8> {
    if g.one_in(8) {
        return g.key();
    }
    own_key(g)
}

/// Returns a key that no other family damages. If Redis detects damage while adding several
/// elements, the elements before it have already been added.
fn own_key(g: &mut Generator) -> Vec<u8> {
    g.pick(&["h1", "h2", "h3", "h4"]).into()
}

fn keys(g: &mut Generator) -> Vec<Vec<u8>> {
    (0..g.below(4) + 1).map(|_| key(g)).collect()
}

fn pfadd(g: &mut Generator, out: &mut Vec<Command>) {
    let (mut args, most) = if g.one_in(8) {
        (vec![g.key()], 2)
    } else {
        (vec![own_key(g)], 12)
    };
    for _ in 0..g.below(most) {
        args.push(if g.one_in(4) {
            g.value()
        } else {
            g.below(100_000).to_string().into()
        });
    }
    out.push(command("PFADD", args));
}

/// Adds enough elements to make a sparse value dense.
fn pfadd_many(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![own_key(g)];
    let start = g.below(1_000_000);
    args.extend((start..start + g.pick(&[50, 200, 700])).map(|n| n.to_string().into()));
    out.push(command("PFADD", args));
}

fn pfcount(g: &mut Generator, out: &mut Vec<Command>) {
    let args = if g.one_in(2) { vec![key(g)] } else { keys(g) };
    out.push(command("PFCOUNT", args));
}

fn pfmerge(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("PFMERGE", keys(g)));
}

fn pfdebug(g: &mut Generator, out: &mut Vec<Command>) {
    let what = g.pick(&[
        "ENCODING", "DECODE", "DECODE", "TODENSE", "GETREG", "encoding", "SIZE",
    ]);
    out.push(command("PFDEBUG", [what.into(), key(g)]));
}

/// Stores a sparse value with missing runs, long enough to be a raw string from the start, and then
/// counts and deletes it.
fn damaged(g: &mut Generator, out: &mut Vec<Command>) {
    let mut value = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
    value.extend((0..g.below(60) + 30).map(|_| g.below(256) as u8));
    let name = key(g);
    out.push(command("SET", [name.clone(), value]));
    out.push(command("PFCOUNT", [name.clone()]));
    out.push(command("PFADD", [name.clone(), g.value()]));
    out.push(command("PFDEBUG", ["TODENSE".into(), name.clone()]));
    out.push(command("PFMERGE", [key(g), name.clone()]));
    out.push(command("DEL", [name]));
}

/// Reads the stored bytes, which must be equal on both servers.
fn range(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command(g.pick(&["GET", "DUMP", "STRLEN"]), [key(g)]));
}
