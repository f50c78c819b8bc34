//! Reads and writes the export format, which `docs/export-format.md` describes.
//!
//! ```text
//! file    = header, blocks, end
//! header  | magic, 8 | version, 4 | reserved, 4 | created, 8 | CRC-32C of these 24 bytes, 4 |
//! block   | kind 1, 4 | records, 4 | length, 8 | CRC-32C of these 16 bytes and the payload, 4 | payload |
//! end     | kind 2, 4 | 0, 4 | 24, 8 | CRC-32C, 4 | records, 8 | blocks, 8 | bytes of keys and values, 8 |
//! record  | database, 2 | type, 1 | flags, 1 | key length, 4 | value length, 8 | expiry, 8, if flag 1 | key | value |
//! value   = the bytes of a string, or of a collection | length, 4 | item | ... |
//! ```

use std::fmt;
use std::io::{self, Read, Write};

use crc::{CRC_32_ISCSI, Crc, Digest, Table};
use undercroft_engine::keyspace::Item;
use undercroft_engine::strings::STRING_MAX;
use undercroft_engine::{DATABASES, Ranges, ValueType};

/// The bytes with which every export begins.
pub(crate) const MAGIC: [u8; 8] = *b"UNDEREXP";
/// The format version that is written, which is also the only version that can be read.
pub(crate) const VERSION: u32 = 1;
/// The length of the file header in bytes.
pub(crate) const HEADER: usize = 28;
/// The length in bytes of a block's header, which precedes the payload.
pub(crate) const BLOCK_HEADER: usize = 20;
/// The length in bytes of a record without its expiry, key and value.
pub(crate) const RECORD_HEADER: usize = 16;
/// The kind of a block that contains records.
pub(crate) const KIND_RECORDS: u32 = 1;
/// The kind of the end block, which contains the counts.
pub(crate) const KIND_END: u32 = 2;
/// The length of the end block's payload in bytes.
pub(crate) const END: usize = 24;
/// The flag of a record that has an expiry.
pub(crate) const FLAG_EXPIRES: u8 = 1;
/// The flag of a record that adds items to the collection of the previous record.
pub(crate) const FLAG_MORE: u8 = 2;
/// The payload size in bytes at which a block is full.
pub(crate) const BLOCK_FULL: usize = 1 << 20;
/// The maximum length of a value in bytes: the items of a nearly full record, plus the longest
/// field and value.
const VALUE_MAX: u64 = (BLOCK_FULL + 8) as u64 + 2 * STRING_MAX;
/// The maximum length of a block in bytes: a nearly full block, plus one record with the longest
/// key and value.
const BLOCK_MAX: u64 = (BLOCK_FULL + RECORD_HEADER + 8) as u64 + STRING_MAX + VALUE_MAX;

static CRC32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The numbers of records, blocks and bytes in an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) records: u64,
    pub(crate) blocks: u64,
    /// The total size of keys and values in bytes.
    pub(crate) bytes: u64,
    /// The number of records that add items to the previous record. Not stored in the file.
    pub(crate) more: u64,
}

impl Counts {
    /// Returns the number of keys in the export.
    pub(crate) fn keys(&self) -> u64 {
        self.records - self.more
    }
}

/// A record read from an export.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'r> {
    pub(crate) database: usize,
    pub(crate) key: &'r [u8],
    pub(crate) value_type: ValueType,
    /// Whether the record adds items to the collection of the previous record.
    pub(crate) more: bool,
    pub(crate) expiry: Option<u64>,
    /// The items of the value as a flat list.
    pub(crate) items: &'r Ranges,
}

/// A writer that produces an export block by block.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    out: W,
    /// The number of records in the current block, whose bytes are in `payload`.
    records: u32,
    payload: Vec<u8>,
    counts: Counts,
    /// The number of bytes written so far.
    length: u64,
}

impl<W: Write> Writer<W> {
    /// Begins an export. `created` is the creation time in Unix milliseconds.
    pub(crate) fn new(mut out: W, created: u64) -> io::Result<Writer<W>> {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[16..24].copy_from_slice(&created.to_le_bytes());
        let checksum = CRC32C.checksum(&header[..24]);
        header[24..].copy_from_slice(&checksum.to_le_bytes());
        out.write_all(&header)?;
        Ok(Writer {
            out,
            records: 0,
            payload: Vec::new(),
            counts: Counts::default(),
            length: HEADER as u64,
        })
    }

