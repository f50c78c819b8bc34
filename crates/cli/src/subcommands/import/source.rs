//! Finds out what kind of file to import, by its first bytes.

use std::fs::File;
use std::io::{self, Chain, Cursor, ErrorKind, Read, Seek};
use std::path::Path;

use undercroft_links::rdb::{Event, HEADER, Reader};

use crate::archive::MAGIC;
use crate::failure::{Failure, at};

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file that `undercroft export` wrote.
    Archive,
    /// A snapshot of Redis or Valkey.
    Rdb,
    /// Commands of Redis or Valkey.
    Commands,
}

/// The file to import.
pub(super) struct Source {
    /// The name of the file for messages.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The length of the file in bytes, or `None` if it is not a regular file and can therefore be
    /// read only once.
    pub(super) length: Option<u64>,
    file: File,
    /// The bytes that were read to find out the kind.
    start: Vec<u8>,
}

/// The content of a file from its first byte.
pub(super) type Content<'s> = Chain<Cursor<&'s [u8]>, &'s File>;

impl Source {
    /// Opens a file, or standard input if the path is `-`.
    pub(super) fn open(path: &Path) -> Result<Source, Failure> {
        let (name, opened) = match path == "-" {
            true => {
                let opened = rustix::io::dup(io::stdin()).map(File::from);
                ("standard input".to_owned(), opened.map_err(io::Error::from))
            }
            false => (path.display().to_string(), File::open(path)),
        };
        let file = opened.map_err(at(format_args!("opening {name}")))?;
        let status = file
            .metadata()
            .map_err(at(format_args!("opening {name}")))?;
        let mut start = Vec::new();
        let read = (&file).take(HEADER as u64).read_to_end(&mut start);
        read.map_err(at(format_args!("reading {name}")))?;
        let kind = if start.starts_with(&MAGIC) {
            Kind::Archive
        } else if start.starts_with(b"REDIS") || start.starts_with(b"VALKEY") {
            Kind::Rdb
        } else if start.starts_with(b"*") || start.starts_with(b"#") {
            Kind::Commands
        } else {
            let found = match start.is_empty() {
                true => ", found the end of the file",
                false => "",
            };
            return Err(Failure::new(format_args!(
                "{name}: damaged at byte 0: expected the magic bytes UNDEREXP of an export, or \
                 REDIS or VALKEY of an RDB file, or '*' of an append-only file{found}; \
                 nothing was changed"
            )));
        };
        let length = status.is_file().then_some(status.len());
        Ok(Source {
            name,
            kind,
            length,
            file,
            start,
        })
    }

    /// Returns whether the file is a regular one with commands, possibly after an RDB file that says
    /// so, as Redis 4 to 6 wrote them.
    pub(super) fn has_commands(&mut self) -> Result<bool, Failure> {
        if self.length.is_none() || self.kind != Kind::Rdb {
            return Ok(self.length.is_some() && self.kind == Kind::Commands);
        }
        // The import itself reports an error in this part of the file.
        let Ok(mut reader) = Reader::new(self.content()?) else {
            return Ok(false);
        };
        while let Ok(Some(Event::Aux { name, value })) = reader.next_event() {
            if name == b"aof-preamble" {
                return Ok(value == b"1");
            }
        }
        Ok(false)
    }

    /// Returns the content from the first byte. Only a regular file can be read more than once.
    pub(super) fn content(&mut self) -> Result<Content<'_>, Failure> {
        if self.length.is_some() {
            self.file
                .rewind()
                .and_then(|()| {
                    let mut skipped = vec![0; self.start.len()];
                    self.file.read_exact(&mut skipped)
                })
                .or_else(|error| match error.kind() {
                    // The reader reports that the file has become shorter.
                    ErrorKind::UnexpectedEof => Ok(()),
                    _ => Err(error),
                })
                .map_err(at(format_args!("reading {}", self.name)))?;
        }
        Ok(Cursor::new(&self.start[..]).chain(&self.file))
    }
}
