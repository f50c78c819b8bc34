//! What of a store is on the disk (D1 to D3).
//!
//! The kernel writes the pages of a mapped file back in any order. After a power
//! cut, or a crash of the kernel, the file is a mixture of pages from many
//! moments, and nothing in the pages tells. So the header says in which boot
//! the store was changed since it was last synced; in any other boot such a
//! store is refused.
//!
//! - **D1** The header names the boot, durably, before the first change reaches
//!   the file (`durability::begin_writing`). The word `control::WRITING` says that
//!   it does, so that a writer looks at one word.
//! - **D2** A sync closes that word under all locks, where no change is half
//!   made, writes everything to the disk without any lock, and clears the
//!   header's word only if nobody has opened the other one meanwhile, which is
//!   looked at under all locks again.
//! - **D3** So, whatever becomes of the machine at which step: a header without
//!   a boot is on the disk only together with everything that was written before
//!   it, and nothing that was written after it.

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

/// Syncs in a row that others may spoil by writing.
const ATTEMPTS: u32 = 3;

impl Segment {
    /// Writes everything to the disk, so that the store may be opened after a
    /// power cut, on another machine, or as a copy, until somebody changes it
    /// again. Others may write meanwhile, but not without a pause.
    ///
    /// # Errors
    /// [`Error::Unsynced`] where others wrote all the time: what was there before
    /// the call is on the disk, but would not be used after a power cut.
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
                // A writer that comes before this names the boot again, and its
                // own sync of this page comes after this store.
                return self.mapping.sync(0, PAGE).map_err(fail);
            }
        }
        Err(Error::Unsynced)
    }
}

/// The file's name must be on the disk as well.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        // Who dropped its privileges did not make the file by them.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

/// Does something while nobody changes anything, with what the dead left
/// recovered.
fn with_all_locked<R>(segment: &Segment, body: impl FnOnce() -> R) -> Result<R, Error> {
    let shards = segment.all_shards();
    shard_locks::lock(segment, shards, Marks::Ignored)?;
    let _unlock = Unlock { segment, shards };
    step::run(segment, |_| ring_writer::with_locked(segment, body))
}