    /// Adds a key and its value to the export.
    pub(crate) fn add(&mut self, item: &Item<'_>) -> io::Result<()> {
        if item.value_type == ValueType::String {
            return self.record(item, 0, item.items.iter().next().unwrap_or_default());
        }
        let (mut value, mut more) = (Vec::new(), 0);
        for (index, text) in item.items.iter().enumerate() {
            let whole = index.is_multiple_of(item.value_type.description().width);
            if whole && value.len() >= BLOCK_FULL {
                self.record(item, more, &value)?;
                value.clear();
                more = FLAG_MORE;
            }
            value.extend_from_slice(&(text.len() as u32).to_le_bytes());
            value.extend_from_slice(text);
        }
        self.record(item, more, &value)
    }

    fn record(&mut self, item: &Item<'_>, more: u8, value: &[u8]) -> io::Result<()> {
        if self.payload.len() >= BLOCK_FULL {
            self.end_block()?;
        }
        let expiry = if item.expiry.is_some() {
            FLAG_EXPIRES
        } else {
            0
        };
        let payload = &mut self.payload;
        payload.extend_from_slice(&(item.database as u16).to_le_bytes());
        payload.extend_from_slice(&[item.value_type as u8, expiry | more]);
        payload.extend_from_slice(&(item.key.len() as u32).to_le_bytes());
        payload.extend_from_slice(&(value.len() as u64).to_le_bytes());
        if let Some(expiry) = item.expiry {
            payload.extend_from_slice(&expiry.to_le_bytes());
        }
        payload.extend_from_slice(item.key);
        payload.extend_from_slice(value);
        self.records += 1;
        self.counts.records += 1;
        self.counts.more += u64::from(more != 0);
        self.counts.bytes += (item.key.len() + value.len()) as u64;
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.length += write_block(&mut self.out, KIND_RECORDS, self.records, &self.payload)?;
        self.counts.blocks += 1;
        self.records = 0;
        self.payload.clear();
        Ok(())
    }

    /// Returns the number of keys added so far.
    pub(crate) fn keys(&self) -> u64 {
        self.counts.keys()
    }

    /// Completes the export. Returns the output, the counts, and the length of the export in bytes.
    pub(crate) fn finish(mut self) -> io::Result<(W, Counts, u64)> {
        if self.records > 0 {
            self.end_block()?;
        }
        let mut end = [0; END];
        let Counts {
            records,
            blocks,
            bytes,
            ..
        } = self.counts;
        for (field, value) in end.chunks_mut(8).zip([records, blocks, bytes]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        self.length += write_block(&mut self.out, KIND_END, 0, &end)?;
        Ok((self.out, self.counts, self.length))
    }
}

fn write_block(out: &mut impl Write, kind: u32, records: u32, payload: &[u8]) -> io::Result<u64> {
    let mut header = [0; BLOCK_HEADER];
    header[..4].copy_from_slice(&kind.to_le_bytes());
    header[4..8].copy_from_slice(&records.to_le_bytes());
    header[8..16].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    let mut digest: Digest<'_, u32, Table<16>> = CRC32C.digest();
    digest.update(&header[..16]);
    digest.update(payload);
    header[16..].copy_from_slice(&digest.finalize().to_le_bytes());
    out.write_all(&header)?;
    out.write_all(payload)?;
    Ok((BLOCK_HEADER + payload.len()) as u64)
}

/// The reason why reading a file was aborted.
#[derive(Debug)]
pub(crate) enum Refusal<E> {
    /// The file is not a valid export. The fields specify the offset of the damage and what was
    /// expected there.
    Damaged { at: u64, expected: String },
    /// An I/O error occurred while reading the file.
    Io(io::Error),
    /// The visitor returned an error.
    Visitor(E),
}

impl<E: fmt::Display> fmt::Display for Refusal<E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Damaged { at, expected } => {
                write!(formatter, "damaged at byte {at}: expected {expected}")
            }
            Refusal::Io(error) => error.fmt(formatter),
            Refusal::Visitor(error) => error.fmt(formatter),
        }
    }
}

