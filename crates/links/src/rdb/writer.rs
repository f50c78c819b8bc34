//! Writes RDB files.

use std::io::{self, Write};

use crc_fast::Digest;
use undercroft_engine::rdb::{RdbVersion, encode_length, encode_string};

use super::reader::Usage;
use super::source::new_checksum;

// The opcodes.
const LIBRARY: u8 = 245;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const AUX: u8 = 250;
const RESIZE: u8 = 251;
const EXPIRY_MS: u8 = 252;
const SELECT: u8 = 254;
const END: u8 = 255;

/// A key with its encoded value.
#[derive(Clone, Copy, Debug)]
pub struct EncodedKey<'k> {
    /// The name of the key.
    pub key: &'k [u8],
    /// The time when the key expires in Unix milliseconds, or `None` if the key does not expire.
    pub expiry: Option<u64>,
    /// When the key was last used, or `None` to leave it out.
    pub usage: Option<Usage>,
    /// The type byte and the value, as `undercroft_engine::rdb::encode` writes them.
    pub value: &'k [u8],
}

/// Appends a key and its value to `out`, as a file contains them.
pub fn append_key(key: &EncodedKey<'_>, out: &mut Vec<u8>) {
    if let Some(expiry) = key.expiry {
        out.push(EXPIRY_MS);
        out.extend(expiry.to_le_bytes());
    }
    match key.usage {
        Some(Usage::IdleSeconds(seconds)) => {
            out.push(IDLE);
            encode_length(seconds, out);
        }
        Some(Usage::Frequency(counter)) => out.extend([FREQUENCY, counter]),
        None => {}
    }
    let (kind, value) = key.value.split_at(1);
    out.extend_from_slice(kind);
    encode_string(key.key, out);
    out.extend_from_slice(value);
}

/// A writer of an RDB file.
pub struct Writer<W> {
    out: W,
    digest: Digest,
    /// The number of bytes written so far.
    length: u64,
    /// A buffer that is reused.
    part: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn new(out: W, version: RdbVersion) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            digest: new_checksum(),
            length: 0,
            part: Vec::new(),
        };
        writer.append(format!("REDIS{:04}", version as u8).as_bytes())?;
        Ok(writer)
    }

    /// Writes bytes that [`append_key`] has encoded.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.length += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Writes information about the file.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn aux(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.part_of(AUX, |part| {
            encode_string(name.as_bytes(), part);
            encode_string(value.as_bytes(), part);
        })
    }

    /// Writes a function library.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn library(&mut self, text: &[u8]) -> io::Result<()> {
        self.part_of(LIBRARY, |part| encode_string(text, part))
    }

    /// Begins the keys of a database, of which there are about `keys`, and `expiring` of these have
    /// an expiry.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn select(&mut self, database: usize, keys: u64, expiring: u64) -> io::Result<()> {
        self.part_of(SELECT, |part| encode_length(database as u64, part))?;
        self.part_of(RESIZE, |part| {
            encode_length(keys, part);
            encode_length(expiring, part);
        })
    }

    fn part_of(&mut self, opcode: u8, encode: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut part = std::mem::take(&mut self.part);
        part.clear();
        part.push(opcode);
        encode(&mut part);
        let written = self.append(&part);
        self.part = part;
        written
    }

    /// Completes the file. Returns the output and the length of the file in bytes.
    ///
    /// # Errors
    /// Returns an error if the output fails.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.append(&[END])?;
        let checksum = self.digest.clone().finalize().to_le_bytes();
        self.out.write_all(&checksum)?;
        Ok((self.out, self.length + checksum.len() as u64))
    }
}
