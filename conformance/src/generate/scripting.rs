//! Generates calls to scripts from widely used programs: redis-py's locks, kombu and Celery. The
//! written cases contain the same scripts.
//!
//! Each script is paired with other commands, so that the generator does not corrupt it into a
//! different script.

use std::sync::LazyLock;

use super::{Family, Generator, command};
use crate::command::Command;

/// Scripts that a server recognizes without Lua.
pub(super) const LOCKS_FAMILY: Family = Family {
    name: "locks",
    makers: &[(6, lock)],
};

pub(super) const FAMILY: Family = Family {
    name: "scripting",
    makers: &[
        (6, refresh),
        (6, sweep),
        (14, part),
        (6, cleanup),
        (6, extend),
    ],
};

const LOCKS: &str = include_str!("../../cases/scripting.case");
const KOMBU: &str = include_str!("../../cases/scripting-kombu.case");
const CELERY: &str = include_str!("../../cases/scripting-celery.case");

/// The script texts, in the order in which the cases first load them.
static TEXTS: LazyLock<[Vec<Vec<u8>>; 3]> = LazyLock::new(|| [LOCKS, KOMBU, CELERY].map(texts));

fn texts(cases: &str) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for line in cases
        .lines()
        .filter(|line| line.starts_with("SCRIPT LOAD \""))
    {
        let words = Command::parse(line).unwrap_or(Command(Vec::new())).0;
        if let Some(text) = words.into_iter().nth(2)
            && !all.contains(&text)
        {
            all.push(text);
        }
    }
    all
}

/// Texts that Lua converts to numbers or rejects. None is an expiry time that is reached during the
/// run.
const NUMBERS: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"-0",
    b"",
    b"abc",
    b"1e9x",
    b"1.5e9",
    b"1500000000.5",
    b"9223372036854775807",
    b"1e17",
    b"nan",
    b"inf",
    b"-inf",
    b" 0x77359400\t",
];

fn number(g: &mut Generator) -> Vec<u8> {
    if g.one_in(3) {
        return g.pick(&NUMBERS).to_vec();
    }
    g.seconds().to_string().into()
}

/// Returns the script's own key, or occasionally another one.
fn key(g: &mut Generator, own: &str) -> Vec<u8> {
    if g.one_in(12) { g.key() } else { own.into() }
}

/// Calls a script with these keys and arguments, occasionally with too few or too many. Another
/// command on one of the keys precedes the call, and a read of the keys follows.
fn call(
    g: &mut Generator,
    out: &mut Vec<Command>,
    text: &[u8],
    mut keys: Vec<Vec<u8>>,
    mut arguments: Vec<Vec<u8>>,
) {
    match g.below(20) {
        0 => keys.truncate(g.below(keys.len() + 1)),
        1 | 2 => arguments.truncate(g.below(arguments.len() + 1)),
        3 => arguments.push(g.value()),
        _ => {}
    }
    if g.one_in(6)
        && let Some(key) = keys.first().cloned()
    {
        out.push(match g.below(4) {
            0 => command("RPUSH", [key, b"x".to_vec()]),
            1 => command("SADD", [key, b"x".to_vec()]),
            2 => command("DEL", [key]),
            _ => command("SET", [key, g.value()]),
        });
    }
    let looks = keys.clone();
    let mut words = vec![text.to_vec(), keys.len().to_string().into()];
    words.append(&mut keys);
    words.append(&mut arguments);
    out.push(command("EVAL", words));
    out.extend(looks.into_iter().map(|key| command("PTTL", [key])));
    out.push(Command::of(["DBSIZE"]));
}

fn lock(g: &mut Generator, out: &mut Vec<Command>) {
    let text = &TEXTS[0][g.below(3)];
    let (name, token) = (key(g, "lock"), g.pick(&["one", "two"]));
    if g.one_in(2) {
        let time = g.seconds().to_string();
        out.push(command(
            "SET",
            [&name[..], token.as_bytes(), b"EX", time.as_bytes()],
        ));
    }
    let time = if g.one_in(3) {
        g.pick(&NUMBERS).to_vec()
    } else {
        (g.seconds() * 1000).to_string().into()
    };
    let replaces = g.pick(&["0", "1"]).into();
    call(g, out, text, vec![name], vec![token.into(), time, replaces]);
}

/// The generated times are large enough to hide the difference between the two servers' clocks.
fn refresh(g: &mut Generator, out: &mut Vec<Command>) {
    let exchange = g.pick(&["", "a", "b", "c"]);
    let keys = vec![key(g, &format!("table:{exchange}")), key(g, "deadlines")];
    let binding = g.pick(&["one", "two", "3"]).into();
    let time = g.pick(&[
        "1e300", "-1e300", "-1e300", "inf", "-inf", "nan", "abc", "", " 2e300",
    ]);
    let arguments = vec![binding, exchange.into(), time.into()];
    call(g, out, &TEXTS[1][0], keys, arguments);
}

fn sweep(g: &mut Generator, out: &mut Vec<Command>) {
    if g.one_in(3) {
        let exchange = g.pick(&["a", "b", "c"]);
        out.push(command("SADD", [&format!("permanent:{exchange}")[..], "x"]));
    }
    let limit = g.pick(&[
        "0", "1", "2", "100", "-1", "1.5", "x", "", "inf", "1e2", " 0x2",
    ]);
    let (tables, permanent) = (g.pick(&["table:", "", "key:"]), g.pick(&["permanent:", ""]));
    let keys = vec![key(g, "deadlines")];
    let arguments = vec![tables.into(), permanent.into(), limit.into()];
    call(g, out, &TEXTS[1][1], keys, arguments);
}

fn part(g: &mut Generator, out: &mut Vec<Command>) {
    if g.one_in(3) {
        let size = match g.below(8) {
            0 => g.pick(&NUMBERS).to_vec(),
            _ => g.below(5).to_string().into(),
        };
        out.push(command("SET", [g.pick(&["more", "size"]).into(), size]));
    }
    let keys = ["results", "more", "size", "counted", "group", "claim"];
    let keys = keys.map(|own| key(g, own)).to_vec();
    let place = match g.below(8) {
        0 => g.odd(),
        1 => b"+inf".to_vec(),
        _ => g.below(6).to_string().into(),
    };
    let arguments = vec![
        g.pick(&["one", "two", "three"]).into(),
        g.value(),
        g.pick(&["1", "1", "1", "0", ""]).into(),
        place,
        number(g),
        number(g),
        number(g),
        g.pick(&["token", "other"]).into(),
    ];
    call(g, out, &TEXTS[2][0], keys, arguments);
}

fn cleanup(g: &mut Generator, out: &mut Vec<Command>) {
    let keys = ["claim", "results", "more", "size", "counted"];
    let keys = keys.map(|own| key(g, own)).to_vec();
    let arguments = vec![g.pick(&["token", "other", "done"]).into(), number(g)];
    call(g, out, &TEXTS[2][1], keys, arguments);
}

fn extend(g: &mut Generator, out: &mut Vec<Command>) {
    let keys = vec![key(g, "claim"), key(g, "size")];
    let arguments = vec![g.pick(&["token", "other", "done"]).into(), number(g)];
    call(g, out, &TEXTS[2][2], keys, arguments);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_contain_the_script_texts() {
        assert_eq!(TEXTS.each_ref().map(Vec::len), [3, 2, 3]);
        let begins = |text: &[u8], start: &str| text.starts_with(start.as_bytes());
        assert!(begins(&TEXTS[1][0], "\nredis.call('SADD'"));
        assert!(begins(&TEXTS[2][2], "\nlocal ckey, skey = "));
    }
}
