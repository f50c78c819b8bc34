//! Reads the commands of an append-only file.

use std::fmt;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};

use undercroft_engine::strings::STRING_MAX;

use crate::load::LoadError;
use crate::rdb::{ReadError, Reader};

/// The maximum number of words of a command. Redis has the same limit for commands of clients.
const WORDS_MAX: u64 = 1 << 20;
/// The maximum length in bytes of a line that announces a number or annotates a command.
const LINE_MAX: usize = 128;

/// Receives the content of an append-only file, in order.
pub trait Replay {
    /// Loads the RDB file with which the append-only file begins.
    ///
    /// # Errors
    /// Returns an error to end the work.
    fn snapshot<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<(), LoadError>;

    /// Runs a command, which begins at an offset of the file.
    ///
    /// # Errors
    /// Returns the reason why the command failed, to end the work.
    fn command(&mut self, words: &[&[u8]], at: u64) -> Result<(), String>;

    /// Returns whether the last command began a transaction that has not been executed yet.
    fn is_in_transaction(&self) -> bool;

    /// Discards the commands of a transaction that is not complete.
    fn discard(&mut self);
}

/// The end of an append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// The file ends after a command.
    Whole,
    /// The file ends within a command or a transaction, as after a crash of its server.
    Truncated {
        /// The offset after the last complete command or transaction.
        at: u64,
        /// The number of bytes after this offset.
        bytes: u64,
    },
}

/// The reason why an append-only file cannot be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum AofError {
    /// The file is damaged or cannot be read.
    Read(ReadError),
    /// The RDB file at the beginning cannot be loaded.
    Load(LoadError),
    /// A command failed.
    Command {
        /// The offset in the file at which the command begins.
        at: u64,
        /// The error, including the command's name.
        reason: String,
    },
}

impl fmt::Display for AofError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AofError::Read(error) => error.fmt(formatter),
            AofError::Load(error) => error.fmt(formatter),
            AofError::Command { at, reason } => write!(formatter, "at byte {at}: {reason}"),
        }
    }
}

impl std::error::Error for AofError {}

impl From<ReadError> for AofError {
    fn from(error: ReadError) -> AofError {
        AofError::Read(error)
    }
}

/// The reason why a command cannot be read.
enum Stop {
    /// The file ends within the command.
    End,
    Error(AofError),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        match error.kind() {
            ErrorKind::UnexpectedEof => Stop::End,
            _ => Stop::Error(AofError::Read(ReadError::Io(error))),
        }
    }
}

