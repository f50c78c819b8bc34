//! Generates Lua scripts: random expressions and statements with valid and invalid commands.
//!
//! The scripts avoid results whose order Lua or Redis leaves undefined: tables have at most one
//! non-integer field, and no command returns a set.

use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "lua",
    makers: &[
        (30, evaluate),
        (6, many_commands),
        (3, known_by_name),
        (2, read_only),
    ],
};

/// The maximum nesting depth of an expression.
const DEPTH: usize = 3;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "0.5",
    "-2.5",
    "1e15",
    "1e300",
    "2^31",
    "2^53",
    "255",
    "1/0",
    "-1/0",
    "0.1",
    "12345678901",
];

const TEXTS: [&str; 16] = [
    "''",
    "'x'",
    "'10'",
    "'0x10'",
    "' 5 '",
    "'abc'",
    "'a\\0b'",
    "'\\255'",
    "'%d'",
    "'[1,2,{\"a\":null}]'",
    "'\\147\\1\\2\\3'",
    "'hello world'",
    "'%a+'",
    "'(%w)(%w*)'",
    "'\\n'",
    "'1e3'",
];

/// Returns an expression of any type.
fn expression(g: &mut Generator, depth: usize) -> String {
    if depth == 0 {
        return leaf(g);
    }
    let deeper = |g: &mut Generator| expression(g, depth - 1);
    match g.below(26) {
        0 | 1 => leaf(g),
        2 => format!(
            "({} {} {})",
            deeper(g),
            pick(g, &["+", "-", "*", "/", "%", "^"]),
            deeper(g)
        ),
        3 => format!("({} .. {})", deeper(g), deeper(g)),
        4 => format!(
            "({} {} {})",
            deeper(g),
            pick(g, &["==", "~=", "<", "<=", ">", ">="]),
            deeper(g)
        ),
        5 => format!("({} {} {})", deeper(g), pick(g, &["and", "or"]), deeper(g)),
        6 => format!("(not {})", deeper(g)),
        7 => format!("(#{})", deeper(g)),
        8 => format!("{{{}, {}}}", deeper(g), deeper(g)),
        9 => format!("{{field = {}}}", deeper(g)),
        10 => format!("({})[{}]", deeper(g), deeper(g)),
        11 => format!("tonumber({})", deeper(g)),
        12 => format!("type({})", deeper(g)),
        13 => format!(
            "{}({})",
            pick(g, &["cjson.encode", "cjson.decode"]),
            deeper(g)
        ),
        14 => format!(
            "{}({})",
            pick(g, &["cmsgpack.pack", "cmsgpack.unpack"]),
            deeper(g)
        ),
        15 => {
            let name = pick(
                g,
                &[
                    "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror", "tohex",
                ],
            );
            format!("bit.{name}({}, {})", deeper(g), deeper(g))
        }
        16 => {
            let format = pick(
                g,
                &[
                    "'i4'", "'>I2'", "'<d'", "'s'", "'c3'", "'Bc0'", "'!4bi4'", "'y'",
                ],
            );
            format!(
                "struct.{}({format}, {})",
                pick(g, &["pack", "unpack"]),
                deeper(g)
            )
        }
        17 => {
            let name = pick(
                g,
                &[
                    "find", "match", "gsub", "sub", "byte", "format", "len", "upper", "reverse",
                ],
            );
            format!("string.{name}({}, {}, {})", deeper(g), deeper(g), deeper(g))
        }
        18 => format!(
            "math.{}({})",
            pick(g, &["floor", "abs", "max", "sqrt", "ceil"]),
            deeper(g)
        ),
        19 => format!("select(2, pcall(function() return {} end))", deeper(g)),
        20 => format!(
            "redis.{}({})",
            pick(g, &["sha1hex", "error_reply", "status_reply"]),
            deeper(g)
        ),
        21 => format!("table.concat({}, {})", deeper(g), deeper(g)),
        // Use few repetitions, because they can be nested.
        22 => format!(
            "string.rep({}, {})",
            deeper(g),
            pick(g, &["0", "3", "-1", "'2'", "1.9"])
        ),
        _ => call(g, depth),
    }
}

