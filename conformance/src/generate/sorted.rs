//! Generates every sorted set command of Redis 7.0, with all of its options.
//!
//! Lexical ranges are defined only if all scores are equal. They are requested only from sets with
//! a single score: small sets under separate keys, and large sets.

use super::hashes::walk;
use super::{Family, Generator, command};
use crate::command::Command;

pub(super) const FAMILY: Family = Family {
    name: "sorted",
    makers: &[
        (50, zadd),
        (12, zincrby),
        (12, zrem),
        (8, zcard),
        (10, zscore),
        (6, zmscore),
        (12, rank),
        (10, zcount),
        (8, zlexcount),
        (30, zrange),
        (8, zrevrange),
        (10, by_score),
        (10, by_text),
        (12, zadd_text),
        (16, zrangestore),
        (8, remove_range),
        (12, zpop),
        (8, zmpop),
        (8, zrandmember),
        (8, zscan),
        (14, combine),
        (14, combine_store),
        (10, zintercard),
        (3, many),
    ],
};

/// Returns a member from the pool.
fn member(g: &mut Generator) -> Vec<u8> {
    match g.below(24) {
        0 => Vec::new(),
        1 => g.integer(),
        2 if g.one_in(3) => g.value(),
        3 => g.pick(&["01", "+", "-", "[a", "(a", " "]).into(),
        4..8 => vec![g.pick(b"abcdefgh"), g.pick(b"xyz")],
        _ => vec![g.pick(b"abcdefghijklmnop")],
    }
}

/// Returns a score, usually a small integer, so that scores coincide.
pub(super) fn score(g: &mut Generator) -> Vec<u8> {
    match g.below(30) {
        0 => g.odd(),
        1 => g.integer(),
        2..6 => g.float(),
        6 => g
            .pick(&["inf", "-inf", "+inf", "Infinity", "-0", "0x1p3"])
            .into(),
        7 => g
            .pick(&[
                "1e17",
                "1e18",
                "4611686018427387904",
                "9e18",
                "-1e19",
                "1e-320",
            ])
            .into(),
        8 => g.pick(&["nan", "1e400", "", " 1", "1 ", "x"]).into(),
        _ => g.below(8).to_string().into(),
    }
}

fn options(g: &mut Generator, args: &mut Vec<Vec<u8>>, names: &[&str]) {
    while g.one_in(3) {
        args.push(g.pick(names).into());
    }
}

fn zadd(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    options(g, &mut args, &["NX", "XX", "GT", "LT", "CH", "ch", "INCR"]);
    let pairs = if g.one_in(2) { 1 } else { g.below(6) };
    for _ in 0..pairs {
        args.extend([score(g), member(g)]);
    }
    out.push(command("ZADD", args));
}

fn zincrby(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ZINCRBY", [g.key(), score(g), member(g)]));
}

fn with_members(g: &mut Generator) -> Vec<Vec<u8>> {
    let mut args = vec![g.key()];
    for _ in 0..=g.below(4) {
        args.push(member(g));
    }
    args
}

fn zrem(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ZREM", with_members(g)));
}

fn zcard(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ZCARD", [g.key()]));
}

fn zscore(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ZSCORE", [g.key(), member(g)]));
}

fn zmscore(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ZMSCORE", with_members(g)));
}

fn rank(g: &mut Generator, out: &mut Vec<Command>) {
    let name = g.pick(&["ZRANK", "ZREVRANK"]);
    out.push(command(name, [g.key(), member(g)]));
}

/// Returns the start or end of a score range.
fn score_end(g: &mut Generator) -> Vec<u8> {
    match g.below(10) {
        0 => [b"(".to_vec(), score(g)].concat(),
        1 => g
            .pick(&["-inf", "+inf", "(-inf", "(inf", "(", "((1", "1e400"])
            .into(),
        2..5 => format!("({}", g.below(8)).into(),
        _ => score(g),
    }
}

/// Returns the start or end of a lexical range.
fn text_end(g: &mut Generator) -> Vec<u8> {
    match g.below(10) {
        0 => member(g),
        1..4 => g
            .pick(&["-", "+", "-", "+", "[", "(", "--", "+x", ""])
            .into(),
        _ => [vec![g.pick(b"[(")], member(g)].concat(),
    }
}

fn zcount(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ZCOUNT", [g.key(), score_end(g), score_end(g)]));
}

fn zlexcount(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command(
        "ZLEXCOUNT",
        [text_key(g), text_end(g), text_end(g)],
    ));
}

