//! Durability: which parts of a store are on disk (D1 to D3).
//!
//! The kernel writes the pages of a mapped file back in any order. After a power failure or a
//! kernel crash, the file is a mixture of pages from many moments, and nothing in the pages shows
//! this. The header therefore records the boot during which the store was changed since its last
//! sync. During any other boot, such a store is rejected.
//!
//! - **D1** The boot is durably recorded in the header before the first change reaches the file
//!   (`durability::begin_writing`). The word `control::WRITING` confirms that it is, so that a
//!   writer checks only one word.
//! - **D2** A sync clears that word under all locks, when no change is half made, and then writes
//!   everything to disk without a lock. It clears the header's word only if no writer has set
//!   `control::WRITING` in the meantime, which it checks under all locks again.
//! - **D3** Consequently, a machine failure at any step is safe: if the header on disk records no
//!   boot, then everything written before that header is on disk, and nothing written after it is.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::heap::step;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::{PAGE, control, header};
use crate::messages::ring_writer;
use crate::probes::fault;
use crate::segment::marks::Marks;
use crate::segment::{Segment, place};

/// The number of attempts to sync while other processes keep writing.
const ATTEMPTS: u32 = 3;

impl Segment {
    /// Writes all changes to disk. Until its next change, the store may then be opened after a
    /// power failure, on another machine, or as a copy of the file. Other processes may write
    /// during a sync, but the sync fails if they never pause.
    ///
    /// # Errors
    /// Returns [`Error::Unsynced`] if other processes kept writing: all changes made before the
    /// call are on disk, but the store would still be rejected after a power failure.
    pub fn sync(&self) -> Result<(), Error> {
        place::prepare_to_write(self)?;
        let fail = |source| Error::Io {
            doing: "writing to the disk",
            path: self.path().into(),
            source,
        };
        let writing = self.mapping.word(control::WRITING);
        for _ in 0..ATTEMPTS {
            with_all_locked(self, || writing.store(0, Ordering::Release))?;
            fault::step();
            sync_directory(self.path()).map_err(fail)?;
            self.mapping
                .sync(0, self.mapping.layout().file_length)
                .map_err(fail)?;
            fault::step();
            let synced = with_all_locked(self, || {
                let quiet = writing.load(Ordering::Acquire) == 0;
                if quiet {
                    self.mapping.store(header::UNSYNCED, 0);
                }
                quiet
            })?;
            fault::step();
            if synced {
                // A writer that changes the store before the next line has stored the boot in the
                // header again, and syncs this page itself, after this process's store.
                return self.mapping.sync(0, PAGE).map_err(fail);
            }
        }
        Err(Error::Unsynced)
    }
}

/// Writes the directory to disk, because the file's name must be durable as well.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        // This process has dropped the privileges needed to sync the directory. Only the file's
        // contents can be synced.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Runs `body` under all locks, after recovering all shards from dead processes.
fn with_all_locked<R>(segment: &Segment, body: impl FnOnce() -> R) -> Result<R, Error> {
    let shards = segment.all_shards();
    shard_locks::lock(segment, shards, Marks::Ignored)?;
    let _unlock = Unlock { segment, shards };
    step::run(segment, |_| ring_writer::with_locked(segment, body))
}