fn pick(g: &mut Generator, all: &[&'static str]) -> &'static str {
    all[g.below(all.len())]
}

fn leaf(g: &mut Generator) -> String {
    match g.below(9) {
        0 | 1 => pick(g, &NUMBERS).into(),
        2 | 3 => pick(g, &TEXTS).into(),
        4 => pick(g, &["true", "false", "nil"]).into(),
        5 => pick(g, &NAMES).into(),
        6 => format!("KEYS[{}]", g.below(3)),
        7 => format!("ARGV[{}]", g.below(4)),
        _ => pick(
            g,
            &[
                "{}",
                "{1, 2, 3}",
                "cjson.null",
                "redis.LOG_DEBUG",
                "nothing",
            ],
        )
        .into(),
    }
}

/// Returns a script expression that calls a command.
fn call(g: &mut Generator, depth: usize) -> String {
    let how = pick(g, &["call", "call", "pcall"]);
    let key = match g.below(4) {
        0 => "KEYS[1]".into(),
        1 => "KEYS[2]".into(),
        _ => format!("'k{}'", g.below(4)),
    };
    let one = |g: &mut Generator| match g.below(4) {
        0 if depth > 0 => expression(g, depth - 1),
        1 => pick(g, &NUMBERS).into(),
        _ => pick(g, &TEXTS).into(),
    };
    let command = match g.below(34) {
        0..=2 => format!("'set', {key}, {}", one(g)),
        3..=5 => format!("'get', {key}"),
        6 => format!("'incr', {key}"),
        7 => format!("'incrby', {key}, {}", one(g)),
        8 => format!("'incrbyfloat', {key}, {}", one(g)),
        9 => format!("'append', {key}, {}", one(g)),
        10 => format!("'getrange', {key}, 0, {}", one(g)),
        11 => format!("'rpush', {key}, {}, {}", one(g), one(g)),
        12 => format!("'lrange', {key}, 0, -1"),
        13 => format!("'lpop', {key}"),
        14 => format!("'llen', {key}"),
        15 => format!("'hset', {key}, 'f', {}", one(g)),
        16 => format!("'hget', {key}, 'f'"),
        17 => format!("'hmget', {key}, 'f', 'none'"),
        18 => format!("'hincrby', {key}, 'f', {}", one(g)),
        19 => format!("'zadd', {key}, {}, 'm'", one(g)),
        20 => format!("'zrange', {key}, 0, -1, 'withscores'"),
        21 => format!("'zscore', {key}, 'm'"),
        22 => format!("'zincrby', {key}, {}, 'm'", one(g)),
        23 => format!("'sadd', {key}, {}", one(g)),
        24 => format!("'scard', {key}"),
        25 => format!("'sismember', {key}, {}", one(g)),
        26 => format!("'del', {key}"),
        27 => format!("'exists', {key}, {key}"),
        28 => format!("'type', {key}"),
        29 => format!("'mget', {key}, 'k1'"),
        30 => format!("'setnx', {key}, {}", one(g)),
        31 => format!("'bitcount', {key}"),
        32 => format!("'hgetall', {key}"),
        _ => one(g),
    };
    format!("redis.{how}({command})")
}

fn statement(g: &mut Generator) -> String {
    let name = pick(g, &NAMES);
    match g.below(12) {
        0..=4 => format!("{name} = {}", expression(g, DEPTH)),
        5 | 6 => format!("{name} = {}", call(g, 1)),
        7 => format!(
            "if {} then {name} = {} end",
            expression(g, 2),
            expression(g, 2)
        ),
        8 => format!("for i = 1, 3 do {name} = {} end", expression(g, 2)),
        9 => format!("redis.setresp({})", pick(g, &["2", "3", "4", "a"])),
        10 => format!(
            "local ok, why = pcall(function() {name} = {} end) if not ok then d = why end",
            expression(g, 2)
        ),
        _ => format!("error(fit({}))", expression(g, 1)),
    }
}

fn script(g: &mut Generator) -> String {
    // Replace tables without `err`, because raising such a table crashes Redis 7.0.15.
    const BEGIN: &str = "local a, b, c, d = ARGV[1], ARGV[2], 3, {}\n\
                         local function fit(v) if type(v) == 'table' and type(v.err) ~= 'string' then return 'none' end return v end";
    let mut lines = vec![BEGIN.to_owned()];
    for _ in 0..g.below(5) {
        lines.push(statement(g));
    }
    lines.push(format!(
        "return {}",
        match g.below(3) {
            0 => "{a, b, c, d}".into(),
            1 => pick(g, &NAMES).into(),
            _ => expression(g, DEPTH),
        }
    ));
    lines.join("\n")
}

fn call_of(g: &mut Generator, name: &str, text: Vec<u8>) -> Command {
    let keys = g.below(3);
    let mut words = vec![text, keys.to_string().into_bytes()];
    for _ in 0..keys {
        words.push(format!("k{}", g.below(4)).into_bytes());
    }
    for _ in 0..g.below(4) {
        words.push(g.value());
    }
    command(name, words)
}

fn evaluate(g: &mut Generator, out: &mut Vec<Command>) {
    let text = script(g);
    out.push(call_of(g, "EVAL", text.into_bytes()));
    if g.one_in(10) {
        out.extend((0..4).map(|key| Command::of(["DEL".to_owned(), format!("k{key}")])));
    }
}

fn read_only(g: &mut Generator, out: &mut Vec<Command>) {
    let flags = pick(
        g,
        &[
            "",
            "#!lua\n",
            "#!lua flags=no-writes\n",
            "#!lua flags=allow-oom\n",
            "#!lua flags=x\n",
        ],
    );
    let text = format!("{flags}{}", script(g));
    let name = pick(g, &["EVAL_RO", "EVAL"]);
    out.push(call_of(g, name, text.into_bytes()));
}

/// Generates a script that runs the commands in its arguments.
fn many_commands(g: &mut Generator, out: &mut Vec<Command>) {
    let text = "local all, at = {}, 1\nwhile at <= #ARGV do\n  local n = math.max(tonumber(ARGV[at]) or 0, 0)\n  \
                all[#all + 1] = redis.pcall(unpack(ARGV, at + 1, at + n))\n  at = at + n + 1\nend\nreturn all";
    let mut words: Vec<Vec<u8>> = vec![text.into(), "0".into()];
    for _ in 0..g.below(6) {
        let key: Vec<u8> = format!("k{}", g.below(4)).into();
        let mut one: Vec<Vec<u8>> = match g.below(7) {
            0 => vec!["SET".into(), key, g.value()],
            1 => vec!["GET".into(), key],
            2 => vec!["RPUSH".into(), key, g.value(), g.value()],
            3 => vec!["LRANGE".into(), key, "0".into(), "-1".into()],
            4 => vec!["INCR".into(), key],
            5 => vec!["DEL".into(), key],
            _ => vec![g.value(), key],
        };
        words.push(one.len().to_string().into());
        words.append(&mut one);
    }
    out.push(command("EVAL", words));
}

fn known_by_name(g: &mut Generator, out: &mut Vec<Command>) {
    let text = script(g);
    out.push(match g.below(6) {
        0 => Command::of(["SCRIPT", "LOAD", &text]),
        1 => Command::of(["SCRIPT", "FLUSH"]),
        2 => Command::of(["SCRIPT", "LOAD", "return {KEYS, ARGV}"]),
        3 => Command::of([
            "SCRIPT",
            "EXISTS",
            "25798f6e367278f6dedc9713a90c526c253106f3",
            "nothing",
        ]),
        _ => call_of(
            g,
            "EVALSHA",
            b"25798f6e367278f6dedc9713a90c526c253106f3".to_vec(),
        ),
    });
}