/// Returns a key whose set is always small and has a single score.
fn text_key(g: &mut Generator) -> Vec<u8> {
    g.pick(&["text:1", "text:2", "text:3"]).into()
}

fn zadd_text(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![text_key(g)];
    for _ in 0..=g.below(4) {
        args.extend([b"0".to_vec(), vec![g.pick(b"abcdefghijklm")]]);
    }
    out.push(command("ZADD", args));
}

fn limit(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    if g.one_in(3) {
        args.push(g.pick(&["LIMIT", "limit"]).into());
        for _ in 0..2 {
            let number = if g.one_in(15) {
                g.odd()
            } else {
                (g.below(12) as i64 - 2).to_string().into()
            };
            args.push(number);
        }
    }
}

/// Adds the start and end of a range, and the options that determine how they are interpreted.
fn range(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    match g.below(3) {
        0 => args.extend([g.position(), g.position()]),
        1 => args.extend([score_end(g), score_end(g), b"BYSCORE".to_vec()]),
        _ => {
            args.pop();
            args.extend([text_key(g), text_end(g), text_end(g), b"BYLEX".to_vec()]);
        }
    }
    if g.one_in(3) {
        args.push(g.pick(&["REV", "rev"]).into());
    }
    limit(g, args);
}

fn with_scores(g: &mut Generator, args: &mut Vec<Vec<u8>>) {
    if g.one_in(2) {
        args.push(g.pick(&["WITHSCORES", "withscores"]).into());
    }
}

fn zrange(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    range(g, &mut args);
    with_scores(g, &mut args);
    out.push(command("ZRANGE", args));
}

fn zrevrange(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), g.position(), g.position()];
    with_scores(g, &mut args);
    options(g, &mut args, &["REV", "BYSCORE", "LIMIT", "WITHSCORES"]);
    out.push(command("ZREVRANGE", args));
}

fn by_score(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), score_end(g), score_end(g)];
    with_scores(g, &mut args);
    limit(g, &mut args);
    let name = g.pick(&["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]);
    out.push(command(name, args));
}

fn by_text(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![text_key(g), text_end(g), text_end(g)];
    limit(g, &mut args);
    if g.one_in(12) {
        with_scores(g, &mut args);
    }
    let name = g.pick(&["ZRANGEBYLEX", "ZREVRANGEBYLEX"]);
    out.push(command(name, args));
}

fn zrangestore(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key(), g.key()];
    range(g, &mut args);
    if g.one_in(15) {
        with_scores(g, &mut args);
    }
    out.push(command("ZRANGESTORE", args));
}

fn remove_range(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    let (name, args) = match g.below(3) {
        0 => ("ZREMRANGEBYRANK", [key, g.position(), g.position()]),
        1 => ("ZREMRANGEBYSCORE", [key, score_end(g), score_end(g)]),
        _ => ("ZREMRANGEBYLEX", [text_key(g), text_end(g), text_end(g)]),
    };
    out.push(command(name, args));
}

fn zpop(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(6) {
        0..3 => {}
        3 => args.push(g.odd()),
        4 => args.extend([b"1".to_vec(), b"1".to_vec()]),
        _ => args.push(g.below(4).to_string().into()),
    }
    let name = g.pick(&["ZPOPMIN", "ZPOPMAX"]);
    out.push(command(name, args));
}

/// Returns keys preceded by their number, which is occasionally wrong.
fn counted_keys(g: &mut Generator) -> Vec<Vec<u8>> {
    let keys = g.keys();
    let number = match g.below(16) {
        0 => g.odd(),
        1 => (keys.len() + 1).to_string().into(),
        2 => (keys.len() - 1).to_string().into(),
        _ => keys.len().to_string().into(),
    };
    [vec![number], keys].concat()
}

fn zmpop(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = counted_keys(g);
    args.push(g.pick(&["MIN", "MAX", "min", "MID"]).into());
    if g.one_in(2) {
        args.push(g.pick(&["COUNT", "count", "LIMIT"]).into());
        args.push(g.pick(&["1", "2", "100", "0", "-1", "x"]).into());
    }
    out.push(command("ZMPOP", args));
}

