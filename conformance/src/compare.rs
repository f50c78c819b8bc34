//! Decides whether two replies to one command count as equal.
//!
//! Replies must match byte for byte, except where Redis itself defines no order or no fixed value.
//! The exceptions depend only on the command, so replayed lines are judged like the original run.
//! Errors are always compared as text.

use crate::command::Command;
use crate::resp::Reply;

/// The tolerated difference between clock readings, in seconds. Generated expiry times are 1000 s
/// apart, so a wrong time far exceeds this tolerance.
const CLOCK_SLACK: i64 = 10;

/// Options that specify which properties must be equal.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// Requires DUMP to return the same bytes. Otherwise, the judge must be able to RESTORE both
    /// payloads to the same value.
    pub dump_bytes: bool,
    /// Requires OBJECT ENCODING to be equal.
    pub encodings: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            dump_bytes: false,
            encodings: true,
        }
    }
}

/// A rule for comparing the replies to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// The replies must be equal byte for byte.
    Exact,
    /// Only the types must match, as for clocks, ids and sizes in bytes.
    Type,
    /// The elements may be in any order.
    Unordered,
    /// Pairs of fields and values may be in any order.
    Pairs,
    /// Members and scores must match, except for the sign of zero: whether a sorted set keeps it
    /// depends on its encoding.
    Scores,
    /// The numbers of elements must match, and either both replies or neither must be null.
    Length,
    /// The integers may differ by at most this many units.
    Near(i64),
    /// Both replies must be a key, or both must be null.
    AnyKey,
    /// Both replies are DUMP payloads, which [`Verdict::Payloads`] compares.
    Dump,
    /// The HELLO maps must match, except for the connection id.
    Hello,
    /// The first six elements of each COMMAND INFO entry must match, with flags in any order.
    CommandInfo,
    /// The replies are lines of `name=value`. Only fields that the connection itself determines are
    /// compared.
    ClientLine,
    /// Only `redis_version` and the keyspace section's lines are compared.
    Info,
    /// XINFO maps and XPENDING rows must match, except for clocks and the node counts of trees.
    Stream,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The replies are equal under the rule.
    Same,
    /// The replies differ. The text explains the difference if it is not obvious.
    Different(String),
    /// Two different DUMP payloads. The judge restores them to decide whether they are equal.
    Payloads(Vec<u8>, Vec<u8>),
}

