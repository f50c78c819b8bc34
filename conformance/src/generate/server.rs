//! Generates connection and server commands that leave the connection usable.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "server",
    makers: &[
        (4, ping),
        (3, echo),
        (3, hello),
        (1, reset),
        (2, time),
        (5, client),
        (5, command_info),
        (2, info),
        (3, config),
        (2, unknown),
        (1, auth),
        (1, slowlog),
    ],
};

fn ping(g: &mut Generator, out: &mut Vec<Command>) {
    let message = g.one_in(2).then(|| g.value());
    out.push(command("PING", message));
}

fn echo(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ECHO", [g.value()]));
}

fn hello(g: &mut Generator, out: &mut Vec<Command>) {
    let args: &[&str] = g.pick(&[
        &["2"][..],
        &["3"],
        &["3"],
        &[],
        &["4"],
        &["x"],
        &["3", "SETNAME", "me"],
        &["2", "SETNAME", "a b"],
        &["3", "AUTH", "default", "wrong"],
        &["3", "AUTH", "default"],
        &["3", "BOGUS"],
    ]);
    out.push(command("HELLO", args.iter().copied()));
}

fn reset(_: &mut Generator, out: &mut Vec<Command>) {
    out.push(Command::of(["RESET"]));
}

fn time(_: &mut Generator, out: &mut Vec<Command>) {
    out.push(Command::of(["TIME"]));
}

fn client(g: &mut Generator, out: &mut Vec<Command>) {
    let args: &[&str] = g.pick(&[
        &["ID"][..],
        &["GETNAME"],
        &["SETNAME", "worker:1"],
        &["SETNAME", ""],
        &["SETNAME", "has space"],
        &["INFO"],
        &["LIST", "TYPE", "bogus"],
        &["LIST", "ID", "x"],
        &["KILL", "ID", "99999999"],
        &["KILL", "ID", "x"],
        &["KILL", "127.0.0.1:1"],
        &["KILL", "TYPE", "bogus"],
        &["KILL", "BOGUS", "x"],
        &["REPLY", "ON"],
        &["REPLY", "bogus"],
        &["NOSUCH"],
    ]);
    out.push(command("CLIENT", args.iter().copied()));
}

fn command_info(g: &mut Generator, out: &mut Vec<Command>) {
    let args: &[&str] = g.pick(&[
        &["COUNT"][..],
        &["INFO", "get", "SET", "nosuch"],
        &["INFO", "mset", "del", "copy"],
        &["INFO", "getex", "object", "swapdb"],
        &["GETKEYS", "MSET", "a", "1", "b", "2"],
        &["GETKEYS", "GET", "k"],
        &["GETKEYS", "PING"],
        &["GETKEYS", "NOSUCH", "k"],
        &["GETKEYS", "SET", "k"],
        &["GETKEYS", "LCS", "a", "b"],
        &["GETKEYS", "COPY", "a", "b", "DB", "1"],
        &["GETKEYS"],
        &["NOSUCH"],
    ]);
    out.push(command("COMMAND", args.iter().copied()));
}

fn info(g: &mut Generator, out: &mut Vec<Command>) {
    let section = g.pick(&["", "keyspace", "server", "nosuch", "Clients"]);
    out.push(command("INFO", (!section.is_empty()).then_some(section)));
}

fn config(g: &mut Generator, out: &mut Vec<Command>) {
    let args: &[&str] = g.pick(&[
        &["GET", "databases"][..],
        &["GET", "nosuchparameter"],
        &["GET", "maxclients"],
        &["GET"],
        &["SET", "nosuchparameter", "1"],
        &["SET", "maxmemory"],
        &["SET", "maxmemory", "lots"],
        &["SET", "maxmemory-policy", "bogus"],
        &["RESETSTAT"],
        &["NOSUCH"],
    ]);
    out.push(command("CONFIG", args.iter().copied()));
}

fn unknown(g: &mut Generator, out: &mut Vec<Command>) {
    let name = g.pick(&["NOSUCH", "get2", "", "G\0T", "SE T", "OBJECTS", "\u{e4}"]);
    let args: Vec<_> = (0..g.below(4)).map(|_| g.value()).collect();
    out.push(command(name, args));
}

fn auth(g: &mut Generator, out: &mut Vec<Command>) {
    let args: &[&str] = g.pick(&[
        &["x"][..],
        &["default", "x"],
        &["nobody", "x"],
        &["a", "b", "c"],
    ]);
    out.push(command("AUTH", args.iter().copied()));
}

fn slowlog(g: &mut Generator, out: &mut Vec<Command>) {
    let args: &[&str] = g.pick(&[&["RESET"][..], &["NOSUCH"], &["GET", "x"], &["GET", "-2"]]);
    out.push(command("SLOWLOG", args.iter().copied()));
}
