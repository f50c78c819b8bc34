//! Repeats the records of a journal one by one in a store of their own, so that a program can compare
//! the store before and after each of them.

use std::path::Path;

use crate::error::Error;
use crate::journal::folder::FileHeader;
use crate::mapped::map::Map;
use crate::mapped::mapping::Mapping;
use crate::mapped::platform;
use crate::recovering::checkpoint_reader;
use crate::recovering::journal_report::{JournalRecord, described};
use crate::recovering::new_store::NewStore;
use crate::recovering::point_in_time::{self, Until};
use crate::recovering::read_only_disk::ReadOnlyDisk;
use crate::recovering::record_reader::{Batch, RecordReader};
use crate::recovering::recovery_watch::{Meter, RecoveryStage, RecoveryWatch};
use crate::recovering::replay::{self, Source, Unclaimed, failed};
use crate::segment::Segment;

/// A function that applies a record to a store.
pub type ApplyRecord<'a, E> = &'a mut dyn FnMut() -> Result<(), E>;

/// The records of a journal after a position.
pub struct JournalReplay {
    /// The store to which the records are applied, as it was at the position.
    pub segment: Segment,
    /// The position.
    pub position: u64,
    header: FileHeader,
    end: u64,
}

impl JournalReplay {
    /// Recovers a store up to a moment, into a new file at `path`, for the records after it. Begins
    /// at the first consistent state that the journal has, if that is later. The
    /// caller removes the file afterwards.
    ///
    /// # Errors
    /// Fails if the journal is damaged before the moment, or if `watch` interrupts the recovery.
    pub fn begin(
        path: &Path,
        folder: &Path,
        since: Option<Until>,
        watch: &RecoveryWatch<'_>,
    ) -> Result<JournalReplay, Error> {
        let source = Source {
            disk: &ReadOnlyDisk,
            folder,
            limit: None,
            publish: &|_| (),
        };
        let starts = checkpoint_reader::starts(source.disk, folder);
        let starts = starts.map_err(|error| failed(folder, error))?;
        let (end, header) = point_in_time::oldest_checkpoint(&source, &starts)?;
        let since = match since {
            None | Some(Until::Position(_)) | Some(Until::End) => {
                since.unwrap_or(Until::Position(0))
            }
            // Without a note of the time before, all changes are later.
            Some(Until::Time(time)) => Until::Position(
                point_in_time::position_at(&source, &starts, time, watch).unwrap_or(0),
            ),
        };
        let since = match since {
            Until::Position(position) => Until::Position(position.max(end)),
            other => other,
        };
        let recovered = Segment::recover_until(path, folder, since, watch)?;
        Ok(JournalReplay {
            segment: recovered.segment,
            position: recovered.position,
            header,
            end,
        })
    }

    /// Calls `each` with every record after the position, and with a function that applies the
    /// record to the store. Ends early if `each` returns false.
    ///
    /// # Errors
    /// Fails if the journal is damaged, or if `each` fails.
    pub fn run<E: From<Error>>(
        &self,
        folder: &Path,
        watch: &RecoveryWatch<'_>,
        mut each: impl FnMut(&JournalRecord, ApplyRecord<'_, E>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let fail = |error| failed(folder, error);
        let mut records = RecordReader::new(&ReadOnlyDisk, folder, &self.header, self.end);
        let mut meter = Meter::new(watch, records.total().map_err(fail)?);
        let path = self.segment.path();
        let opening = |source| Error::Io {
            doing: "opening",
            path: path.into(),
            source,
        };
        let file = platform::open(path, true).map_err(opening)?;
        let layout = *self.segment.mapping.layout();
        let map = Map::shared(&file, layout.file_length, true).map_err(opening)?;
        let mapping = Mapping::new(map, layout, true);
        let mut store = NewStore::new(&file, &mapping);
        let (mut batch, mut time) = (Batch::default(), None);
        let mut unclaimed = Unclaimed::default();
        while watch.run(|| records.next(&mut batch))?.map_err(fail)? {
            meter.add(RecoveryStage::Journal, batch.length());
            for found in batch.iter() {
                time = found.time().or(time);
                if found.end() <= self.position {
                    continue;
                }
                let mut apply = || {
                    replay::apply(&found, &mut store, &mut unclaimed)
                        .map_err(|error| E::from(fail(error)))
                };
                if !each(&described(&found, time), &mut apply)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
