//! Recovers a store as it was at an earlier time, into a new file. The journal is only read.
//!
//! The result is another store, without a journal: it must not continue a journal whose later changes
//! it does not contain.

use std::io;
use std::path::Path;

use crate::error::Error;
use crate::journal::folder::FileHeader;
use crate::recovering::checkpoint_reader::{self, CheckpointReader};
use crate::recovering::journal_recovery::{self, Attempt, Recovered};
use crate::recovering::read_only_disk::ReadOnlyDisk;
use crate::recovering::record_reader::{Batch, RecordReader};
use crate::recovering::recovery_watch::{Meter, RecoveryStage, RecoveryWatch};
use crate::recovering::replay::Source;
use crate::segment::Segment;

/// The number of attempts to read a journal, if checkpoints replace its files in the meantime.
const ATTEMPTS: u32 = 5;

/// The last change to recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The journal's end.
    End,
    /// The last change whose record ends at or before a journal position.
    Position(u64),
    /// The last change that is known to have been made at or before a time, in Unix milliseconds.
    /// The journal notes the time whenever it is synced. Changes after the last of these notes that
    /// is not later than the time are left out, because some of them may have been made later.
    Time(u64),
}

impl Segment {
    /// Recovers a store as it was at an earlier time, from a journal's folder into a new file at
    /// `path`, which must not exist. The new store has no journal, and the folder is only read.
    ///
    /// # Errors
    /// Fails if the journal does not reach back to `until`, or if it is damaged before. Nothing is
    /// changed then.
    pub fn recover_until(
        path: &Path,
        folder: &Path,
        until: Until,
        watch: &RecoveryWatch<'_>,
    ) -> Result<Recovered, Error> {
        let source = Source {
            disk: &ReadOnlyDisk,
            folder,
            limit: None,
            publish: &|_| (),
        };
        for attempt in 1.. {
            let list = || {
                checkpoint_reader::starts(source.disk, folder).map_err(|error| source.fail(error))
            };
            let starts = list()?;
            match recover(path, &source, &starts, until, watch) {
                // A new checkpoint has replaced the files that were being read.
                Err(Error::Journal { .. }) if attempt < ATTEMPTS && list()? != starts => {}
                result => return result,
            }
        }
        unreachable!("the last attempt returns")
    }
}

/// Recovers from the newest of some checkpoints that does not end after the limit.
fn recover(
    path: &Path,
    source: &Source<'_>,
    starts: &[u64],
    until: Until,
    watch: &RecoveryWatch<'_>,
) -> Result<Recovered, Error> {
    if starts.is_empty() {
        return Err(source.fail(no_checkpoint()));
    }
    let limit = match until {
        Until::End => u64::MAX,
        Until::Position(position) => position,
        Until::Time(time) => position_at(source, starts, time, watch)?,
    };
    let source = Source {
        limit: Some(limit),
        ..*source
    };
    let (mut failed, mut earliest) = (None, None);
    for &start in starts {
        let opened = CheckpointReader::open(source.disk, source.folder, start);
        match opened.and_then(|checkpoint| checkpoint.read_end()) {
            Ok(end) if end > limit => {
                earliest = Some(end);
                continue;
            }
            Ok(_) => {}
            Err(error) => {
                failed = failed.or(Some(source.fail(error)));
                continue;
            }
        }
        match journal_recovery::recover_from_checkpoint(path, &source, start, None, None, watch) {
            Ok(recovered) => return Ok(recovered),
            Err(Attempt::Checkpoint(error)) => failed = failed.or(Some(error)),
            Err(Attempt::Other(error)) => return Err(error),
        }
    }
    Err(failed.unwrap_or_else(|| too_early(&source, until, limit, earliest.unwrap_or(0))))
}

/// Returns the error for a moment before the oldest checkpoint, which shows the store at `earliest`.
fn too_early(source: &Source<'_>, until: Until, limit: u64, earliest: u64) -> Error {
    let asked = match until {
        Until::Time(_) => format!("the time at position {limit}"),
        _ => format!("position {limit}"),
    };
    let text = format!(
        "expected {asked} not to be before position {earliest}, to which the oldest checkpoint \
         reaches back; recover from an older backup of the folder"
    );
    source.fail(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Returns the end and the header of the oldest checkpoint that is intact. `starts` are those of all
/// checkpoints, newest first.
pub(crate) fn oldest_checkpoint(
    source: &Source<'_>,
    starts: &[u64],
) -> Result<(u64, FileHeader), Error> {
    let mut first = None;
    let mut opened = starts.iter().rev().filter_map(|&start| {
        CheckpointReader::open(source.disk, source.folder, start)
            .and_then(|checkpoint| Ok((checkpoint.read_end()?, checkpoint.header)))
            .map_err(|error| first.get_or_insert(error).kind())
            .ok()
    });
    match opened.next() {
        Some(found) => Ok(found),
        None => Err(source.fail(first.unwrap_or_else(no_checkpoint))),
    }
}

fn no_checkpoint() -> io::Error {
    let text = "expected the folder of a journal, found no checkpoint in it";
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// Returns the position of the last note of the time that is not later than `time`, or the journal's
/// end if it has no later note.
pub(crate) fn position_at(
    source: &Source<'_>,
    starts: &[u64],
    time: u64,
    watch: &RecoveryWatch<'_>,
) -> Result<u64, Error> {
    let (end, header) = oldest_checkpoint(source, starts)?;
    let mut records = RecordReader::new(source.disk, source.folder, &header, end);
    let total = records.total().map_err(|error| source.fail(error))?;
    let mut meter = Meter::new(watch, total);
    let mut batch = Batch::default();
    let mut last = None;
    while watch
        .run(|| records.next(&mut batch))?
        .map_err(|error| source.fail(error))?
    {
        meter.add(RecoveryStage::Journal, batch.length());
        for record in batch.iter() {
            match record.time() {
                Some(found) if found > time => {
                    return last.ok_or_else(|| before_first(source, found));
                }
                Some(_) => last = Some(record.end()),
                None => {}
            }
        }
    }
    Ok(records.at)
}

/// Returns the error for a time before the first time that the journal has.
fn before_first(source: &Source<'_>, first: u64) -> Error {
    let text = format!(
        "expected a time that is not before {first} (Unix milliseconds), the first that the \
         journal has; recover from an older backup of the folder"
    );
    source.fail(io::Error::new(io::ErrorKind::InvalidInput, text))
}
