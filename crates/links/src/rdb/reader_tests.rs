//! Tests of the reader with files that the tests assemble byte by byte. The tests of the command
//! read files that real servers wrote.

use undercroft_engine::rdb::{RdbVersion, decode, decode_expiring_hash};
use undercroft_engine::{Encoding, Ranges, ValueType, rdb};

use super::*;
use crate::rdb::{EncodedKey, Writer, append_key};

/// An input that returns few bytes at a time, as a slow connection does.
struct Slow<'b>(&'b [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(out.len());
        let (now, later) = self.0.split_at(count);
        out[..count].copy_from_slice(now);
        self.0 = later;
        Ok(count)
    }
}

/// Describes all events of a file, or the error.
fn events(input: impl Read) -> Result<Vec<String>, String> {
    let read = || -> Result<Vec<String>, ReadError> {
        let mut reader = Reader::new(input)?;
        let mut found = Vec::new();
        while let Some(event) = reader.next_event()? {
            found.push(match event {
                Event::Aux { name, value } => {
                    format!("aux {} {}", name.escape_ascii(), value.escape_ascii())
                }
                Event::Library { text, .. } => format!("library {}", text.escape_ascii()),
                Event::Sizes {
                    database,
                    keys,
                    expiring,
                } => format!("sizes {database} {keys} {expiring}"),
                Event::Key(key) => format!(
                    "key {} {} {:?} {:?} {:?} {}",
                    key.database,
                    key.key.escape_ascii(),
                    key.expiry,
                    key.usage,
                    key.kind,
                    key.value.escape_ascii()
                ),
            });
        }
        assert!(reader.is_at_end()?, "bytes after the end");
        Ok(found)
    };
    read().map_err(|error| error.to_string())
}

/// Returns a file with the given header and parts, and a checksum of 0, which is not verified.
fn file(header: &str, parts: &[&[u8]]) -> Vec<u8> {
    [header.as_bytes(), &parts.concat(), &[END], &[0; 8]].concat()
}

fn error(header: &str, parts: &[&[u8]]) -> String {
    events(&file(header, parts)[..]).expect_err("the file is refused")
}

fn written() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), RdbVersion::V10).expect("memory");
    writer.aux("redis-ver", "7.0.0").expect("memory");
    writer.library(b"#!lua name=a\n").expect("memory");
    writer.select(3, 2, 1).expect("memory");
    let (mut items, mut value, mut part) = (Ranges::new(), Vec::new(), Vec::new());
    items.push(&b"long ".repeat(200_000));
    let string = (ValueType::String, Encoding::Raw);
    rdb::encode(string, &items, RdbVersion::V10, &mut value);
    append_key(
        &EncodedKey {
            key: b"a",
            expiry: Some(5),
            usage: Some(Usage::Frequency(7)),
            value: &value,
        },
        &mut part,
    );
    items.clear();
    value.clear();
    (0..100_u32).for_each(|number| items.push(&number.to_be_bytes()));
    let list = (ValueType::List, Encoding::QuickList);
    rdb::encode(list, &items, RdbVersion::V10, &mut value);
    append_key(
        &EncodedKey {
            key: b"12",
            expiry: None,
            usage: Some(Usage::IdleSeconds(100)),
            value: &value,
        },
        &mut part,
    );
    writer.append(&part).expect("memory");
    let (bytes, length) = writer.finish().expect("memory");
    assert_eq!(bytes.len() as u64, length);
    bytes
}

#[test]
fn written_file_is_read_back_however_its_bytes_arrive() {
    let bytes = written();
    let found = events(&bytes[..]).expect("sound");
    let expected = [
        "aux redis-ver 7.0.0",
        "library #!lua name=a\\n",
        "sizes 3 2 1",
        "key 3 a Some(5) Some(Frequency(7)) Shared(0) ",
        "key 3 12 None Some(IdleSeconds(100)) Shared(18) ",
    ];
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{expected}");
    }
    for step in [1, 7, 4096] {
        assert_eq!(events(Slow(&bytes, step)).as_ref(), Ok(&found), "{step}");
    }
}

#[test]
fn damage_at_every_position_is_refused_with_an_offset() {
    let bytes = written();
    for position in 9..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x10;
        let why = events(&damaged[..]).expect_err("damage");
        assert!(why.contains("at byte "), "{position}: {why}");
        let why = events(&bytes[..position]).expect_err("cut short");
        assert!(
            why.ends_with("found the end of the file"),
            "{position}: {why}"
        );
    }
}

#[test]
fn wrong_lengths_allocate_nothing() {
    let huge = b"\x81\x00\x00\x00\x00\x1f\xff\xff\xff";
    for parts in [
        &[&[0, 1, b'k'], &huge[..]][..],
        &[&[0], &huge[..]],
        &[&[1, 1, b'k', 0x81], &[0xff; 8]],
        &[&[15, 1, b'k', 0x81], &[0x7f; 8]],
        &[&[AUX, 1, b'k', 0xc3], &huge[..], &huge[..]],
    ] {
        let why = error("REDIS0010", parts);
        assert!(why.contains("damaged at byte"), "{why}");
    }
}

