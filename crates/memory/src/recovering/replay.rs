//! Fills a new store file from a journal: loads a checkpoint, then repeats the records after it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::mapped::disk::Disk;
use crate::recovering::checkpoint_reader::{CheckpointReader, Parts};
use crate::recovering::new_store::{NewStore, invalid};
use crate::recovering::pipeline;
use crate::recovering::record_reader::{Batch, Cut, Entry, Record, RecordReader};
use crate::recovering::recovery_watch::{Meter, RecoveryProgress, RecoveryStage};
use crate::redo::record::{self, Kind};

/// The result of reading a journal.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The position at which the valid records end.
    pub(crate) end: u64,
    /// The epoch of the last record.
    pub(crate) epoch: u64,
    /// The length of the records in each segment.
    pub(crate) segment: u64,
    /// The runs that were granted to transactions that have no record: shards and first pages.
    pub(crate) unclaimed: Vec<(usize, u64)>,
    /// The end of the journal that was left out.
    pub(crate) cut: Option<Cut>,
    /// How the store continues the journal, unless it was recovered up to a limit.
    pub(crate) continuation: Option<Continuation>,
}

/// The epoch and the position with which a new store file continues a journal: a new segment, so that
/// the bytes after the last valid record never follow a valid record again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuation {
    pub(crate) epoch: u64,
    pub(crate) start: u64,
}

/// The part of a journal to read.
pub(crate) struct Source<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) folder: &'a Path,
    /// The position after which no record is repeated. `None` means that the store gets all records,
    /// and continues the journal.
    pub(crate) limit: Option<u64>,
    /// Shows the progress to processes that wait for this one.
    pub(crate) publish: &'a dyn Fn(RecoveryProgress),
}

impl Source<'_> {
    pub(crate) fn fail(&self, error: io::Error) -> Error {
        failed(self.folder, error)
    }
}

/// Returns the error for a journal that cannot be read.
pub(crate) fn failed(folder: &Path, source: io::Error) -> Error {
    Error::Journal {
        folder: folder.into(),
        source,
    }
}

/// Loads a checkpoint into a new store file. Returns the position at which the checkpoint ends.
pub(crate) fn load(
    source: &Source<'_>,
    checkpoint: &mut CheckpointReader,
    store: &NewStore<'_>,
    meter: &mut Meter<'_>,
) -> Result<u64, Error> {
    let folder = source.folder;
    let apply = |parts: &Parts| {
        let mut parts = parts.iter();
        parts
            .try_for_each(|(at, bytes)| store.load(at, bytes))
            .map_err(|error| failed(folder, error))
    };
    pipeline::run(
        |parts: &mut Parts| {
            let more = meter.watch.run(|| checkpoint.next(parts))?;
            let more = more.map_err(|error| source.fail(error))?;
            meter.add(RecoveryStage::Checkpoint, parts.length);
            Ok(more)
        },
        apply,
        // The parts are disjoint.
        Some(&apply),
    )?;
    let end = checkpoint.end;
    end.ok_or_else(|| source.fail(invalid("the checkpoint has no end")))
}

/// Repeats the records after a checkpoint that was loaded. `newer` is the start of the newest
/// checkpoint and the reason why it cannot be read, if that is another one.
pub(crate) fn replay(
    source: &Source<'_>,
    checkpoint: &CheckpointReader,
    end: u64,
    newer: Option<&(u64, String)>,
    store: &mut NewStore<'_>,
    meter: &mut Meter<'_>,
) -> Result<Replayed, Error> {
    let folder = source.folder;
    let fail = |error| failed(folder, error);
    let mut records = RecordReader::new(source.disk, source.folder, &checkpoint.header, end);
    records.limit = source.limit.unwrap_or(u64::MAX);
    let mut unclaimed = Unclaimed::default();
    pipeline::run(
        |batch: &mut Batch| {
            let more = meter.watch.run(|| records.next(batch))?.map_err(fail)?;
            meter.add(RecoveryStage::Journal, batch.length());
            Ok(more)
        },
        |batch| {
            let mut records = batch.iter();
            records
                .try_for_each(|record| apply(&record, store, &mut unclaimed))
                .map_err(fail)
        },
        None,
    )?;
    if records.at < end {
        return Err(fail(invalid(format!(
            "the journal ends at {}, before the end of its checkpoint at {end}",
            records.at
        ))));
    }
    let continuation = match source.limit {
        Some(_) => None,
        None => {
            // A checkpoint gets its name once all records before its start are durable.
            if let Some((start, reason)) = newer
                && records.at < *start
            {
                return Err(fail(invalid(reason.clone())));
            }
            let (epoch, start) = records.continuation().map_err(fail)?;
            Some(Continuation { epoch, start })
        }
    };
    Ok(Replayed {
        end: records.at,
        epoch: records.epoch,
        segment: records.segment,
        unclaimed: unclaimed.into_runs(),
        cut: records.cut,
        continuation,
    })
}

/// The runs that heap steps granted to shards, until a transaction of the shard has a record: their
/// first pages by shard.
#[derive(Default)]
pub(crate) struct Unclaimed(BTreeMap<usize, BTreeSet<u64>>);

impl Unclaimed {
    fn into_runs(self) -> Vec<(usize, u64)> {
        let runs = self.0.into_iter();
        runs.flat_map(|(shard, pages)| pages.into_iter().map(move |page| (shard, page)))
            .collect()
    }
}

/// Writes the contents of a record into the store.
pub(crate) fn apply(
    record: &Record<'_>,
    store: &mut NewStore<'_>,
    unclaimed: &mut Unclaimed,
) -> io::Result<()> {
    if matches!(record.kind, Kind::Void | Kind::Mark) {
        return Ok(());
    }
    let shards = record.word(record::SHARDS);
    if record.kind == Kind::Transaction && !unclaimed.0.is_empty() {
        // The runs that the transaction was granted now belong to its shards.
        unclaimed.0.retain(|shard, _| shards >> shard & 1 == 0);
    }
    for entry in record.entries() {
        match entry? {
            Entry::Contents(at, bytes) => store.write(at, bytes)?,
            Entry::Grant(_) if shards == 0 => {
                return Err(invalid("a record that grants a run to no shard"));
            }
            Entry::Grant(page) => {
                let shard = shards.trailing_zeros() as usize;
                unclaimed.0.entry(shard).or_default().insert(page);
            }
        }
    }
    Ok(())
}
