//! Compares all data of two servers.

use undercroft_conformance::client::Client;
use undercroft_conformance::resp::Reply;

use crate::support::{call, line};

/// The number of databases.
const DATABASES: usize = 16;

/// Asserts that two servers have the same keys with the same values and expiries, and the same
/// function libraries. Returns the number of keys.
pub(crate) fn assert_equal(one: &mut Client, other: &mut Client) -> usize {
    compare(one, other, true)
}

/// Like [`assert_equal`], but compares only the entries of streams, not their counts and groups.
pub(crate) fn assert_equal_entries(one: &mut Client, other: &mut Client) -> usize {
    compare(one, other, false)
}

fn compare(one: &mut Client, other: &mut Client, has_counts: bool) -> usize {
    let mut keys = 0;
    for database in 0..DATABASES {
        let select = format!("SELECT {database}");
        line(one, &select);
        line(other, &select);
        let [names, others] = [&mut *one, &mut *other].map(|client| {
            let mut names = items(&line(client, "KEYS *"));
            names.sort();
            names
        });
        let shown = |names: &[Vec<u8>]| -> Vec<String> {
            names
                .iter()
                .map(|name| name.escape_ascii().to_string())
                .collect()
        };
        assert_eq!(shown(&names), shown(&others), "database {database}");
        for name in &names {
            let expected = described(one, name, has_counts);
            let found = described(other, name, has_counts);
            if expected != found {
                let mut pairs = expected.iter().zip(&found);
                let first = pairs.find(|(one, other)| one != other);
                let shown: String = format!("{first:?}").chars().take(2000).collect();
                panic!("{} in {database} differs: {shown}", name.escape_ascii());
            }
        }
        keys += names.len();
    }
    line(one, "SELECT 0");
    line(other, "SELECT 0");
    assert_eq!(libraries(one), libraries(other));
    keys
}

fn items(reply: &Reply) -> Vec<Vec<u8>> {
    match reply {
        Reply::Array(items) => items
            .iter()
            .map(|item| item.bytes().unwrap_or_default().to_vec())
            .collect(),
        other => panic!("expected an array, got {other:?}"),
    }
}

/// Returns the texts of all function libraries, sorted.
fn libraries(client: &mut Client) -> Vec<String> {
    let reply = line(client, "FUNCTION LIST WITHCODE");
    let Reply::Array(libraries) = reply else {
        panic!("expected libraries, got {reply:?}");
    };
    let text = |library: Reply| match library {
        Reply::Array(fields) => fields.last().map(|text| format!("{text:?}")),
        _ => None,
    };
    let mut texts: Vec<String> = libraries.into_iter().filter_map(text).collect();
    texts.sort();
    texts
}

/// Describes a key by its type, its expiry and its whole value, whatever its encoding.
fn described(client: &mut Client, key: &[u8], has_counts: bool) -> Vec<Reply> {
    let mut of = |words: &[&[u8]]| call(client, words);
    let value_type = of(&[b"TYPE", key]);
    let expiry = of(&[b"PEXPIRETIME", key]);
    let mut found = vec![value_type.clone(), expiry];
    let unordered = |reply: Reply, width: usize| {
        let mut elements: Vec<Vec<Vec<u8>>> =
            items(&reply).chunks(width).map(<[_]>::to_vec).collect();
        elements.sort();
        let bulks = elements.into_iter().flatten().map(Reply::Bulk);
        Reply::Array(bulks.collect())
    };
    match &value_type {
        Reply::Simple(name) => match &name[..] {
            b"string" => found.push(of(&[b"GET", key])),
            b"list" => found.push(of(&[b"LRANGE", key, b"0", b"-1"])),
            b"set" => found.push(unordered(of(&[b"SMEMBERS", key]), 1)),
            b"hash" => found.push(unordered(of(&[b"HGETALL", key]), 2)),
            b"zset" => {
                let reply = of(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
                found.push(Reply::Array(scored(&items(&reply))));
            }
            b"stream" => {
                found.push(of(&[b"XRANGE", key, b"-", b"+"]));
                if has_counts {
                    found.extend(stream(client, key));
                }
            }
            other => panic!("unknown type {}", other.escape_ascii()),
        },
        other => panic!("expected a type, got {other:?}"),
    }
    found
}

/// Returns members and their scores, formatted in one way: servers write them with a different
/// number of digits.
fn scored(items: &[Vec<u8>]) -> Vec<Reply> {
    let scored = items.chunks(2).flat_map(|pair| {
        let text = String::from_utf8_lossy(&pair[1]);
        let score: f64 = text.parse().expect("a score");
        [pair[0].clone(), format!("{score:?}").into_bytes()]
    });
    scored.map(Reply::Bulk).collect()
}

/// Returns the properties of a stream and its groups that do not depend on time.
fn stream(client: &mut Client, key: &[u8]) -> Vec<Reply> {
    let named = |reply: &Reply, names: &[&str]| -> Vec<Reply> {
        let Reply::Array(fields) = reply else {
            panic!("expected fields, got {reply:?}");
        };
        names
            .iter()
            .map(|name| {
                let mut pairs = fields.chunks(2);
                let pair = pairs.find(|pair| pair[0].bytes() == Some(name.as_bytes()));
                pair.unwrap_or_else(|| panic!("no {name} in {reply:?}"))[1].clone()
            })
            .collect()
    };
    let info = call(client, &[&b"XINFO"[..], b"STREAM", key]);
    let mut found = named(
        &info,
        &[
            "length",
            "last-generated-id",
            "max-deleted-entry-id",
            "entries-added",
            "groups",
        ],
    );
    let groups = call(client, &[&b"XINFO"[..], b"GROUPS", key]);
    let Reply::Array(groups) = groups else {
        panic!("expected groups");
    };
    for group in groups {
        let fields = [
            "name",
            "consumers",
            "pending",
            "last-delivered-id",
            "entries-read",
        ];
        let fields = named(&group, &fields);
        let name = fields[0].bytes().expect("a name").to_vec();
        found.extend(fields);
        let pending = call(client, &[b"XPENDING", key, &name, b"-", b"+", b"1000"]);
        let Reply::Array(pending) = pending else {
            panic!("expected pending entries");
        };
        for entry in pending {
            let Reply::Array(fields) = entry else {
                panic!("expected an entry");
            };
            // The third field is the time since the delivery.
            found.extend([fields[0].clone(), fields[1].clone(), fields[3].clone()]);
        }
    }
    found
}
