//! Compares the bytes that DUMP returns with those of a real server, and restores payloads in both
//! directions.

use undercroft_commands::reply::Tree;
use undercroft_engine::rdb::{RestoreError, dump, restore};
use undercroft_engine::{Encoding, Ranges, ValueType};

use crate::support::{RealServer, random};

const LIMIT: usize = 512 << 20;

fn dump_string(value: &[u8]) -> Vec<u8> {
    let mut items = Ranges::new();
    items.push(value);
    dump(ValueType::String, Encoding::Raw, &items)
}

fn restore_string(payload: &[u8]) -> Result<Vec<u8>, RestoreError> {
    let (value_type, items) = restore(payload, LIMIT)?;
    assert_eq!(value_type, ValueType::String);
    Ok(items.iter().next().unwrap_or_default().to_vec())
}

/// Returns a random value of any encoding: an integer, noise, or text with near and distant
/// repetitions.
fn value(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = match random.u8(..4) {
        0 => random.usize(..30),
        1 => random.usize(..300),
        2 => random.usize(..5_000),
        _ => random.usize(..40_000),
    };
    match random.u8(..6) {
        0 => (random.i64(..) >> random.u32(..64))
            .to_string()
            .into_bytes(),
        1 => (0..length).map(|_| random.u8(..)).collect(),
        2 => vec![random.u8(..); length],
        3 => {
            let letters = random.u8(1..=30);
            (0..length).map(|_| random.u8(..letters)).collect()
        }
        _ => {
            let words: Vec<Vec<u8>> = (0..random.usize(1..40))
                .map(|_| (0..random.usize(1..12)).map(|_| random.u8(..)).collect())
                .collect();
            let mut text = Vec::new();
            while text.len() < length {
                text.extend(&words[random.usize(..words.len())]);
            }
            text
        }
    }
}

#[test]
fn payloads_equal_those_of_redis() {
    const VALUES: usize = 4_000;
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    let mut different = 0;
    for _ in 0..VALUES {
        let value = value(&mut random);
        client.call(&[b"SET", b"k", &value]);
        let Tree::Bulk(theirs) = client.words("DUMP k") else {
            panic!("DUMP answers a string")
        };
        let ours = dump_string(&value);
        assert_eq!(
            restore_string(&theirs).as_deref(),
            Ok(&value[..]),
            "their payload of {}",
            value.escape_ascii()
        );
        let restored = client.call(&[b"RESTORE", b"r", b"0", &ours, b"REPLACE"]);
        assert_eq!(
            restored,
            Tree::Simple("OK".into()),
            "our payload of {}",
            value.escape_ascii()
        );
        assert_eq!(client.words("GET r"), Tree::Bulk(value));
        different += usize::from(ours != theirs);
    }
    assert_eq!(
        different, 0,
        "of {VALUES} payloads differ in the matches chosen"
    );
}

/// Returns a short random value, which is sometimes an integer.
fn item(random: &mut fastrand::Rng, longest: usize) -> Vec<u8> {
    match random.u8(..3) {
        0 => (random.i64(..) >> random.u32(..64))
            .to_string()
            .into_bytes(),
        _ => (0..random.usize(..longest))
            .map(|_| random.u8(..8))
            .collect(),
    }
}

/// Splits a listing command's reply into groups of `width` items. Sorts the groups unless their
/// order matters.
fn listed(reply: Tree, width: usize, ordered: bool) -> Vec<Vec<Vec<u8>>> {
    let Tree::Array(items) = reply else {
        panic!("not an array: {reply:?}")
    };
    let texts: Vec<Vec<u8>> = items
        .into_iter()
        .map(|item| match item {
            Tree::Bulk(text) => text,
            other => panic!("not a text: {other:?}"),
        })
        .collect();
    let mut groups: Vec<Vec<Vec<u8>>> = texts.chunks(width).map(<[Vec<u8>]>::to_vec).collect();
    if !ordered {
        groups.sort();
    }
    groups
}

