//! Generates commands on keys of any type and on entire databases.

use super::{DATABASES, Family, Generator, command, payload};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "keys",
    makers: &[
        (14, delete),
        (12, exists),
        (8, type_of),
        (6, keys),
        (8, scan),
        (3, randomkey),
        (14, rename),
        (14, copy),
        (10, move_key),
        (6, touch),
        (8, dump),
        (12, restore),
        (6, dbsize),
        (1, flush),
        (3, swapdb),
        (10, object),
        (4, memory_usage),
        (16, select),
    ],
};

/// Patterns that match some of the pool's keys, each using a feature of the matcher.
const PATTERNS: [&str; 18] = [
    "*", "a", "?", "key:*", "key:?", "*:1*", "[ab]", "[^a]", "[a-c]", "[c-a]", "k\\[1\\]",
    "k[[]1]", "**d*", "", "[", "\\", "*\\*r", "[a-",
];

fn delete(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command(g.pick(&["DEL", "UNLINK"]), g.keys()));
}

fn exists(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("EXISTS", g.keys()));
}

fn type_of(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("TYPE", [g.key()]));
}

fn keys(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("KEYS", [g.pick(&PATTERNS)]));
}

fn scan(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args: Vec<Vec<u8>> = vec!["0".into()];
    if g.one_in(20) {
        args[0] = g
            .pick(&["abc", "", " 0", "99999999999999999999", "1x"])
            .into();
    }
    if g.one_in(2) {
        args.extend(["MATCH".into(), g.pick(&PATTERNS).into()]);
    }
    if g.one_in(2) {
        let count = g.pick(&["1", "2", "10", "1000", "0", "-3", "x"]);
        args.extend(["COUNT".into(), count.into()]);
    }
    if g.one_in(4) {
        args.extend([
            "TYPE".into(),
            g.pick(&["string", "STRING", "list", "none"]).into(),
        ]);
    }
    if g.one_in(20) {
        args.push(g.pick(&["MATCH", "COUNT", "NOVALUES"]).into());
    }
    out.push(command("SCAN", args));
}

fn randomkey(_: &mut Generator, out: &mut Vec<Command>) {
    out.push(Command::of(["RANDOMKEY"]));
}

fn rename(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command(g.pick(&["RENAME", "RENAMENX"]), [g.key(), g.key()]));
}

fn copy(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), g.key()];
    if g.one_in(2) {
        args.extend(["DB".into(), g.database()]);
    }
    if g.one_in(2) {
        args.push("REPLACE".into());
    }
    if g.one_in(20) {
        args.push(g.pick(&["DB", "REPLACE", "NX"]).into());
    }
    out.push(command("COPY", args));
}

fn move_key(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("MOVE", [g.key(), g.database()]));
}

fn touch(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("TOUCH", g.keys()));
}

fn dump(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("DUMP", [g.key()]));
}

fn restore(g: &mut Generator, out: &mut Vec<Command>) {
    let value = g.value();
    let mut body = payload::string(&value);
    if g.one_in(6) {
        // The checksum or the version check must detect any damage.
        let place = g.below(body.len());
        body[place] ^= 1 << g.below(8);
    } else if g.one_in(20) {
        body.truncate(g.below(body.len()));
    }
    let (ttl, absolute) = match g.below(8) {
        0..=3 => ("0".to_owned(), false),
        4 => ((g.seconds() * 1000).to_string(), false),
        5 => ((g.future_instant() * 1000).to_string(), true),
        // Use a time that has passed, or a time far in the future if the generator drops ABSTTL. A
        // key that expires during the run can exist on one server only.
        6 => ("1000000000".to_owned(), true),
        _ => (
            g.pick(&["-1", "x", "", "9223372036854775808"]).to_owned(),
            false,
        ),
    };
    let mut args = vec![g.key(), ttl.into(), body];
    if absolute {
        args.push("ABSTTL".into());
    }
    if g.one_in(2) {
        args.push("REPLACE".into());
    }
    if g.one_in(10) {
        let (name, number) = g.pick(&[
            ("IDLETIME", "100"),
            ("FREQ", "5"),
            ("IDLETIME", "-1"),
            ("FREQ", "256"),
            ("FREQ", "x"),
        ]);
        args.extend([name.into(), number.into()]);
    }
    out.push(command("RESTORE", args));
}

fn dbsize(_: &mut Generator, out: &mut Vec<Command>) {
    out.push(Command::of(["DBSIZE"]));
}

fn flush(g: &mut Generator, out: &mut Vec<Command>) {
    let name = if g.one_in(3) { "FLUSHALL" } else { "FLUSHDB" };
    let mode = g.pick(&["", "", "ASYNC", "SYNC", "NOW"]);
    out.push(command(name, (!mode.is_empty()).then_some(mode)));
}

fn swapdb(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("SWAPDB", [g.database(), g.database()]));
}

fn object(g: &mut Generator, out: &mut Vec<Command>) {
    let what = g.pick(&[
        "ENCODING", "ENCODING", "ENCODING", "IDLETIME", "REFCOUNT", "FREQ", "SIZE",
    ]);
    out.push(command("OBJECT", [what.into(), g.key()]));
}

fn memory_usage(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec!["USAGE".into(), g.key()];
    if g.one_in(3) {
        let samples = g.pick(&["0", "5", "-1", "x"]);
        args.extend(["SAMPLES".into(), samples.into()]);
    }
    out.push(command("MEMORY", args));
}

fn select(g: &mut Generator, out: &mut Vec<Command>) {
    let database = if g.one_in(4) {
        g.database()
    } else {
        g.pick(&DATABASES).into()
    };
    out.push(command("SELECT", [database]));
}
