//! Fuzzes the recovery of stores from damaged journals: recovery ends with an error, or with a store in
//! which the check finds no problem.
//!
//! The journal has a checkpoint and a segment. The first byte of the input contains flags. If bit 0 is
//! set, checksums are corrected, so that the contents are reached; the recovered store may then be
//! damaged. Bits 1 and 2 select what the remaining bytes are:
//!
//! - 0: changes to a sound journal of twelve bytes each: the record, or with the highest bit the part
//!   of the checkpoint; the word in it; and the value to XOR into the word.
//! - 1: the records of the segment.
//! - 2: the parts of the checkpoint.
//! - 3: both files, after the length of the checkpoint in two bytes.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use undercroft_engine::{Expiry, Store};
use undercroft_memory::{
    Durability, JournalOptions, RecoveryWatch, Segment, Until, read_journal, verify_journal,
};

use crate::store::{directory, place};

/// Flags, and the positions and lengths with which records and parts of checkpoints begin.
pub(crate) const TOKENS: &[&[u8]] = &[
    b"\0\0",
    b"\x01\x80\x00\0\0\x01\0\0\0\0\0\0\0",
    b"\x01\x00\x80\x01\0\x01\0\0\0\0\0\0\0",
    b"\x08\0\0\0\x01\0\0\0",
    b"\x06\0\0\0\x02\0\0\0",
    b"\0\0\x01\0\0\0\0\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
];

/// The length of a file's header.
const HEADER: usize = 4096;
/// The number of bytes before the entries of a record.
const RECORD: usize = 48;
/// The place of the checksum in a record.
const RECORD_SUM: usize = 40;
/// The number of bytes before the contents of a part.
const PART: usize = 24;
/// The number of the journal's only epoch.
const EPOCH: u64 = 1;

/// A sound journal, as names and contents of its files.
struct Sample {
    checkpoint: (String, Vec<u8>),
    segment: (String, Vec<u8>),
    /// The length of the segment's header and records.
    end: usize,
}

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| {
    let (directory, store) = place();
    let folder = directory.path().join("journal");
    let set = |key: &[u8], value: &[u8]| store.set(0, key, value).expect("room");
    set(b"long", &[b'v'; 9000]);
    set(b"key", b"value");
    let segment = Segment::open(&directory.path().join("store"), true).expect("just made");
    let sizes = JournalOptions {
        ring: Some(64 << 10),
        segment: Some(64 << 10),
    };
    let begun = segment.begin_journal(&folder, Durability::EverySecond, &sizes);
    begun.expect("a journal");
    set(b"key", b"another value");
    set(b"short", b"v");
    store.delete(0, &[b"long"]).expect("room");
    let key = store.key(b"short");
    let expiry = Expiry::At(1 << 42);
    let written = store.write(store.shards_of([&key]), |writer| {
        writer.set(0, &key, &[b'x'; 500], expiry)
    });
    written.expect("room");
    segment.make_durable().expect("a durable journal");
    let end = segment.journal().expect("a journal").durable;
    let file = |suffix: &str| {
        let entries = fs::read_dir(&folder).expect("the folder").flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names = names.filter(|name| name.ends_with(suffix));
        let name = names.next().expect("a file of this kind");
        let bytes = fs::read(folder.join(&name)).expect("the file");
        (name, bytes)
    };
    let segment = file(".segment");
    let start = u64::from_str_radix(segment.0.trim_end_matches(".segment"), 16);
    Sample {
        checkpoint: file(".checkpoint"),
        end: HEADER + (end - start.expect("a position")) as usize,
        segment,
    }
});

fn word(bytes: &[u8], at: usize) -> u64 {
    let some = bytes.get(at..at.saturating_add(8)).unwrap_or(&[0; 8]);
    u64::from_le_bytes(some.try_into().expect("eight bytes"))
}

/// Returns the starts and the lengths of the records in a segment.
fn records(bytes: &[u8]) -> Vec<(usize, usize)> {
    let length = |at: usize| {
        (word(bytes, at + 8) as u32 as usize)
            .saturating_mul(8)
            .max(RECORD)
    };
    pieces(bytes, length)
}

/// Returns the starts and the lengths of the parts of a checkpoint.
fn parts(bytes: &[u8]) -> Vec<(usize, usize)> {
    pieces(bytes, |at| {
        (word(bytes, at + 8) as usize).saturating_add(PART)
    })
}

fn pieces(bytes: &[u8], length: impl Fn(usize) -> usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = HEADER;
    while at < bytes.len() {
        let length = length(at);
        match at.checked_add(length) {
            Some(end) if end <= bytes.len() => found.push((at, length)),
            _ => break,
        }
        at += length;
    }
    found
}

fn crc(parts: &[&[u8]]) -> [u8; 8] {
    let sum = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);
    let mut digest = sum.digest();
    parts.iter().for_each(|part| digest.update(part));
    u64::from(digest.finalize()).to_le_bytes()
}

