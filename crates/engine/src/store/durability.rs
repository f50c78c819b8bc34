//! The durability of a store: its journal and its checkpoints.

use undercroft_memory::{Disk, Durability, JournalState, Recovery};

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
}