/// Reads and verifies a complete export, and passes each record to `visit`. `length` is the length
/// of the file, which also limits the memory that is allocated. Takes time proportional to the
/// length, and memory for one block.
pub(crate) fn read<E>(
    input: &mut impl Read,
    length: u64,
    mut visit: impl FnMut(Record<'_>, u64) -> Result<(), E>,
) -> Result<Counts, Refusal<E>> {
    let mut reader = Reader {
        input,
        length,
        at: 0,
    };
    let header: [u8; HEADER] = reader.array("a header of 28 bytes")?;
    if header[..8] != MAGIC {
        return Err(damaged(0, "the magic bytes UNDEREXP of an export"));
    }
    if CRC32C.checksum(&header[..24]) != u32_at(&header, 24) {
        return Err(damaged(24, "the header's checksum"));
    }
    let version = u32_at(&header, 8);
    if version != VERSION {
        return Err(damaged(
            8,
            format!("version {VERSION} of the format, found {version}"),
        ));
    }
    let mut counts = Counts::default();
    let mut payload = Vec::new();
    loop {
        let start = reader.at;
        let header: [u8; BLOCK_HEADER] = reader.array("a block or the end")?;
        let (kind, records) = (u32_at(&header, 0), u32_at(&header, 4));
        let size = u64_at(&header, 8);
        if kind != KIND_RECORDS && kind != KIND_END {
            return Err(damaged(
                start,
                format!("a block of kind 1 or 2, found {kind}"),
            ));
        }
        let left = length - reader.at;
        if size > left.min(BLOCK_MAX) {
            return Err(damaged(
                start + 8,
                format!("a block of at most {left} bytes, found {size}"),
            ));
        }
        let body = reader.at;
        reader.fill(&mut payload, size)?;
        let mut digest = CRC32C.digest();
        digest.update(&header[..16]);
        digest.update(&payload);
        if digest.finalize() != u32_at(&header, 16) {
            return Err(damaged(
                start + 16,
                format!("the checksum of the block at byte {start}"),
            ));
        }
        if kind == KIND_END {
            return finish(&reader, body, records, &payload, counts);
        }
        counts.blocks += 1;
        block(&payload, body, records, &mut counts, &mut visit)?;
    }
}

fn finish<E, R>(
    reader: &Reader<'_, R>,
    body: u64,
    records: u32,
    payload: &[u8],
    counts: Counts,
) -> Result<Counts, Refusal<E>> {
    if payload.len() != END || records != 0 {
        return Err(damaged(body, "an end with three counts"));
    }
    let told = Counts {
        records: u64_at(payload, 0),
        blocks: u64_at(payload, 8),
        bytes: u64_at(payload, 16),
        more: counts.more,
    };
    if told != counts {
        let text = format!("the counts of the records before it, {counts:?}, found {told:?}");
        return Err(damaged(body, text));
    }
    if reader.at != reader.length {
        return Err(damaged(reader.at, "nothing after the end"));
    }
    Ok(counts)
}

/// Passes all records of one block to the visitor.
fn block<E>(
    payload: &[u8],
    body: u64,
    records: u32,
    counts: &mut Counts,
    visit: &mut impl FnMut(Record<'_>, u64) -> Result<(), E>,
) -> Result<(), Refusal<E>> {
    let mut rest = payload;
    let mut items = Ranges::new();
    for _ in 0..records {
        let at = body + (payload.len() - rest.len()) as u64;
        let (raw, behind) = record(rest).map_err(|expected| damaged(at, expected))?;
        items.clear();
        split(&raw, &mut items).map_err(|expected| damaged(at, expected))?;
        if raw.more && counts.records == 0 {
            return Err(damaged(
                at,
                "a preceding record that the first one continues",
            ));
        }
        counts.records += 1;
        counts.more += u64::from(raw.more);
        counts.bytes += (raw.key.len() + raw.value.len()) as u64;
        rest = behind;
        let shown = Record {
            database: raw.database,
            key: raw.key,
            value_type: raw.value_type,
            more: raw.more,
            expiry: raw.expiry,
            items: &items,
        };
        visit(shown, at).map_err(Refusal::Visitor)?;
    }
    if rest.is_empty() {
        return Ok(());
    }
    let at = body + (payload.len() - rest.len()) as u64;
    Err(damaged(at, "nothing after the last record of a block"))
}

/// A record whose value has not been split into items yet.
struct Raw<'r> {
    database: usize,
    key: &'r [u8],
    value_type: ValueType,
    more: bool,
    expiry: Option<u64>,
    value: &'r [u8],
}

/// Splits a record's value into items, and appends them.
fn split(raw: &Raw<'_>, items: &mut Ranges) -> Result<(), String> {
    if raw.value_type == ValueType::String {
        items.push(raw.value);
        return Ok(());
    }
    let mut rest = raw.value;
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk().ok_or("a 4-byte item length")?;
        let length = u32::from_le_bytes(*length) as usize;
        let (item, behind) = behind.split_at_checked(length).ok_or("a whole item")?;
        items.push(item);
        rest = behind;
    }
    let width = raw.value_type.description().width;
    if items.is_empty() || !items.len().is_multiple_of(width) {
        let found = items.len();
        return Err(format!(
            "a positive multiple of {width} items, found {found}"
        ));
    }
    Ok(())
}

