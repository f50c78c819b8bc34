//! The format of an export: what is written is read, what is damaged is refused, and the document tells the truth.

use std::convert::Infallible;

use super::*;

type Record = (usize, Vec<u8>, Option<u64>, Vec<u8>);

fn sample() -> Vec<Record> {
    let mut records: Vec<Record> = (0..50_u16)
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
    // Two that fill blocks of their own.
    records.push((1, b"large".to_vec(), None, vec![7; BLOCK_FULL + 3]));
    records.push((2, b"last".to_vec(), Some(u64::MAX), b"value".to_vec()));
    records
}

fn written(records: &[Record]) -> (Vec<u8>, Counts) {
    let mut builder = Builder::default();
    for (database, key, expiry, value) in records {
        builder.add(&Item {
            database: *database,
            key,
            value_type: ValueType::String,
            expiry: *expiry,
            value,
        });
    }
    let length = builder.length();
    let mut out = Vec::new();
    let counts = builder
        .write(&mut out, 5, |_| ())
        .expect("memory takes all");
    assert_eq!(out.len() as u64, length);
    (out, counts)
}

fn read_all(bytes: &[u8]) -> Result<(Vec<Record>, Counts), Refusal<Infallible>> {
    let mut records = Vec::new();
    let counts = read(&mut &bytes[..], bytes.len() as u64, |item, _| {
        records.push((
            item.database,
            item.key.to_vec(),
            item.expiry,
            item.value.to_vec(),
        ));
        Ok(())
    })?;
    Ok((records, counts))
}

#[test]
fn what_is_written_is_read() {
    for records in [Vec::new(), sample()] {
        let (bytes, counts) = written(&records);
        let (found, read) = read_all(&bytes).expect("sound");
        assert_eq!((found, read), (records, counts));
    }
    assert_eq!(written(&sample()).1.blocks, 2);
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
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
            "damaged at byte {}: expected nothing behind the end",
            bytes.len()
        )
    );
}

/// A block with a good checksum whose content is made up.
fn forged(records: u32, payload: &[u8]) -> Vec<u8> {
    let (bytes, _) = written(&[]);
    let mut file = bytes[..HEADER].to_vec();
    write_block(&mut file, KIND_RECORDS, records, payload).expect("memory takes all");
    file.extend(&bytes[HEADER..]);
    file
}

#[test]
fn hostile_content_with_good_checksums_is_refused() {
    let record = |database: u16, code: u8, flags: u8, key: u32, value: u64| {
        let mut bytes = database.to_le_bytes().to_vec();
        bytes.extend([code, flags]);
        bytes.extend(key.to_le_bytes());
        bytes.extend(value.to_le_bytes());
        bytes
    };
    let body = HEADER + BLOCK_HEADER;
    for (records, payload, expected) in [
        (1, record(16, 0, 0, 0, 0), "a database below 16, found 16"),
        (1, record(0, 9, 0, 0, 0), "a value of type 0, found 9"),
        (1, record(0, 0, 2, 0, 0), "no other flag than 1, found 2"),
        (
            1,
            record(0, 0, 0, u32::MAX, 0),
            "a key and a value of at most",
        ),
        (
            1,
            record(0, 0, 0, 0, u64::MAX),
            "a key and a value of at most",
        ),
        (1, record(0, 0, 0, 1, 0), "a whole key"),
        (1, record(0, 0, 0, 0, 1), "a whole value"),
        (1, record(0, 0, 1, 0, 0), "an expiry of 8 bytes"),
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
        text.ends_with("expected nothing behind a block's last record"),
        "{text}"
    );
    let text = read_all(&forged(1, &record(0, 0, 0, 0, 0)))
        .expect_err("hostile")
        .to_string();
    assert!(text.contains("the counts of what came before"), "{text}");
}

#[test]
fn an_announced_length_takes_no_memory() {
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
fn the_document_names_these_numbers() {
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
        ("type of a string", TYPE_STRING.to_string()),
        ("a block is full from", BLOCK_FULL.to_string()),
        ("longest key and value", STRING_MAX.to_string()),
        ("number of databases", DATABASES.to_string()),
    ] {
        let row = format!("| {name} | {value} |");
        assert!(document.contains(&row), "docs/export-format.md lacks {row}");
    }
}

#[test]
fn the_document_shows_a_file_byte_by_byte() {
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
