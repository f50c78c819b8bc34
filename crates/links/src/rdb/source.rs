//! A buffered input that counts the bytes read from it, adds them to a checksum, and can capture
//! them. Memory grows only with bytes that have arrived, whatever lengths the input claims.

use std::io::{self, ErrorKind, Read};

use crc_fast::{CrcAlgorithm, Digest};

use super::error::ReadError;

/// The size of the buffer in bytes.
const BUFFER: usize = 256 << 10;

pub(super) struct Source<R> {
    input: R,
    buffer: Vec<u8>,
    /// The position in the buffer of the next byte to read.
    position: usize,
    /// The position in the buffer after the last byte that has arrived.
    end: usize,
    /// The offset in the input of the buffer's first byte.
    base: u64,
    /// The position in the buffer up to which the checksum includes the bytes.
    summed: usize,
    digest: Digest,
    /// The position in the buffer of the first byte to capture, while a capture is in progress.
    capture: Option<usize>,
    /// The captured bytes that have left the buffer.
    captured: Vec<u8>,
}

/// Begins the checksum of an RDB file.
pub(super) fn new_checksum() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Redis)
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Source<R> {
        Source {
            input,
            buffer: vec![0; BUFFER],
            position: 0,
            end: 0,
            base: 0,
            summed: 0,
            digest: new_checksum(),
            capture: None,
            captured: Vec::new(),
        }
    }

    /// Returns the offset in the input of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Returns the bytes that have arrived but have not been read, and the input.
    pub(super) fn into_rest(self) -> (Vec<u8>, R) {
        (self.buffer[self.position..self.end].to_vec(), self.input)
    }

    /// Returns the checksum of all bytes read so far.
    pub(super) fn checksum(&mut self) -> u64 {
        self.sum();
        self.digest.finalize()
    }

    fn sum(&mut self) {
        self.digest.update(&self.buffer[self.summed..self.position]);
        self.summed = self.position;
    }

    /// Reads more bytes into the buffer. Returns `false` at the end of the input.
    fn refill(&mut self) -> io::Result<bool> {
        self.sum();
        if let Some(start) = &mut self.capture {
            self.captured
                .extend_from_slice(&self.buffer[*start..self.position]);
            *start = 0;
        }
        self.buffer.copy_within(self.position..self.end, 0);
        self.base += self.position as u64;
        self.end -= self.position;
        (self.position, self.summed) = (0, 0);
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(read) => {
                    self.end += read;
                    return Ok(read != 0);
                }
            }
        }
    }

    /// Returns whether the input has no further bytes.
    pub(super) fn is_at_end(&mut self) -> Result<bool, ReadError> {
        Ok(self.position == self.end && !self.refill()?)
    }

    /// Waits until `count` bytes are in the buffer. `expected` describes them.
    #[inline]
    fn need(&mut self, count: usize, expected: &str) -> Result<(), ReadError> {
        while self.end - self.position < count {
            if !self.refill()? {
                let at = self.base + self.end as u64;
                return Err(ReadError::damaged(
                    at,
                    format!("{expected}, found the end of the file"),
                ));
            }
        }
        Ok(())
    }

    /// Reads the next byte.
    #[inline]
    pub(super) fn byte(&mut self, expected: &str) -> Result<u8, ReadError> {
        self.need(1, expected)?;
        self.position += 1;
        Ok(self.buffer[self.position - 1])
    }

    /// Reads the next `N` bytes, at most as many as fit in the buffer.
    #[inline]
    pub(super) fn array<const N: usize>(&mut self, expected: &str) -> Result<[u8; N], ReadError> {
        self.need(N, expected)?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.buffer[self.position..self.position + N]);
        self.position += N;
        Ok(bytes)
    }

    /// Skips `count` bytes.
    #[inline]
    pub(super) fn skip(&mut self, count: u64, expected: &str) -> Result<(), ReadError> {
        let mut left = count;
        loop {
            let step = left.min((self.end - self.position) as u64);
            self.position += step as usize;
            left -= step;
            if left == 0 {
                return Ok(());
            }
            self.need(1, expected)?;
        }
    }

    /// Begins to capture the bytes that are read.
    #[inline]
    pub(super) fn begin_capture(&mut self) {
        self.captured.clear();
        self.capture = Some(self.position);
    }

    /// Ends the capture, and returns the bytes that were read since it began.
    #[inline]
    pub(super) fn end_capture(&mut self) -> &[u8] {
        let start = self.capture.take().unwrap_or(self.position);
        let tail = &self.buffer[start..self.position];
        if self.captured.is_empty() {
            return tail;
        }
        self.captured.extend_from_slice(tail);
        &self.captured
    }
}
