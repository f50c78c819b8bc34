//! Loads the data set that a source sends, next to the keys that the store has.

use std::io::{self, Read};

use undercroft_engine::{AppliedPosition, Source, Store};

use crate::follow::error::FollowError;
use crate::follow::link::Link;
use crate::follow::state::FollowState;
use crate::load::{LoadOptions, load_placed};
use crate::rdb::Reader;

/// The length of the mark after a data set whose length the source does not know in advance.
const MARK: usize = 40;

/// The end of a data set in the stream.
enum Extent {
    /// The data set has this many bytes.
    Length(u64),
    /// These bytes follow the data set.
    Mark([u8; MARK]),
}

/// Reads a data set from the connection, up to its announced length.
struct Input<'l, 'a> {
    link: &'l mut Link<'a>,
    left: Option<u64>,
}

impl Read for Input<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = self.left.unwrap_or(u64::MAX).min(buffer.len() as u64) as usize;
        if most == 0 {
            return Ok(0);
        }
        let read = self.link.read_some(&mut buffer[..most])?;
        if let Some(left) = &mut self.left {
            *left -= read as u64;
        }
        Ok(read)
    }
}

/// A data set that was loaded.
pub(super) struct Received {
    /// The place in the source's stream as of which it is.
    pub(super) source: Source,
    /// The number of its keys.
    pub(super) keys: u64,
    /// The texts of its function libraries.
    pub(super) libraries: Vec<Vec<u8>>,
}

/// Receives a data set, as of a place in the source's stream, and loads it into databases that clients
/// cannot see. `place` returns the number of the database for a key, or `None` for a key that the store
/// does not have. `record` is called several times a second.
pub(super) fn receive(
    link: &mut Link<'_>,
    (store, state): (&Store, &FollowState),
    source: &Source,
    options: &LoadOptions,
    place: &dyn Fn(usize, &[u8]) -> Option<usize>,
    record: &dyn Fn(),
) -> Result<Received, FollowError> {
    let extent = extent(&link.line()?)?;
    let options = LoadOptions {
        is_replica: true,
        ..*options
    };
    let left = match extent {
        Extent::Length(length) => Some(length),
        Extent::Mark(_) => None,
    };
    let input = Input { link, left };
    let mut reader = Reader::new(input).map_err(crate::load::LoadError::from)?;
    let loaded = load_placed(&mut reader, Some(store), &options, place, &mut |bytes| {
        state.update(|progress| progress.loaded_bytes = bytes);
        record();
        true
    });
    let (rest, input) = reader.into_rest();
    let (link, left) = (input.link, input.left);
    if link.must_stop() {
        return Err(FollowError::Stopped);
    }
    let loaded = loaded?;
    link.put_back(&rest);
    match extent {
        Extent::Mark(mark) => {
            while link.input.len() < MARK {
                link.receive()?;
            }
            if link.input[..MARK] != mark {
                return Err(FollowError::Protocol(
                    "expected the mark that ends the data set".into(),
                ));
            }
            link.input.drain(..MARK);
        }
        Extent::Length(_) if left != Some(0) || !rest.is_empty() => {
            return Err(FollowError::Protocol(
                "expected a data set as long as announced, got a shorter one".into(),
            ));
        }
        Extent::Length(_) => {}
    }
    let source = Source {
        position: AppliedPosition {
            database: loaded.stream_database.unwrap_or(0),
            ..source.position
        },
        ..*source
    };
    Ok(Received {
        source,
        keys: loaded.counts.keys,
        libraries: loaded.libraries,
    })
}

/// Parses the line that announces a data set.
fn extent(line: &str) -> Result<Extent, FollowError> {
    let wrong = || {
        FollowError::Protocol(format!(
            "expected the length of a data set, got {}",
            line.chars().take(100).collect::<String>().escape_debug()
        ))
    };
    if let Some(error) = line.strip_prefix('-') {
        return Err(FollowError::Refused(error.to_owned()));
    }
    let text = line.strip_prefix('$').ok_or_else(wrong)?;
    match text.strip_prefix("EOF:") {
        Some(mark) => {
            let mark = mark.as_bytes().try_into().map_err(|_| wrong())?;
            Ok(Extent::Mark(mark))
        }
        None => text.parse().map(Extent::Length).map_err(|_| wrong()),
    }
}