/// Reads an append-only file and passes its content to `replay`. Calls `watch` with the offset after
/// each command; the work ends if it returns false. Takes memory for one command.
///
/// # Errors
/// Returns an error if the file is damaged or the content cannot be replayed. A file that ends within
/// a command is not an error.
pub fn read_aof<R: Read>(
    mut input: R,
    replay: &mut impl Replay,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Tail, AofError> {
    // One byte tells whether the file begins with an RDB file.
    let mut first = Vec::new();
    let read = (&mut input).take(1).read_to_end(&mut first);
    read.map_err(ReadError::Io)?;
    let is_snapshot = matches!(first.first(), Some(b'R' | b'V'));
    let input = Cursor::new(first).chain(input);
    if !is_snapshot {
        let commands = Commands::new(BufReader::new(input), 0);
        return commands.replay(replay, watch);
    }
    let mut reader = Reader::new(input)?;
    replay.snapshot(&mut reader).map_err(AofError::Load)?;
    let at = reader.offset();
    let (rest, input) = reader.into_rest();
    let input = BufReader::new(Cursor::new(rest).chain(input));
    Commands::new(input, at).replay(replay, watch)
}

struct Commands<R> {
    input: R,
    /// The offset of the next byte.
    at: u64,
    /// The bytes of the current command's words, and the end of each word.
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl<R: BufRead> Commands<R> {
    fn new(input: R, at: u64) -> Commands<R> {
        Commands {
            input,
            at,
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    fn replay(
        mut self,
        replay: &mut impl Replay,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Tail, AofError> {
        // The offset after the last command that is not in an open transaction.
        let mut whole = self.at;
        loop {
            let start = self.at;
            match self.next_command() {
                Ok(true) => {}
                Ok(false) if !replay.is_in_transaction() => return Ok(Tail::Whole),
                Ok(false) | Err(Stop::End) => {
                    replay.discard();
                    return Ok(Tail::Truncated {
                        at: whole,
                        bytes: self.at - whole,
                    });
                }
                Err(Stop::Error(error)) => return Err(error),
            }
            let mut from = 0;
            let words: Vec<&[u8]> = self
                .ends
                .iter()
                .map(|&end| &self.bytes[std::mem::replace(&mut from, end)..end])
                .collect();
            let ran = replay.command(&words, start);
            ran.map_err(|reason| AofError::Command { at: start, reason })?;
            if !replay.is_in_transaction() {
                whole = self.at;
            }
            if !watch(self.at) {
                return Err(AofError::Load(LoadError::Stopped));
            }
        }
    }

    /// Reads a command. Returns `false` at the end of the file.
    fn next_command(&mut self) -> Result<bool, Stop> {
        self.bytes.clear();
        self.ends.clear();
        loop {
            if self.input.fill_buf()?.is_empty() {
                return Ok(false);
            }
            let start = self.at;
            let line = self.line()?;
            match line.first() {
                // A timestamp, or another annotation.
                Some(b'#') => {}
                Some(b'*') => {
                    let count = self.number(&line, start, 1, WORDS_MAX, "a number of words")?;
                    for _ in 0..count {
                        self.word()?;
                    }
                    return Ok(true);
                }
                _ => return Err(damaged(start, "'*' and the number of a command's words")),
            }
        }
    }

    /// Reads a word of the current command.
    fn word(&mut self) -> Result<(), Stop> {
        let start = self.at;
        let line = self.line()?;
        if line.first() != Some(&b'$') {
            return Err(damaged(start, "'$' and the length of a word"));
        }
        let length = self.number(&line, start, 0, STRING_MAX, "the length of a word")?;
        // Memory grows with the bytes that have arrived, not with the length.
        let read = (&mut self.input)
            .take(length)
            .read_to_end(&mut self.bytes)?;
        self.at += read as u64;
        if (read as u64) < length {
            return Err(Stop::End);
        }
        self.ends.push(self.bytes.len());
        let (start, mut end) = (self.at, [0; 2]);
        for byte in &mut end {
            self.input.read_exact(std::slice::from_mut(byte))?;
            self.at += 1;
        }
        match &end {
            b"\r\n" => Ok(()),
            _ => Err(damaged(start, "the end of a word after its length")),
        }
    }

    /// Parses the number in a line, after its first byte.
    fn number(&self, line: &[u8], at: u64, least: u64, most: u64, name: &str) -> Result<u64, Stop> {
        let digits = std::str::from_utf8(&line[1..]).ok();
        let number = digits.and_then(|digits| digits.parse().ok());
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| damaged(at, format!("{name} from {least} to {most}")))
    }

    /// Reads a line, and returns it without its end.
    fn line(&mut self) -> Result<Vec<u8>, Stop> {
        let start = self.at;
        let mut line = Vec::new();
        let limit = LINE_MAX as u64;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut line)?;
        self.at += read as u64;
        match line.strip_suffix(b"\r\n") {
            Some(text) => Ok(text.to_vec()),
            None if read < LINE_MAX && line.last() != Some(&b'\n') => Err(Stop::End),
            None => Err(damaged(start, "a line that ends with CR LF")),
        }
    }
}

fn damaged(at: u64, expected: impl Into<String>) -> Stop {
    Stop::Error(AofError::Read(ReadError::damaged(at, expected)))
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