/// Parses the first record in `bytes`. Returns the record and the remaining bytes.
fn record(bytes: &[u8]) -> Result<(Raw<'_>, &[u8]), String> {
    let (header, rest) = bytes
        .split_at_checked(RECORD_HEADER)
        .ok_or("a record's header of 16 bytes")?;
    let database = usize::from(u16::from_le_bytes([header[0], header[1]]));
    if database >= DATABASES {
        return Err(format!("a database below {DATABASES}, found {database}"));
    }
    let Some(value_type) = ValueType::of_number(header[2].into()) else {
        let last = ValueType::ALL.len() - 1;
        return Err(format!("a type from 0 to {last}, found {}", header[2]));
    };
    let collection = value_type != ValueType::String;
    let known = FLAG_EXPIRES | if collection { FLAG_MORE } else { 0 };
    if header[3] & !known != 0 {
        return Err(format!("no flags other than {known}, found {}", header[3]));
    }
    let (key_length, value_length) = (u64::from(u32_at(header, 4)), u64_at(header, 8));
    let longest = if collection { VALUE_MAX } else { STRING_MAX };
    if key_length > STRING_MAX || value_length > longest {
        return Err(format!(
            "a key of at most {STRING_MAX} bytes and a value of {longest}, found {key_length} and {value_length}"
        ));
    }
    let (expiry, rest) = if header[3] & FLAG_EXPIRES == 0 {
        (None, rest)
    } else {
        let (field, rest) = rest.split_at_checked(8).ok_or("an 8-byte expiry")?;
        (Some(u64_at(field, 0)), rest)
    };
    let (key, rest) = rest
        .split_at_checked(key_length as usize)
        .ok_or("a whole key")?;
    let (value, rest) = rest
        .split_at_checked(value_length as usize)
        .ok_or("a whole value")?;
    let record = Raw {
        database,
        key,
        value_type,
        more: header[3] & FLAG_MORE != 0,
        expiry,
        value,
    };
    Ok((record, rest))
}

struct Reader<'r, R> {
    input: &'r mut R,
    length: u64,
    at: u64,
}

impl<R: Read> Reader<'_, R> {
    fn array<const N: usize, E>(&mut self, expected: &str) -> Result<[u8; N], Refusal<E>> {
        let mut bytes = [0; N];
        match self.input.read_exact(&mut bytes) {
            Ok(()) => {
                self.at += N as u64;
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(damaged(
                self.at,
                format!("{expected}, found the end of the file"),
            )),
            Err(error) => Err(Refusal::Io(error)),
        }
    }

    /// Reads exactly `size` bytes. The caller has checked that the file is long enough.
    fn fill<E>(&mut self, payload: &mut Vec<u8>, size: u64) -> Result<(), Refusal<E>> {
        payload.clear();
        let read = self.input.take(size).read_to_end(payload);
        let read = read.map_err(Refusal::Io)? as u64;
        self.at += read;
        if read < size {
            // The file was truncated while it was being read.
            return Err(damaged(self.at, format!("{} bytes more", size - read)));
        }
        Ok(())
    }
}

fn damaged<E>(at: u64, expected: impl Into<String>) -> Refusal<E> {
    Refusal::Damaged {
        at,
        expected: expected.into(),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