#[test]
fn collections_restore_in_both_directions() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    // Each row contains the command that adds elements, the command that lists them, the type, the
    // number of reply items per element, and whether the order matters.
    let kinds = [
        ("HSET", "HGETALL", ValueType::Hash, 2, false),
        ("SADD", "SMEMBERS", ValueType::Set, 1, false),
        ("RPUSH", "LRANGE", ValueType::List, 1, true),
    ];
    let mut same = 0;
    for round in 0..600 {
        let (add, list, value_type, width, ordered) = kinds[round % kinds.len()];
        let elements = [1, 3, 40, 600, 2000][random.usize(..5)];
        let longest = [8, 64, 200, 9000][random.usize(..if elements > 40 { 3 } else { 4 })];
        let integers = value_type == ValueType::Set && random.bool();
        let mut words: Vec<Vec<u8>> = vec![add.into(), b"k".to_vec()];
        for _ in 0..elements * width {
            words.push(match integers {
                true => (random.i64(..) >> random.u32(30..64))
                    .to_string()
                    .into_bytes(),
                false => item(&mut random, longest),
            });
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        client.words("DEL k");
        client.call(&words);
        let read = |key: &str| match value_type {
            ValueType::List => format!("{list} {key} 0 -1"),
            _ => format!("{list} {key}"),
        };
        let Tree::Bulk(theirs) = client.words("DUMP k") else {
            panic!("DUMP answers a string")
        };
        let (found, items) = restore(&theirs, LIMIT).expect("a value of Redis");
        assert_eq!(found, value_type);
        let expected = listed(client.words(&read("k")), width, ordered);
        let ours = Tree::Array(items.iter().map(|text| Tree::Bulk(text.to_vec())).collect());
        assert_eq!(listed(ours, width, ordered), expected);
        let Tree::Bulk(name) = client.words("OBJECT ENCODING k") else {
            panic!("an encoding")
        };
        let encoding = match name.as_slice() {
            b"listpack" => Encoding::ListPack,
            b"intset" => Encoding::IntSet,
            b"hashtable" => Encoding::HashTable,
            _ => Encoding::QuickList,
        };
        let payload = dump(value_type, encoding, &items);
        let restored = client.call(&[b"RESTORE", b"r", b"0", &payload, b"REPLACE"]);
        assert_eq!(
            restored,
            Tree::Simple("OK".into()),
            "{value_type:?} {encoding:?}"
        );
        assert_eq!(listed(client.words(&read("r")), width, ordered), expected);
        assert_eq!(client.words("OBJECT ENCODING r"), Tree::Bulk(name));
        if matches!(encoding, Encoding::ListPack | Encoding::IntSet) {
            assert_eq!(payload, theirs, "{encoding:?}");
            same += 1;
        }
    }
    assert!(same > 50, "{same} in one piece");
}

#[test]
fn sorted_sets_restore_in_both_directions() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    for members in [1, 100, 128, 129, 500] {
        client.words("DEL k");
        for member in 0..members {
            let score = random.i32(..) as f64 / [1.0, 8.0, 3.0][member % 3];
            client.words(&format!("ZADD k {score} member:{member}"));
        }
        let Tree::Bulk(theirs) = client.words("DUMP k") else {
            panic!("DUMP answers a string")
        };
        let (found, items) = restore(&theirs, LIMIT).expect("a value of Redis");
        assert_eq!((found, items.len()), (ValueType::SortedSet, members * 2));
        let encoding = if members > 128 {
            Encoding::SkipList
        } else {
            Encoding::ListPack
        };
        let payload = dump(ValueType::SortedSet, encoding, &items);
        let restored = client.call(&[b"RESTORE", b"r", b"0", &payload, b"REPLACE"]);
        assert_eq!(restored, Tree::Simple("OK".into()));
        let all = |key: &str| format!("ZRANGE {key} 0 -1 WITHSCORES");
        assert_eq!(client.words(&all("r")), client.words(&all("k")));
        if members <= 128 {
            assert_eq!(payload, theirs);
        }
    }
}

