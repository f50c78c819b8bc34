//! Generates transactions of random commands, some of them invalid, with and without watched keys
//! that another client changes.

use super::{
    Family, Generator, bitmaps, command, expire, geo, hashes, hyperloglog, keys, lists, scripting,
    sets, sorted, strings,
};
use crate::command::Command;
use crate::differential::SECOND;

pub(super) const FAMILY: Family = Family {
    name: "transactions",
    makers: &[
        (20, transaction),
        (12, watched),
        (2, stray),
        (1, unwatch),
        (1, across_databases),
    ],
};

/// The families from which transactions draw their commands.
const QUEUED: [Family; 11] = [
    strings::FAMILY,
    keys::FAMILY,
    expire::FAMILY,
    bitmaps::FAMILY,
    lists::FAMILY,
    hashes::FAMILY,
    sets::FAMILY,
    sorted::FAMILY,
    geo::FAMILY,
    hyperloglog::FAMILY,
    scripting::LOCKS_FAMILY,
];

/// Generates one command from the families in `QUEUED`, occasionally an invalid one.
fn any(g: &mut Generator, out: &mut Vec<Command>) {
    loop {
        let makers = g.pick(&QUEUED).makers;
        let (_, make) = makers[g.below(makers.len())];
        let mut made = Vec::new();
        make(g, &mut made);
        if let [only] = made.as_mut_slice() {
            g.spoil(only);
        }
        // Skip iterations, because only a complete iteration has a defined result.
        if !made.iter().any(|command| command.word(0).ends_with("SCAN")) {
            out.append(&mut made);
            return;
        }
    }
}

fn end(g: &mut Generator, out: &mut Vec<Command>) {
    let name = if g.one_in(10) { "DISCARD" } else { "EXEC" };
    out.push(Command::of([name]));
}

fn queue(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(Command::of(["MULTI"]));
    let length = g.pick(&[0, 1, 1, 2, 3, 4, 6, 9, 30]);
    for _ in 0..length {
        if g.one_in(25) {
            out.push(Command::of(
                g.pick(&[
                    &["MULTI"][..],
                    &["PING", "a", "b"],
                    &["UNWATCH"],
                    &["SELECT", "1"],
                    &["SELECT", "nosuch"],
                    &["ECHO", "x"],
                    &["INCR"],
                    &["NOSUCH"],
                    &["WATCH", "a"],
                    &["FLUSHDB", "bogus"],
                    &["SWAPDB", "0", "1"],
                    &["DBSIZE"],
                ])
                .iter()
                .copied(),
            ));
        } else {
            any(g, out);
        }
    }
}

fn transaction(g: &mut Generator, out: &mut Vec<Command>) {
    queue(g, out);
    end(g, out);
    out.push(command("SELECT", [g.pick(&super::DATABASES)]));
}

/// Generates a transaction with watched keys, which another client may change before or after
/// MULTI.
fn watched(g: &mut Generator, out: &mut Vec<Command>) {
    let database = g.pick(&super::DATABASES);
    out.push(command("SELECT", [database]));
    let watched = g.keys();
    out.push(command("WATCH", watched.clone()));
    let other = if g.one_in(4) {
        g.pick(&super::DATABASES)
    } else {
        database
    };
    let second = |g: &mut Generator, out: &mut Vec<Command>| {
        let key = if g.one_in(3) {
            g.key()
        } else {
            watched[0].clone()
        };
        let value = g.value();
        let change = match g.below(12) {
            0 => command("GET", [key]),
            1 => command("DEL", [key]),
            2 => command("EXPIRE", [key, g.seconds().to_string().into_bytes()]),
            3 => command("PERSIST", [key]),
            4 => command("RENAME", [key, b"a".to_vec()]),
            5 => command("MOVE", [key, g.pick(&super::DATABASES).into()]),
            6 => command("APPEND", [key, value]),
            7 => command("INCR", [key]),
            8 => command("COPY", [b"b".to_vec(), key, b"REPLACE".to_vec()]),
            9 if g.one_in(3) => command("FLUSHDB", [b""; 0]),
            10 if g.one_in(3) => command("SWAPDB", [database, other]),
            _ => command("SET", [key, value]),
        };
        for change in [command("SELECT", [other]), change] {
            let words = std::iter::once(SECOND.as_bytes().to_vec()).chain(change.0);
            out.push(Command(words.collect()));
        }
    };
    if g.one_in(3) {
        second(g, out);
    }
    queue(g, out);
    if g.one_in(3) {
        second(g, out);
    }
    end(g, out);
}

/// Generates transaction commands outside a transaction.
fn stray(g: &mut Generator, out: &mut Vec<Command>) {
    let words: &[&str] = g.pick(&[
        &["EXEC"][..],
        &["DISCARD"],
        &["EXEC", "x"],
        &["DISCARD", "x"],
        &["WATCH"],
        &["UNWATCH", "x"],
    ]);
    out.push(Command::of(words.iter().copied()));
    // End the watch that a corrupted command may have begun, so that it does not affect later
    // commands.
    out.push(Command::of(["UNWATCH"]));
}

fn unwatch(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("WATCH", g.keys()));
    out.push(command("SET", [g.key(), g.value()]));
    out.push(Command::of(["UNWATCH"]));
    queue(g, out);
    end(g, out);
}

fn across_databases(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(Command::of(["MULTI"]));
    for _ in 0..3 {
        out.push(command("SELECT", [g.database()]));
        any(g, out);
    }
    out.push(Command::of(["EXEC"]));
    out.push(Command::of(["SELECT", "0"]));
}