fn rule(command: &Command, rules: Rules) -> Rule {
    let argc = command.0.len();
    match (command.word(0).as_str(), command.word(1).as_str()) {
        ("KEYS" | "HKEYS" | "HVALS", _) => Rule::Unordered,
        ("SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "SPOP", _) => Rule::Unordered,
        ("HGETALL", _) => Rule::Pairs,
        ("HRANDFIELD" | "SRANDMEMBER" | "ZRANDMEMBER", _) => Rule::Length,
        ("TTL" | "EXPIRETIME", _) => Rule::Near(CLOCK_SLACK),
        ("PTTL" | "PEXPIRETIME", _) => Rule::Near(CLOCK_SLACK * 1000),
        ("RANDOMKEY", _) => Rule::AnyKey,
        ("DUMP", _) if !rules.dump_bytes => Rule::Dump,
        ("HELLO", _) => Rule::Hello,
        ("TIME" | "LASTSAVE", _) => Rule::Type,
        // `full_scan` handles iterations from cursor 0 and sorts their items. Any other cursor may
        // return anything.
        ("SCAN", "0") => Rule::Exact,
        ("SCAN", _) => Rule::Type,
        ("HSCAN" | "SSCAN" | "ZSCAN", _) if command.word(2) != "0" => Rule::Type,
        ("OBJECT", "IDLETIME" | "FREQ" | "REFCOUNT") | ("MEMORY", "USAGE") => Rule::Type,
        ("OBJECT", "ENCODING") if !rules.encodings => Rule::Type,
        ("ZRANGE", _) if !rules.encodings && command.word(4) == "WITHSCORES" => Rule::Scores,
        ("CLIENT", "ID") | ("SLOWLOG", "GET" | "LEN") => Rule::Type,
        ("CLIENT", "INFO" | "LIST") => Rule::ClientLine,
        ("COMMAND", "COUNT" | "LIST" | "DOCS") => Rule::Type,
        ("COMMAND", "INFO") if argc > 2 => Rule::CommandInfo,
        ("COMMAND", "INFO" | "") => Rule::Type,
        // A glob also matches parameters that exist on only one server.
        ("CONFIG", "GET") if command.0[2..].iter().any(|a| a.contains(&b'*')) => Rule::Type,
        ("INFO", _) => Rule::Info,
        ("XINFO", _) => Rule::Stream,
        ("XPENDING", _) if argc > 3 => Rule::Stream,
        _ => Rule::Exact,
    }
}

/// Compares the judge's reply with the subject's.
pub fn compare(command: &Command, judge: &Reply, subject: &Reply, rules: Rules) -> Verdict {
    if judge == subject {
        return Verdict::Same;
    }
    if judge.is_error() || subject.is_error() || judge.marker() != subject.marker() {
        return Verdict::Different(String::new());
    }
    let same = match rule(command, rules) {
        Rule::Exact => false,
        Rule::Type => judge.is_null() == subject.is_null(),
        Rule::Unordered => sorted(judge) == sorted(subject),
        Rule::Pairs => pairs(judge) == pairs(subject),
        Rule::Scores => unsigned_zeros(judge) == unsigned_zeros(subject),
        Rule::Length => {
            let length = |reply: &Reply| reply.items().map(<[Reply]>::len);
            judge.is_null() == subject.is_null() && length(judge) == length(subject)
        }
        Rule::Stream => {
            let (a, b) = (without_clocks(judge), without_clocks(subject));
            return explain(
                a == b,
                format!("without clocks, {}", first_difference(&a, &b)),
            );
        }
        Rule::AnyKey => judge.is_null() == subject.is_null(),
        Rule::Near(slack) => match (judge, subject) {
            // The replies -1 and -2 are status codes rather than times.
            (Reply::Integer(a), Reply::Integer(b)) => {
                *a >= 0 && *b >= 0 && a.abs_diff(*b) <= slack.unsigned_abs()
            }
            _ => false,
        },
        Rule::Dump => match (judge, subject) {
            (Reply::Bulk(a), Reply::Bulk(b)) => return Verdict::Payloads(a.clone(), b.clone()),
            _ => false,
        },
        Rule::Hello => {
            let (a, b) = (without_id(judge), without_id(subject));
            return explain(a == b, format!("without id: {a:?} and {b:?}"));
        }
        Rule::CommandInfo => {
            let (a, b) = (command_heads(judge), command_heads(subject));
            return explain(a == b, format!("the six fields: {a:?} and {b:?}"));
        }
        Rule::ClientLine => {
            let (a, b) = (client_fields(judge), client_fields(subject));
            return explain(a == b, format!("the comparable fields: {a:?} and {b:?}"));
        }
        Rule::Info => {
            let (a, b) = (info_fields(judge), info_fields(subject));
            return explain(a == b, format!("the comparable fields: {a:?} and {b:?}"));
        }
    };
    explain(same, String::new())
}

/// Returns the innermost parts of two replies that differ.
fn first_difference(a: &Reply, b: &Reply) -> String {
    if let (Some(left), Some(right)) = (a.items(), b.items())
        && left.len() == right.len()
    {
        let differs = left
            .iter()
            .zip(right)
            .position(|(left, right)| left != right);
        if let Some(place) = differs {
            let named = place.checked_sub(1).and_then(|before| left[before].bytes());
            let name = named.map_or(String::new(), |name| format!("{}: ", name.escape_ascii()));
            return format!("{name}{}", first_difference(&left[place], &right[place]));
        }
    }
    format!("{a} and {b}")
}

fn explain(same: bool, why: String) -> Verdict {
    if same {
        Verdict::Same
    } else {
        Verdict::Different(why)
    }
}

fn sorted(reply: &Reply) -> Option<Vec<&Reply>> {
    let mut items: Vec<&Reply> = reply.items()?.iter().collect();
    items.sort();
    Some(items)
}

fn pairs(reply: &Reply) -> Option<Vec<&[Reply]>> {
    let mut pairs: Vec<&[Reply]> = reply.items()?.chunks(2).collect();
    pairs.sort();
    Some(pairs)
}

/// Returns members and scores, with 0 instead of -0.
fn unsigned_zeros(reply: &Reply) -> Option<Vec<&[u8]>> {
    let items = reply.items()?.iter().enumerate();
    let unsigned = items.map(|(index, item)| match item.bytes() {
        Some(b"-0") if index % 2 == 1 => Some(&b"0"[..]),
        bytes => bytes,
    });
    unsigned.collect()
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned()
}

fn without_id(reply: &Reply) -> Vec<(String, &Reply)> {
    let items = reply.items().unwrap_or_default();
    let pairs = items.chunks_exact(2).map(|pair| (text(&pair[0]), &pair[1]));
    pairs.filter(|(name, _)| name != "id").collect()
}

/// Masks clocks, time spans and the node counts of trees in a reply about streams or pending
/// entries.
fn without_clocks(reply: &Reply) -> Reply {
    /// Numbers above this are present-day times in milliseconds.
    const CLOCK: i64 = 1_000_000_000_000;
    const ANY: [&[u8]; 3] = [b"radix-tree-keys", b"radix-tree-nodes", b"idle"];
    let (items, is_map) = match reply {
        Reply::Array(items) => (items, false),
        Reply::Map(items) => (items, true),
        Reply::Integer(time) if *time > CLOCK => return Reply::Integer(CLOCK),
        other => return other.clone(),
    };
    let is_pending = matches!(
        items.as_slice(),
        [
            Reply::Bulk(_),
            Reply::Bulk(_),
            Reply::Integer(_),
            Reply::Integer(_)
        ]
    );
    let mut shown: Vec<Reply> = items.iter().map(without_clocks).collect();
    for place in 1..shown.len() {
        let named =
            matches!(&shown[place - 1], Reply::Bulk(name) if ANY.contains(&name.as_slice()));
        if named || is_pending && place == 2 {
            shown[place] = Reply::Integer(0);
        }
    }
    if is_map {
        Reply::Map(shown)
    } else {
        Reply::Array(shown)
    }
}

fn command_heads(reply: &Reply) -> Vec<Option<Vec<String>>> {
    let entries = reply.items().unwrap_or_default();
    let head = |entry: &Reply| {
        let fields = entry.items()?;
        let shown = fields.iter().take(6).map(|field| {
            let mut parts: Vec<String> = match field.items() {
                Some(flags) => flags.iter().map(text).collect(),
                None => vec![field.to_string()],
            };
            parts.sort();
            parts.join(" ")
        });
        Some(shown.collect())
    };
    entries.iter().map(head).collect()
}

/// Returns the field names of CLIENT INFO, with the values of those fields that do not depend on
/// addresses, clocks or buffers. For CLIENT LIST, returns only the names, because the remaining
/// connections differ between servers.
fn client_fields(reply: &Reply) -> Vec<String> {
    let all = text(reply);
    let lines: Vec<&str> = all.lines().collect();
    let mut fields = Vec::new();
    for field in lines.first().unwrap_or(&"").split_whitespace() {
        let name = field.split('=').next().unwrap_or_default();
        // Redis 7.2 added these fields.
        if ["lib-name", "lib-ver"].contains(&name) {
            continue;
        }
        let fixed = [
            "name", "db", "sub", "psub", "multi", "user", "redir", "resp", "cmd",
        ];
        let known = lines.len() == 1 && fixed.contains(&name);
        fields.push(if known { field } else { name }.to_owned());
    }
    fields
}

fn info_fields(reply: &Reply) -> Vec<String> {
    let all = text(reply);
    let comparable = |line: &&str| line.starts_with("redis_version:") || line.starts_with("db");
    all.lines()
        .filter(comparable)
        .map(|line| {
            line.split(",avg_ttl=")
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(line: &str, a: Reply, b: Reply) -> bool {
        let command = Command::parse(line).unwrap();
        compare(&command, &a, &b, Rules::default()) == Verdict::Same
    }

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    #[test]
    fn tolerates_only_differences_that_redis_leaves_open() {
        let (ab, ba) = (vec![bulk("a"), bulk("b")], vec![bulk("b"), bulk("a")]);
        assert!(judged(
            "keys *",
            Reply::Array(ab.clone()),
            Reply::Array(ba.clone())
        ));
        assert!(!judged(
            "MGET a b",
            Reply::Array(ab.clone()),
            Reply::Array(ba)
        ));
        assert!(!judged(
            "KEYS *",
            Reply::Array(ab),
            Reply::Array(vec![bulk("a"), bulk("a")])
        ));
        let four = |order: [&str; 4]| Reply::Array(order.map(bulk).to_vec());
        let (fields, turned) = (four(["a", "1", "b", "2"]), four(["b", "2", "a", "1"]));
        assert!(judged("HGETALL k", fields.clone(), turned));
        assert!(!judged("HGETALL k", fields, four(["a", "2", "b", "1"])));
        let one = |text: &str| Reply::Array(vec![bulk(text)]);
        assert!(judged("SRANDMEMBER k 1", one("a"), one("b")));
        assert!(!judged("SRANDMEMBER k 1", one("a"), Reply::Array(vec![])));
        assert!(!judged("SRANDMEMBER k", bulk("a"), Reply::NullBulk));
        assert!(judged("TTL k", Reply::Integer(1000), Reply::Integer(1001)));
        assert!(!judged("TTL k", Reply::Integer(-1), Reply::Integer(1)));
        assert!(!judged("TTL k", Reply::Integer(1000), Reply::Integer(2000)));
        assert!(!judged("STRLEN k", Reply::Integer(1), Reply::Integer(2)));
        assert!(!judged(
            "TIME",
            Reply::Array(vec![]),
            Reply::Error(b"ERR".to_vec())
        ));
        assert!(!judged("RANDOMKEY", bulk("a"), Reply::NullBulk));
        assert!(!judged("GET k", Reply::Null, Reply::NullBulk));
    }

    #[test]
    fn sign_of_zero_is_a_detail_of_encodings() {
        let command = Command::parse("ZRANGE k 0 -1 WITHSCORES").unwrap();
        let scores = |items: [&str; 4]| Reply::Array(items.map(bulk).to_vec());
        let (one, other) = (scores(["a", "0", "b", "1"]), scores(["a", "-0", "b", "1"]));
        let member = scores(["-0", "0", "b", "1"]);
        for encodings in [false, true] {
            let rules = Rules {
                encodings,
                ..Rules::default()
            };
            let is_same = |a, b| compare(&command, a, b, rules) == Verdict::Same;
            assert_eq!(is_same(&one, &other), !encodings);
            assert!(!is_same(&one, &member));
            assert!(!is_same(&member, &scores(["0", "0", "b", "1"])));
        }
    }

    #[test]
    fn errors_are_compared_as_text() {
        let error = |t: &str| Reply::Error(t.into());
        assert!(!judged(
            "TTL",
            error("ERR syntax error"),
            error("ERR Syntax error")
        ));
        assert!(judged(
            "TTL",
            error("ERR syntax error"),
            error("ERR syntax error")
        ));
    }

    #[test]
    fn info_ignores_clocks_but_not_counts() {
        let with = |keys: u32, ttl: u32| {
            bulk(&format!(
                "# Keyspace\r\ndb0:keys={keys},expires=0,avg_ttl={ttl}\r\n"
            ))
        };
        assert!(judged("INFO keyspace", with(3, 10), with(3, 20)));
        assert!(!judged("INFO keyspace", with(3, 10), with(4, 10)));
    }
}
