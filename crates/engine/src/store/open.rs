//! Opening and creating stores.

use std::path::Path;
use std::time::Instant;

use undercroft_memory::{Opened, Options, Recovery, RecoveryWatch, Segment, Until};

use crate::error::Error;
use crate::handle::parts::Parts;
use crate::handle::store::Store;
use crate::messages::publish::Patterns;
use crate::messages::unsent::Unsent;
use crate::store::above::ABOVE;
use crate::store::dead_processes::Round;
use crate::store::durability::RecoveryPart;
use crate::store::terms::Terms;
use crate::upkeep::counters::Counters;
use crate::upkeep::eviction::Pool;
use crate::upkeep::space::Places;
use crate::waiting::postponed::Postponed;

impl Store {
    /// Opens the store at a path, for reading and writing or only for reading.
    pub fn open(path: &Path, write: bool) -> Result<Store, Error> {
        Ok(Store::of(Segment::open(path, write)?))
    }

    /// Opens a store that [`open`](Self::open) rejects as unclean ([`Error::is_unclean`]), to save
    /// the data that is still readable. No operation on the handle changes the file.
    pub fn open_unclean(path: &Path) -> Result<Store, Error> {
        Ok(Store::of(Segment::open_unclean(path)?))
    }

    /// Creates a store at a path where no file exists. Its `maxmemory` is 1 GiB, or five eighths of
    /// the file system if that is less.
    pub fn create(path: &Path, options: &Options) -> Result<Store, Error> {
        let segment =
            Terms::default().initially(|initially| Segment::create_so(path, options, initially))?;
        Ok(Store::of(segment))
    }

    /// Opens the store at a path, or creates it if no file exists there.
    pub fn open_or_create(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::open_or_create_so(path, options, &Terms::default())
    }

    /// Opens the store at a path, or creates it with the limits in `terms`. An existing store keeps
    /// its own limits, which [`agrees_with`](Self::agrees_with) compares with `terms`.
    pub fn open_or_create_so(
        path: &Path,
        options: &Options,
        terms: &Terms,
    ) -> Result<Store, Error> {
        Store::open_or_create_watched(path, options, terms, &RecoveryWatch::default())
    }

    /// Opens or creates a store like [`open_or_create_so`](Self::open_or_create_so), and shows the
    /// progress of a recovery from its journal.
    ///
    /// # Errors
    /// Fails if `watch` interrupts the recovery. The store is not created then.
    pub fn open_or_create_watched(
        path: &Path,
        options: &Options,
        terms: &Terms,
        watch: &RecoveryWatch<'_>,
    ) -> Result<Store, Error> {
        let Some(journal) = terms.journal_terms(path)? else {
            let segment =
                terms.initially(|initially| Segment::open_or_create(path, options, initially))?;
            return Ok(Store::of(segment));
        };
        let opened = terms.initially(|initially| {
            Segment::open_watched(path, options, initially, &journal, watch)
        })?;
        Ok(Store::recovered(opened))
    }

    /// Opens the existing store at a path for reading and writing. Recovers it if its file is gone
    /// or dates from another boot, and `folder` contains its journal.
    ///
    /// # Errors
    /// Fails if the file does not exist and there is no journal.
    pub fn open_or_recover(path: &Path, folder: &Path) -> Result<Store, Error> {
        Store::open_or_recover_watched(path, folder, &RecoveryWatch::default())
    }

    /// Opens a store like [`open_or_recover`](Self::open_or_recover), and shows the progress of a
    /// recovery.
    ///
    /// # Errors
    /// Fails if `watch` interrupts the recovery. The store is not created then.
    pub fn open_or_recover_watched(
        path: &Path,
        folder: &Path,
        watch: &RecoveryWatch<'_>,
    ) -> Result<Store, Error> {
        if !folder.is_dir() {
            return Store::open(path, true);
        }
        let terms = Terms {
            journal: Some(folder.into()),
            ..Terms::default()
        };
        Store::open_or_create_watched(path, &Options::default(), &terms, watch)
    }

    /// Recovers a store as it was at an earlier time, from the journal in a folder into a new file at
    /// `path`. The new store has no journal, and the folder is only read.
    ///
    /// # Errors
    /// Fails if `path` exists, if the journal does not reach back to `until`, or if it is damaged
    /// before. No store is created then.
    pub fn recover_until(
        path: &Path,
        folder: &Path,
        until: Until,
        watch: &RecoveryWatch<'_>,
    ) -> Result<Store, Error> {
        let start = Instant::now();
        let recovered = Segment::recover_until(path, folder, until, watch)?;
        let recovery = Recovery {
            position: recovered.position,
            cut: recovered.cut,
            took: start.elapsed(),
        };
        Ok(Store::with_recovery(recovered.segment, Some(recovery)))
    }

    /// Creates the handle of a segment that may have been recovered from its journal.
    fn recovered(opened: Opened) -> Store {
        Store::with_recovery(opened.segment, opened.recovery)
    }

    /// Creates the handle of a segment, including the state that each module keeps in a handle.
    fn of(segment: Segment) -> Store {
        Store::with_recovery(segment, None)
    }

    fn with_recovery(segment: Segment, recovery: Option<Recovery>) -> Store {
        let parts = Parts::default()
            .with(ABOVE)
            .with(Patterns::default())
            .with(Pool::default())
            .with(Unsent::default())
            .with(Postponed::default())
            .with(Counters::default())
            .with(Places::default())
            .with(Round::default())
            .with(RecoveryPart(recovery));
        Store::with_parts(segment, parts)
    }
}