#[test]
fn versions_and_families_decide_which_types_are_known() {
    for header in ["REDIS0001", "REDIS0012", "VALKEY080", "VALKEY081"] {
        let old = header == "REDIS0001";
        let mut bytes = file(header, &[b"\x00\x01k\x01v"]);
        bytes.truncate(bytes.len() - if old { 8 } else { 0 });
        let found = events(&bytes[..]).expect("sound");
        assert_eq!(found, ["key 0 k None None Shared(0) \\x01v"], "{header}");
    }
    for (header, expected) in [
        ("REDIS0013", "version 13 of Redis's format is not supported"),
        ("VALKEY082", "version 82 of Valkey's format"),
        ("VALKEY079", "version 79 of Valkey's format"),
        ("REDIS0000", "version 0 of Redis's format"),
        ("REDIS00x1", "the digits of a version"),
        ("UNDEREXP1", "the magic bytes REDIS or VALKEY"),
    ] {
        let why = error(header, &[]);
        assert!(why.contains(expected), "{header}: {why}");
    }
    let redis = b"\x16\x01k\x01\x05\x01f\x01v";
    let valkey = b"\x16\x01k\x01\x01f\x01v\xff\xff\xff\xff\xff\xff\xff\xff";
    let kind_of = |header: &str, part: &[u8]| {
        let bytes = file(header, &[part]);
        let mut reader = Reader::new(&bytes[..]).expect("sound");
        match reader.next_event() {
            Ok(Some(Event::Key(key))) => {
                let ValueKind::ExpiringHash(encoding) = key.kind else {
                    panic!("another encoding");
                };
                let (_, expiries) =
                    decode_expiring_hash(encoding, key.value, 100).expect("a sound value");
                Ok(expiries)
            }
            Ok(_) => panic!("expected a key"),
            Err(error) => Err(error.to_string()),
        }
    };
    assert_eq!(kind_of("REDIS0012", redis), Ok(vec![Some(5)]));
    assert_eq!(kind_of("VALKEY080", valkey), Ok(vec![None]));
    for (header, kind) in [
        ("REDIS0011", 22),
        ("REDIS0012", 26),
        ("VALKEY080", 23),
        ("VALKEY081", 25),
        ("REDIS0010", 8),
        ("REDIS0012", SLOT_IMPORT),
    ] {
        let why = error(header, &[&[kind], b"\x01k\x01v"]);
        assert!(why.contains(&format!("found {kind}")), "{header}: {why}");
    }
    assert!(error("VALKEY080", &[&[SLOT_IMPORT]]).contains("imported slots"));
}

#[test]
fn modules_are_refused_by_name() {
    // The identifier of "ReJSON-RL", version 3, as RedisJSON writes it.
    let characters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let position = |byte: &u8| characters.iter().position(|other| other == byte);
    let bits = |sum: u64, byte: &u8| sum << 6 | position(byte).expect("known") as u64;
    let module = b"ReJSON-RL".iter().fold(0, bits) << 10 | 3;
    let module = [&[0x81][..], &module.to_be_bytes()].concat();
    let why = error("REDIS0011", &[b"\x07\x03doc", &module, b"\x05\x02{}\x00"]);
    assert!(
        why.contains("'doc'") && why.contains("'ReJSON-RL'"),
        "{why}"
    );
    let why = error("REDIS0011", &[&[MODULE_AUX], &module, b"\x02\x01\x00"]);
    assert!(why.contains("'ReJSON-RL'"), "{why}");
    assert!(error("REDIS0009", &[b"\x06\x01k\x01"]).contains("Redis 4"));
    assert!(error("REDIS0010", &[&[FUNCTION_PRERELEASE]]).contains("7.0"));
}

#[test]
fn hints_and_old_times_are_read() {
    let parts: [&[u8]; 7] = [
        b"\xfe\x0f",
        b"\xf4\x01\x02\x03",
        b"\xfd\x01\x00\x00\x00\x00\x01a\xc0\x05",
        b"\xfd\xff\xff\xff\xff\x00\x01b\x01v",
        b"\xfc\xff\xff\xff\xff\xff\xff\xff\xff\x00\x01c\x01v",
        b"\xf8\x41\x00\x00\x01d\x01v",
        b"\xf9\xff\x05\x01z\x01\x01m\x00\x00\x00\x00\x00\x00\xf8\x3f",
    ];
    assert_eq!(
        events(&file("REDIS0009", &parts)[..]).expect("sound"),
        [
            "key 15 a Some(1000) None Shared(0) \\xc0\\x05",
            "key 15 b Some(0) None Shared(0) \\x01v",
            "key 15 c Some(0) None Shared(0) \\x01v",
            "key 15 d None Some(IdleSeconds(256)) Shared(0) \\x01v",
            "key 15 z None Some(Frequency(255)) Shared(5) \\x01\\x01m\\x00\\x00\\x00\\x00\\x00\\x00\\xf8?",
        ]
    );
    let why = error("REDIS0009", &[b"\xfe\x10\x00\x01k\x01v"]);
    assert!(why.contains("database 16"), "{why}");
}

#[test]
fn ends_of_random_values_match_their_encoding() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut accepted = 0;
    for _ in 0..200_000 {
        let kind = *random
            .choice(&[0, 1, 2, 3, 4, 5, 10, 11, 14, 15, 18, 19, 21])
            .expect("some");
        let mut body: Vec<u8> = (0..random.usize(1..40))
            .map(|_| match random.u8(..4) {
                0 => random.u8(..),
                _ => random.u8(..4),
            })
            .collect();
        let mut items = Ranges::new();
        // A value that the engine accepts as a whole must end where the reader ends it.
        let is_whole = decode(kind, &body, 1000, &mut items).is_some();
        let length = body.len();
        body.extend([0; 64]);
        let bytes = file("REDIS0011", &[&[kind], b"\x01k", &body]);
        let mut reader = Reader::new(&bytes[..]).expect("sound");
        if let Ok(Some(Event::Key(key))) = reader.next_event()
            && is_whole
        {
            assert_eq!(key.value, &body[..length], "type {kind}");
            accepted += 1;
        } else {
            assert!(!is_whole, "type {kind}: {body:?}");
        }
    }
    assert!(accepted > 1000, "{accepted}");
}
