//! Tests the export format: exports read back as written, damaged files are refused, and the
//! documentation is accurate.

use std::convert::Infallible;

use undercroft_engine::Encoding;

use super::*;

type Sample = (usize, Vec<u8>, Option<u64>, Vec<u8>);

fn sample() -> Vec<Sample> {
    let mut records: Vec<Sample> = (0..50_u16)
        .map(|number| {
            let key = format!("key {number}").into_bytes();
            let expiry = (number % 3 == 0).then_some(1_700_000_000_000 + u64::from(number));
            (
                usize::from(number) % 16,
                key,
                expiry,
                vec![number as u8; usize::from(number)],
            )
        })
        .collect();
    records.push((0, Vec::new(), None, Vec::new()));
    // Add two records that each fill a block.
    records.push((1, b"large".to_vec(), None, vec![7; BLOCK_FULL + 3]));
    records.push((2, b"last".to_vec(), Some(u64::MAX), b"value".to_vec()));
    records
}

fn written(records: &[Sample]) -> (Vec<u8>, Counts) {
    let mut writer = Writer::new(Vec::new(), 5).expect("memory takes all");
    for (database, key, expiry, value) in records {
        let mut items = Ranges::new();
        items.push(value);
        let item = Item {
            database: *database,
            key,
            value_type: ValueType::String,
            encoding: Encoding::Raw,
            expiry: *expiry,
            items: &items,
        };
        writer.add(&item).expect("memory takes all");
    }
    finished(writer)
}

fn finished(writer: Writer<Vec<u8>>) -> (Vec<u8>, Counts) {
    let (out, counts, length) = writer.finish().expect("memory takes all");
    assert_eq!(out.len() as u64, length);
    (out, counts)
}

fn read_all(bytes: &[u8]) -> Result<(Vec<Sample>, Counts), Refusal<Infallible>> {
    let mut records = Vec::new();
    let counts = read(&mut &bytes[..], bytes.len() as u64, |item, _| {
        records.push((
            item.database,
            item.key.to_vec(),
            item.expiry,
            item.items.iter().collect::<Vec<_>>().concat(),
        ));
        Ok(())
    })?;
    Ok((records, counts))
}

#[test]
fn exports_read_back_as_written() {
    for records in [Vec::new(), sample()] {
        let (bytes, counts) = written(&records);
        let (found, read) = read_all(&bytes).expect("sound");
        assert_eq!((found, read), (records, counts));
    }
    assert_eq!(written(&sample()).1.blocks, 2);
}

#[test]
fn collections_read_back_and_large_ones_in_parts() {
    let mut writer = Writer::new(Vec::new(), 5).expect("memory takes all");
    let kinds = [
        (ValueType::Hash, 2),
        (ValueType::Set, 1),
        (ValueType::List, 1),
    ];
    let mut expected = Vec::new();
    for (index, (value_type, width)) in kinds.into_iter().enumerate() {
        for elements in [1, 3, 7000] {
            let mut items = Ranges::new();
            for element in 0..elements * width {
                items.push(format!("{element}-{}", "x".repeat(element % 400)).as_bytes());
            }
            let key = format!("{index} {elements}").into_bytes();
            let item = Item {
                database: index,
                key: &key,
                value_type,
                encoding: Encoding::Raw,
                expiry: None,
                items: &items,
            };
            writer.add(&item).expect("memory takes all");
            expected.push((key, value_type, items));
        }
    }
    let (bytes, counts) = finished(writer);
    assert_eq!(counts.keys(), expected.len() as u64);
    assert!(counts.more > 3, "{counts:?}");
    let mut found: Vec<(Vec<u8>, ValueType, Ranges)> = Vec::new();
    let read = read(&mut &bytes[..], bytes.len() as u64, |record, _| {
        if record.more {
            let (key, value_type, items) = found.last_mut().expect("a record before");
            assert_eq!(
                (key.as_slice(), *value_type),
                (record.key, record.value_type)
            );
            record.items.iter().for_each(|item| items.push(item));
        } else {
            found.push((record.key.to_vec(), record.value_type, record.items.clone()));
        }
        Ok::<_, Infallible>(())
    });
    assert_eq!(read.expect("sound"), counts);
    assert!(found == expected, "the items differ");
}