#[test]
fn impossible_collections_are_refused() {
    let seal = |body: &[u8]| {
        let crc = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);
        let mut payload = [body, &10u16.to_le_bytes()].concat();
        let checksum = crc.checksum(&payload);
        payload.extend(checksum.to_le_bytes());
        payload
    };
    for (body, what) in [
        (&b"\x04\x00"[..], "an empty hash"),
        (b"\x04\x02\x01a\x01b\x01a\x01c", "a field twice"),
        (b"\x04\x01\x01a", "a field without a value"),
        (b"\x02\x02\x01a\x01a", "a member twice"),
        (
            b"\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            "members without end",
        ),
        (
            b"\x04\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            "fields without end",
        ),
        (
            b"\x0b\x0a\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00",
            "integers of three bytes",
        ),
        (
            b"\x0b\x0a\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00",
            "fewer integers than counted",
        ),
        (b"\x10\x07\x07\x00\x00\x00\x00\x00\xff", "an empty listpack"),
        (
            b"\x10\x09\x09\x00\x00\x00\x01\x00\x01\x01\xff",
            "a listpack of a field without a value",
        ),
        (b"\x12\x01\x03\x01a", "a node of an unknown kind"),
        (b"\x12\x00", "a list without nodes"),
        (
            b"\x11\x07\x07\x00\x00\x00\x00\x00\xff",
            "an empty sorted set",
        ),
        (b"\x15\x00", "a type of a later Redis"),
    ] {
        assert!(restore(&seal(body), LIMIT).is_err(), "{what}");
    }
    // Any reply is acceptable, as long as the decoder does not panic.
    let mut random = random();
    for _ in 0..200_000 {
        let kind = [1, 2, 4, 5, 10, 11, 13, 14, 16, 17, 18][random.usize(..11)];
        let mut body: Vec<u8> = (0..random.usize(..60)).map(|_| random.u8(..)).collect();
        body.insert(0, kind);
        let items = restore(&seal(&body), 1 << 20);
        assert!(items.is_err() || items.is_ok_and(|(_, items): (_, Ranges)| !items.is_empty()));
    }
}

#[test]
fn damaged_payloads_are_accepted_only_if_redis_accepts_them() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let mut client = server.connect();
    let mut random = random();
    // Damaged content reaches the decoder only if the checksum is valid.
    let seal = |body: &[u8]| {
        let crc = crc::Crc::<u64>::new(&crc::CRC_64_REDIS);
        let mut payload = [body, &10u16.to_le_bytes()].concat();
        let checksum = crc.checksum(&payload);
        payload.extend(checksum.to_le_bytes());
        payload
    };
    let mut refused = 0;
    for round in 0..3_000 {
        let text: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..3)).collect();
        let mut payload = dump_string(&text);
        let position = random.usize(1..payload.len());
        payload[position] ^= 1 << random.u8(..8);
        // Most rounds correct the checksum. Skip lengths that exceed the payload, because the real
        // server allocates that amount of memory or aborts.
        if round % 4 > 0 {
            let body = payload.len() - 10;
            payload = seal(&payload[..body]);
            if payload
                .get(1)
                .is_some_and(|byte| *byte == 0x81 || *byte == 0x80)
            {
                continue;
            }
        }
        let theirs = client.call(&[b"RESTORE", b"r", b"0", &payload, b"REPLACE"]);
        match restore_string(&payload) {
            Ok(value) => {
                assert_eq!(
                    theirs,
                    Tree::Simple("OK".into()),
                    "{}",
                    payload.escape_ascii()
                );
                assert_eq!(
                    client.words("GET r"),
                    Tree::Bulk(value),
                    "{}",
                    payload.escape_ascii()
                );
            }
            // Redis also accepts certain damaged payloads as values: a length that extends into the
            // footer, or an integer marker in place of a length.
            Err(error) => {
                let expected = [
                    Tree::Error(error.message().into()),
                    Tree::Simple("OK".into()),
                ];
                assert!(
                    expected.contains(&theirs),
                    "{theirs:?} for {}",
                    payload.escape_ascii()
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 500, "{refused}");
}
