//! Opens stores that have a journal, and recovers them if their file is gone or dates from another
//! boot.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::checkpoints::durability::{self, Durability, JournalOptions};
use crate::error::Error;
use crate::journal::folder_lock::{self, FolderLock};
use crate::mapped::disk;
use crate::recovering::checkpoint_reader::{self, CheckpointReader};
use crate::recovering::journal_recovery;
use crate::recovering::record_reader::Cut;
use crate::recovering::recovery_watch::{RecoveryProgress, RecoveryWatch};
use crate::segment::Segment;
use crate::store_file::opening::{self, Initially, Options};

/// The journal with which a store is opened.
#[derive(Clone, Debug)]
pub struct JournalTerms {
    /// The folder of the journal.
    pub folder: PathBuf,
    /// The durability mode with which a store without a journal begins one. `None` means that a
    /// store is only recovered from the folder if it has one.
    pub durability: Option<Durability>,
    /// Options for a new journal.
    pub options: JournalOptions,
}

/// A store that was opened, and how.
pub struct Opened {
    /// The store.
    pub segment: Segment,
    /// How the store was recovered from its journal, if it was.
    pub recovery: Option<Recovery>,
}

/// A recovery from a journal.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// The journal position up to which the store was recovered.
    pub position: u64,
    /// The end of the journal that was left out because it was not whole.
    pub cut: Option<Cut>,
    /// How long the recovery took.
    pub took: Duration,
}

impl Segment {
    /// Opens a store, recovers it from its journal, or creates it. A store whose file is gone or
    /// dates from another boot is recovered if the folder contains its journal. A store without a
    /// journal begins one if `journal` names a durability mode.
    ///
    /// # Errors
    /// Fails if the journal is damaged, if it belongs to another store that is in use, or if the
    /// store cannot be opened or created.
    pub fn open_with_journal(
        path: &Path,
        options: &Options,
        initially: Initially<'_>,
        journal: &JournalTerms,
    ) -> Result<Opened, Error> {
        Segment::open_watched(path, options, initially, journal, &RecoveryWatch::default())
    }

    /// Opens a store like [`open_with_journal`](Self::open_with_journal), and shows the progress of a
    /// recovery, or of the recovery by another process.
    ///
    /// # Errors
    /// Fails like [`open_with_journal`](Self::open_with_journal), or if it is interrupted. Nothing is
    /// changed then.
    pub fn open_watched(
        path: &Path,
        options: &Options,
        initially: Initially<'_>,
        journal: &JournalTerms,
        watch: &RecoveryWatch<'_>,
    ) -> Result<Opened, Error> {
        let path = opening::absolute(path)?;
        let has_folder = journal.folder.is_dir();
        if !has_folder && matches!(journal.durability, None | Some(Durability::None)) {
            let segment = Segment::open_or_create(&path, options, initially)?;
            if segment.journal().is_some() {
                folder_lock::check_owner(&segment)?;
            }
            return Ok(Opened {
                segment,
                recovery: None,
            });
        }
        match Segment::open(&path, true) {
            Ok(segment) if segment.journal().is_some() => {
                folder_lock::check_owner(&segment)?;
                return Ok(opened(segment));
            }
            Ok(_) => {}
            Err(error) if is_missing(&error) || matches!(error, Error::Unclean { .. }) => {}
            Err(error) => return Err(error),
        }
        let lock = FolderLock::acquire(&journal.folder, &path, &|held| watch.wait(held))?;
        // Another process may have done the rest in the meantime.
        let (is_unclean, found) = match Segment::open(&path, true) {
            Ok(segment) => (false, Some(segment)),
            Err(error) if is_missing(&error) => (false, None),
            Err(Error::Unclean { .. }) => (true, None),
            Err(error) => return Err(error),
        };
        if let Some(segment) = found {
            return begin(segment, &lock, journal);
        }
        if let Some((segment, recovery)) = recover(&path, is_unclean, &lock, journal, watch)? {
            return Ok(Opened {
                segment,
                recovery: Some(recovery),
            });
        }
        if is_unclean {
            return Err(Error::Unclean { path });
        }
        let segment = Segment::create_so(&path, options, initially)?;
        begin(segment, &lock, journal)
    }
}

fn opened(segment: Segment) -> Opened {
    Opened {
        segment,
        recovery: None,
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Begins a journal in a store that has none, if one is wanted.
fn begin(segment: Segment, lock: &FolderLock, journal: &JournalTerms) -> Result<Opened, Error> {
    let wanted = journal
        .durability
        .filter(|&durability| durability != Durability::None);
    if let Some(durability) = wanted
        && segment.journal().is_none()
    {
        durability::begin(&segment, lock, durability, &journal.options)?;
    }
    Ok(opened(segment))
}

/// Recovers the store from the journal's folder, if the folder contains a checkpoint.
fn recover(
    path: &Path,
    is_unclean: bool,
    lock: &FolderLock,
    journal: &JournalTerms,
    watch: &RecoveryWatch<'_>,
) -> Result<Option<(Segment, Recovery)>, Error> {
    let start = Instant::now();
    let disk = disk::local_disk();
    let folder = journal.folder.as_path();
    let fail = |source| Error::Journal {
        folder: folder.into(),
        source,
    };
    let starts = checkpoint_reader::starts(disk.as_ref(), folder).map_err(fail)?;
    if starts.is_empty() {
        return Ok(None);
    }
    for start in starts {
        // The recovery reports a damaged file.
        if let Ok(checkpoint) = CheckpointReader::open(disk.as_ref(), folder, start) {
            lock.check_unused(path, &checkpoint.page)?;
        }
    }
    let fail = |source| Error::Io {
        doing: "setting aside the unclean file of",
        path: path.into(),
        source,
    };
    let aside = opening::with_suffix(path, ".unclean");
    if is_unclean {
        std::fs::rename(path, &aside).map_err(fail)?;
    }
    // No process may still write records of the old store file: each of them finds that its file is
    // gone.
    let waited = lock.wait_for_writers(&|found| watch.wait(found));
    let publish = |progress: RecoveryProgress| lock.write_progress(progress.done, progress.total);
    let recovered = waited.and_then(|()| lock.forget_store()).and_then(|()| {
        journal_recovery::recover(path, folder, None, disk.as_ref(), watch, &publish)
    });
    // The journal has everything that is durable, so the old file is needed only if the journal could
    // not be read. A process that died during an earlier recovery may have left it as well.
    let _ = match recovered {
        Ok(_) => std::fs::remove_file(&aside),
        Err(_) if is_unclean => std::fs::rename(&aside, path),
        Err(_) => Ok(()),
    };
    let Some(recovered) = recovered? else {
        return Ok(None);
    };
    lock.write_store(&recovered.segment)?;
    let recovery = Recovery {
        position: recovered.position,
        cut: recovered.cut,
        took: start.elapsed(),
    };
    Ok(Some((recovered.segment, recovery)))
}