#[test]
fn truncated_and_bit_flipped_files_are_refused() {
    let mut records = sample();
    records.retain(|record| record.3.len() < 20);
    let (bytes, _) = written(&records);
    for length in 0..bytes.len() {
        assert!(read_all(&bytes[..length]).is_err(), "cut at {length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(read_all(&damaged).is_err(), "bit {bit}");
    }
    let longer = [&bytes[..], b"x"].concat();
    let text = read_all(&longer).expect_err("a byte too many").to_string();
    assert_eq!(
        text,
        format!(
            "damaged at byte {}: expected nothing after the end",
            bytes.len()
        )
    );
}

/// Returns a file that contains a forged block with a valid checksum.
fn forged(records: u32, payload: &[u8]) -> Vec<u8> {
    let (bytes, _) = written(&[]);
    let mut file = bytes[..HEADER].to_vec();
    write_block(&mut file, KIND_RECORDS, records, payload).expect("memory takes all");
    file.extend(&bytes[HEADER..]);
    file
}

#[test]
fn hostile_content_with_valid_checksums_is_refused() {
    let record = |database: u16, code: u8, flags: u8, key: u32, value: u64| {
        let mut bytes = database.to_le_bytes().to_vec();
        bytes.extend([code, flags]);
        bytes.extend(key.to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes
    };
    let hash = |value: &[u8]| [record(0, 4, 0, 0, value.len() as u64), value.to_vec()].concat();
    let body = HEADER + BLOCK_HEADER;
    for (records, payload, expected) in [
        (1, record(16, 0, 0, 0, 0), "a database below 16, found 16"),
        (1, record(0, 7, 0, 0, 0), "a type from 0 to 6, found 7"),
        (1, record(0, 0, 2, 0, 0), "no flags other than 1, found 2"),
        (1, record(0, 0, 0, u32::MAX, 0), "a key of at most"),
        (1, record(0, 0, 0, 0, u64::MAX), "a key of at most"),
        (1, record(0, 0, 0, 1, 0), "a whole key"),
        (1, record(0, 0, 0, 0, 1), "a whole value"),
        (1, record(0, 0, 1, 0, 0), "an 8-byte expiry"),
        (1, record(0, 4, 4, 0, 0), "no flags other than 3, found 4"),
        (1, record(0, 2, 2, 0, 4), "a whole value"),
        (
            1,
            record(0, 2, 0, 0, 0),
            "a positive multiple of 1 items, found 0",
        ),
        (1, hash(&[0; 4]), "a positive multiple of 2 items, found 1"),
        (1, hash(&[0; 7]), "a 4-byte item length"),
        (1, hash(&[9, 0, 0, 0, 7]), "a whole item"),
        (1, vec![0; 3], "a record's header of 16 bytes"),
        (u32::MAX, Vec::new(), "a record's header of 16 bytes"),
    ] {
        let text = read_all(&forged(records, &payload))
            .expect_err("hostile")
            .to_string();
        let start = format!("damaged at byte {body}: expected {expected}");
        assert!(text.starts_with(&start), "{text}");
    }
    let text = read_all(&forged(0, b"x")).expect_err("hostile").to_string();
    assert!(
        text.ends_with("expected nothing after the last record of a block"),
        "{text}"
    );
    let text = read_all(&forged(1, &record(0, 0, 0, 0, 0)))
        .expect_err("hostile")
        .to_string();
    assert!(
        text.contains("the counts of the records before it"),
        "{text}"
    );
}

#[test]
fn announced_length_allocates_no_memory() {
    let (bytes, _) = written(&[]);
    let mut file = bytes[..HEADER].to_vec();
    file.extend(KIND_RECORDS.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    file.extend(u64::MAX.to_le_bytes());
    file.extend([0; 4]);
    let text = read_all(&file).expect_err("a huge block").to_string();
    assert!(
        text.contains("expected a block of at most 0 bytes, found 18446744073709551615"),
        "{text}"
    );
}

#[test]
fn document_states_the_format_constants() {
    let document = include_str!("../../../docs/export-format.md");
    let magic = String::from_utf8_lossy(&MAGIC);
    for (name, value) in [
        ("magic", format!("`{magic}`")),
        ("version", VERSION.to_string()),
        ("length of the header", HEADER.to_string()),
        ("length of a block's header", BLOCK_HEADER.to_string()),
        ("length of a record's header", RECORD_HEADER.to_string()),
        ("kind of a block of records", KIND_RECORDS.to_string()),
        ("kind of the end", KIND_END.to_string()),
        ("length of the end's payload", END.to_string()),
        ("flag of a record that expires", FLAG_EXPIRES.to_string()),
        (
            "flag of a record that adds to the one before",
            FLAG_MORE.to_string(),
        ),
        ("a block is full from", BLOCK_FULL.to_string()),
        ("longest key and value", STRING_MAX.to_string()),
        ("number of databases", DATABASES.to_string()),
    ] {
        let row = format!("| {name} | {value} |");
        assert!(document.contains(&row), "docs/export-format.md lacks {row}");
    }
    for value_type in ValueType::ALL {
        let (name, number) = (value_type.description().plural, value_type.number());
        let row = format!("| type of {name} | {number} |");
        assert!(document.contains(&row), "docs/export-format.md lacks {row}");
    }
}

#[test]
fn document_example_matches_a_written_file() {
    let document = include_str!("../../../docs/export-format.md");
    let (bytes, _) = written(&[(2, b"key".to_vec(), Some(1_700_000_000_000), b"v".to_vec())]);
    let shown: Vec<u8> = document
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter_map(|line| line.split_once("  "))
        .flat_map(|(hex, _)| {
            hex.split(' ')
                .map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits"))
        })
        .collect();
    assert_eq!(shown, bytes);
}