/// Corrects all checksums except those of the files' headers.
fn seal(checkpoint: &mut [u8], segment: &mut [u8]) {
    for (at, length) in records(segment) {
        let record = &mut segment[at..at + length];
        let sum = crc(&[
            &EPOCH.to_le_bytes(),
            &record[..RECORD_SUM],
            &record[RECORD..],
        ]);
        record[RECORD_SUM..RECORD].copy_from_slice(&sum);
    }
    for (at, length) in parts(checkpoint) {
        let part = &mut checkpoint[at..at + length];
        let sum = crc(&[&part[..PART - 8], &part[PART..]]);
        part[PART - 8..PART].copy_from_slice(&sum);
    }
}

/// Applies a change of twelve bytes.
fn apply(change: &[u8], checkpoint: &mut [u8], segment: &mut [u8], end: usize) {
    let number = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
    let (bytes, pieces) = match number(0) & 0x8000 {
        0 => {
            let pieces = records(&segment[..end]);
            (segment, pieces)
        }
        _ => {
            let pieces = parts(checkpoint);
            (checkpoint, pieces)
        }
    };
    if pieces.is_empty() {
        return;
    }
    let (start, length) = pieces[(number(0) & 0x7fff) % pieces.len()];
    let at = start + number(2) % (length / 8) * 8;
    let value = word(bytes, at) ^ word(change, 4);
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Recovers a store from the journal that the input describes.
pub(crate) fn recover(input: &[u8]) {
    let [how, rest @ ..] = input else {
        return;
    };
    let sample = &*SAMPLE;
    let (mut checkpoint, mut segment) = (sample.checkpoint.1.clone(), sample.segment.1.clone());
    match how >> 1 & 3 {
        0 => {
            for change in rest.chunks_exact(12) {
                apply(change, &mut checkpoint, &mut segment, sample.end);
            }
        }
        1 => {
            segment[HEADER..].fill(0);
            segment[HEADER..HEADER + rest.len()].copy_from_slice(rest);
        }
        2 => {
            checkpoint.truncate(HEADER);
            checkpoint.extend_from_slice(rest);
        }
        _ => {
            let Some((length, rest)) = rest.split_at_checked(2) else {
                return;
            };
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let (first, second) = rest.split_at(length.min(rest.len()));
            (checkpoint, segment) = (first.to_vec(), second.to_vec());
        }
    }
    let is_sealed = how & 1 != 0;
    if is_sealed {
        seal(&mut checkpoint, &mut segment);
    }
    let directory = directory();
    let folder = directory.path().join("journal");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join(&sample.checkpoint.0), &checkpoint).expect("room");
    fs::write(folder.join(&sample.segment.0), &segment).expect("room");
    recover_from(&folder, &directory.path().join("store"), is_sealed);
}

fn recover_from(folder: &Path, path: &Path, is_sealed: bool) {
    let watch = RecoveryWatch::default();
    let _ = verify_journal(folder, &watch);
    let _ = read_journal(folder, &watch, &mut |_| true);
    let Ok(recovered) = Segment::recover_until(path, folder, Until::End, &watch) else {
        return;
    };
    drop(recovered);
    let Ok(store) = Store::open(path, true) else {
        assert!(is_sealed, "the recovered store does not open");
        return;
    };
    let report = store.check();
    if !is_sealed {
        let problems = report.expect("the recovered store can be checked").problems;
        assert!(problems.is_empty(), "the recovered store: {problems:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_journal_is_recovered_and_sealed_alike() {
        let sample = &*SAMPLE;
        let (mut checkpoint, mut segment) = (sample.checkpoint.1.clone(), sample.segment.1.clone());
        assert!(records(&segment[..sample.end]).len() >= 4);
        assert!(parts(&checkpoint).len() >= 4);
        seal(&mut checkpoint, &mut segment[..sample.end]);
        assert!(checkpoint == sample.checkpoint.1 && segment == sample.segment.1);
        let directory = directory();
        let folder = directory.path().join("journal");
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join(&sample.checkpoint.0), &checkpoint).expect("room");
        fs::write(folder.join(&sample.segment.0), &segment).expect("room");
        let path = directory.path().join("store");
        recover_from(&folder, &path, false);
        let store = Store::open(&path, false).expect("a recovered store");
        let mut value = Vec::new();
        assert!(store.get(0, b"key", &mut value).expect("a read"));
        assert_eq!(value, b"another value");
        if std::env::var_os("UNDERCROFT_FUZZ_SEEDS").is_some() {
            let records = &segment[HEADER..sample.end];
            println!(
                "{} bytes of records, {} of the checkpoint",
                records.len(),
                checkpoint.len()
            );
            let seed = [&[2], records].concat();
            fs::write("seeds/journal/records", seed).expect("a seed");
        }
    }
}
