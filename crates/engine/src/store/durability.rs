//! The durability of a store: its journal and its checkpoints.

use std::time::Duration;

use undercroft_memory::{Disk, Durability, JournalState, Recovery, Setting};

use crate::error::Error;
use crate::handle::store::Store;
use crate::store::terms::Terms;

/// How this process recovered the store when it opened it.
pub(crate) struct RecoveryPart(pub(crate) Option<Recovery>);

impl Store {
    /// Returns how the store was recovered from its journal when this process opened it, or `None`
    /// if its file was intact.
    pub fn recovery(&self) -> Option<Recovery> {
        self.part::<RecoveryPart>().0
    }

    /// Returns the store's durability mode.
    #[inline]
    pub fn durability(&self) -> Durability {
        self.segment.durability()
    }

    /// Returns the state of the store's journal, or `None` if it has none.
    pub fn journal(&self) -> Option<JournalState> {
        self.segment.journal()
    }

    /// Returns whether the journal's folder is on tmpfs or ramfs, so that a failure of the machine
    /// removes the journal, too.
    pub fn journal_is_in_memory(&self) -> bool {
        self.segment.journal_is_in_memory()
    }

    /// Changes the store's durability mode. A store without a journal begins one in the folder that
    /// `terms` names, which takes as long as a checkpoint.
    ///
    /// With [`Durability::None`], a store ends its journal and removes the files.
    ///
    /// # Errors
    /// Fails if the journal cannot be written or removed.
    pub fn set_durability(&self, durability: Durability, terms: &Terms) -> Result<(), Error> {
        match (self.journal(), durability) {
            (None, Durability::None) => Ok(()),
            (None, durability) => {
                let terms = Terms {
                    durability: Some(durability),
                    ..terms.clone()
                };
                let journal = terms.journal_terms(self.path())?;
                let journal = journal.ok_or_else(|| Error::Terms("no folder is known".into()))?;
                Ok(self
                    .segment
                    .begin_journal(&journal.folder, durability, &journal.options)?)
            }
            (Some(_), Durability::None) => Ok(self.segment.end_journal()?),
            (Some(journal), durability) if journal.checkpoint_age.is_none() => {
                // The process that began the journal ended before its first checkpoint was complete.
                self.segment.set_durability(durability)?;
                Ok(self.segment.checkpoint()?)
            }
            (Some(_), durability) => Ok(self.segment.set_durability(durability)?),
        }
    }

    /// Replaces the disk on which the journal is kept, for tests.
    pub fn set_disk(&mut self, disk: Box<dyn Disk>) {
        self.segment.set_disk(disk);
    }

    /// Makes all changes that were made before the call durable. Returns immediately if the store
    /// has no journal.
    ///
    /// # Errors
    /// Fails if the journal cannot be written, or if the wait is interrupted.
    pub fn make_durable(&self) -> Result<(), Error> {
        Ok(self.segment.make_durable()?)
    }

    /// Writes a checkpoint, and removes the files that recovery no longer needs. Other processes
    /// read and write in the meantime. O(memory in use).
    ///
    /// # Errors
    /// Fails if the store has no journal, or if a file cannot be written.
    pub fn checkpoint(&self) -> Result<(), Error> {
        Ok(self.segment.checkpoint()?)
    }

    /// Begins a checkpoint on a thread of its own, and returns once it has begun. The thread calls
    /// `ended` with the result.
    ///
    /// # Errors
    /// Fails if the store has no journal, if a process is writing a checkpoint already, or if no
    /// thread can be started. `ended` is not called then.
    pub fn begin_checkpoint(
        &self,
        ended: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let ended = |result: Result<(), _>| ended(result.map_err(Error::from));
        Ok(self.segment.begin_checkpoint(ended)?)
    }

    /// Runs `body` as a group: in the mode `always`, its changes wait for the disk once, at the end,
    /// rather than each on its own. Until then, other processes can see changes that a power cut
    /// would lose.
    ///
    /// # Errors
    /// Fails if the changes cannot be made durable, although they were made.
    pub fn group<R>(&self, body: impl FnOnce() -> R) -> Result<R, Error> {
        let (result, position) = self.deferring(body);
        self.end_deferral(position)?;
        Ok(result)
    }

    /// Runs `body` without waiting until its changes are durable. Returns the journal position for
    /// which the caller must wait before it reports any of the changes as made, or 0 if no change
    /// must be waited for. A deferral around this one also receives the position.
    #[inline]
    pub fn deferring<R>(&self, body: impl FnOnce() -> R) -> (R, u64) {
        self.segment.deferring(body)
    }

    /// Waits until changes are durable that were made in a [deferral](Self::deferring), which
    /// returned `position`. A deferral around that one waits instead.
    ///
    /// # Errors
    /// Fails if the changes cannot be made durable, although they were made.
    pub fn end_deferral(&self, position: u64) -> Result<(), Error> {
        Ok(self.segment.end_deferral(position)?)
    }

    /// Adds a journal position to the [deferral](Self::deferring) of this thread, in any mode.
    /// Returns false if the thread does not defer.
    pub fn defer_until(&self, position: u64) -> bool {
        self.segment.defer_until(position)
    }

    /// Waits until the journal is durable up to a position, at most for `patience`. Returns
    /// immediately if the journal has been ended.
    ///
    /// # Errors
    /// Fails if the journal cannot be written, if the wait is interrupted, or if the journal is not
    /// durable up to the position in time.
    pub fn wait_until_durable(&self, position: u64, patience: Duration) -> Result<(), Error> {
        Ok(self.segment.wait_until_durable(position, patience)?)
    }

    /// Returns whether no change before a journal position can be lost.
    #[inline]
    pub fn is_durable(&self, position: u64) -> bool {
        self.segment.is_durable(position)
    }

    /// Returns the rate of checkpoints that begin by themselves, in bytes a second. 0 means no limit.
    pub fn checkpoint_rate(&self) -> u64 {
        self.segment.checkpoint_rate()
    }

    /// Sets the rate of checkpoints that begin by themselves, for all processes. 0 means no limit.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    pub fn set_checkpoint_rate(&self, bytes: u64) -> Result<(), Error> {
        let value = bytes.saturating_add(1);
        Ok(self.segment.set_setting(Setting::CheckpointRate, value)?)
    }

    /// Returns by how many percent of the last checkpoint's size the journal grows before a checkpoint
    /// begins by itself. 0 means that none does.
    pub fn checkpoint_growth(&self) -> u64 {
        self.segment.checkpoint_growth()
    }

    /// Sets by how many percent of the last checkpoint's size the journal grows before a checkpoint
    /// begins by itself, for all processes. 0 means that none does.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    pub fn set_checkpoint_growth(&self, percent: u64) -> Result<(), Error> {
        let value = percent.saturating_add(1);
        Ok(self.segment.set_setting(Setting::CheckpointGrowth, value)?)
    }

    /// Returns the journal position after the last change of any process, or 0 if the store has no
    /// journal.
    pub fn journal_head(&self) -> u64 {
        self.segment.journal_head()
    }
}
