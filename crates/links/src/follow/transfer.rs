//! Loads the data set that a source sends, and replaces the store's keys with it in one step.

use std::io::{self, Read};

use undercroft_engine::{AppliedPosition, Source, Store};

use crate::follow::error::FollowError;
use crate::follow::filter::KeyFilter;
use crate::follow::link::Link;
use crate::follow::state::FollowState;
use crate::load::{LoadOptions, load_some};
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

/// A function that replaces a store's function libraries by those with the given texts.
type ReplaceLibraries<'a> = &'a dyn Fn(&[Vec<u8>]) -> Result<(), FollowError>;

/// Receives a data set and makes it the store's content, as of a place in the source's stream. Until
/// then, all processes read the old content. `replace_libraries` stores the texts of the source's
/// function libraries. It is called first: if this process dies in between, the place in the stream is
/// not recorded, and the next process receives everything again.
pub(super) fn receive(
    link: &mut Link<'_>,
    (store, state): (&Store, &FollowState),
    source: &Source,
    (options, filter): (&LoadOptions, &KeyFilter),
    record: &dyn Fn(),
    replace_libraries: ReplaceLibraries<'_>,
) -> Result<Source, FollowError> {
    let extent = extent(&link.line()?)?;
    store.begin_loading()?;
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
    let is_wanted = |database, key: &[u8]| filter.has(database, key);
    let loaded = load_some(
        &mut reader,
        Some(store),
        &options,
        &is_wanted,
        &mut |bytes| {
            state.update(|progress| progress.loaded_bytes = bytes);
            record();
            true
        },
    );
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
    replace_libraries(&loaded.libraries)?;
    store.finish_loading(&source)?;
    state.update(|progress| {
        progress.loaded_keys = loaded.counts.keys;
        progress.full_resyncs += 1;
    });
    Ok(source)
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