/// Generates ZRANDMEMBER, which returns a defined number of random members.
fn zrandmember(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = vec![g.key()];
    match g.below(8) {
        0 => {}
        1 => args.push(
            g.pick(&["x", "", "9223372036854775807", "-9223372036854775808"])
                .into(),
        ),
        _ => args.push((g.below(30) as i64 - 10).to_string().into()),
    }
    if args.len() > 1 {
        options(g, &mut args, &["WITHSCORES", "withscores", "WITHVALUES"]);
    }
    // Send a huge negative count only without options, because no server can return that many
    // members.
    if args.get(1).is_some_and(|count| count.starts_with(b"-92")) {
        args.truncate(2);
    }
    out.push(command("ZRANDMEMBER", args));
}

fn zscan(g: &mut Generator, out: &mut Vec<Command>) {
    out.push(command("ZSCAN", walk(g)));
}

fn combination(g: &mut Generator, args: &mut Vec<Vec<u8>>, keys: usize) {
    if g.one_in(2) {
        args.push(g.pick(&["WEIGHTS", "weights"]).into());
        let weights = if g.one_in(12) { keys + 1 } else { keys };
        for _ in 0..weights {
            args.push(if g.one_in(4) {
                score(g)
            } else {
                g.pick(&["1", "2", "-1", "0.5", "0", "3"]).into()
            });
        }
    }
    if g.one_in(3) {
        args.push(g.pick(&["AGGREGATE", "aggregate"]).into());
        args.push(g.pick(&["SUM", "MIN", "MAX", "min", "AVG"]).into());
    }
}

fn combine(g: &mut Generator, out: &mut Vec<Command>) {
    let name = g.pick(&["ZUNION", "ZINTER", "ZDIFF"]);
    let mut args = counted_keys(g);
    let keys = args.len() - 1;
    if name != "ZDIFF" || g.one_in(12) {
        combination(g, &mut args, keys);
    }
    with_scores(g, &mut args);
    out.push(command(name, args));
}

fn combine_store(g: &mut Generator, out: &mut Vec<Command>) {
    let name = g.pick(&["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]);
    let mut args = counted_keys(g);
    let keys = args.len() - 1;
    args.insert(0, g.key());
    if name != "ZDIFFSTORE" || g.one_in(12) {
        combination(g, &mut args, keys);
    }
    if g.one_in(20) {
        with_scores(g, &mut args);
    }
    out.push(command(name, args));
}

fn zintercard(g: &mut Generator, out: &mut Vec<Command>) {
    let mut args = counted_keys(g);
    if g.one_in(2) {
        args.push(g.pick(&["LIMIT", "limit", "COUNT"]).into());
        args.push(g.pick(&["0", "1", "2", "5", "-1", "x"]).into());
    }
    out.push(command("ZINTERCARD", args));
}

/// Adds enough members with one score to make Redis leave the compact encoding.
fn many(g: &mut Generator, out: &mut Vec<Command>) {
    let key = g.key();
    out.push(command("DEL", [key.clone()]));
    let count = g.pick(&[127, 128, 129, 300]);
    let mut args = vec![key.clone()];
    for number in 0..count {
        args.extend([b"3".to_vec(), format!("m{number:03}").into_bytes()]);
    }
    out.push(command("ZADD", args));
    out.push(command("OBJECT", [b"ENCODING".to_vec(), key.clone()]));
    let ends = [text_end(g), text_end(g)];
    let [low, high] = ends;
    out.push(command(
        "ZLEXCOUNT",
        [key.clone(), low.clone(), high.clone()],
    ));
    out.push(command("ZREVRANGEBYLEX", [key.clone(), high, low]));
    for _ in 0..g.below(4) {
        out.push(command(
            "ZINCRBY",
            [
                key.clone(),
                score(g),
                format!("m{:03}", g.below(300)).into(),
            ],
        ));
        out.push(command(
            "ZRANK",
            [key.clone(), format!("m{:03}", g.below(300)).into()],
        ));
    }
    let stop = (g.below(250) as i64 - 100).to_string();
    out.push(command(
        "ZREMRANGEBYRANK",
        [key.clone(), b"0".to_vec(), stop.into()],
    ));
    out.push(command(
        "ZRANGE",
        [
            key.clone(),
            score_end(g),
            score_end(g),
            b"BYSCORE".to_vec(),
            b"WITHSCORES".to_vec(),
        ],
    ));
    // Remove the members with different scores, because lexical ranges are undefined for them.
    out.push(command(
        "ZREMRANGEBYRANK",
        [key, b"60".to_vec(), b"-1".to_vec()],
    ));
    if let Some(Command(args)) = out.last() {
        let key = args[1].clone();
        out.push(command(
            "ZRANGESTORE",
            [key.clone(), key, b"0".to_vec(), b"-1".to_vec()],
        ));
    }
}
