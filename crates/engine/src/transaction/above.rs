//! Calls of a transaction to the modules above, which it does not know: they hand down a table of them with each handle.

use std::time::Duration;

use undercroft_memory::Offset;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::entry::Entry;
use crate::structures::roots::Root;
use crate::transaction::outbox::Content;
use crate::transaction::writer::Writer;

/// What the modules above do for a transaction. Cold calls, all of them.
pub(crate) trait Above: Send + Sync {
    /// Lets what an object consists of be freed later, in small steps (W8).
    fn discard_object(
        &self,
        writer: &mut Writer<'_, '_>,
        shard: usize,
        entry: &Entry,
    ) -> Result<(), Error>;

    /// The root words with which another key takes over an object (`take`), or those of a copy of it.
    fn hand_over_object(
        &self,
        writer: &mut Writer<'_, '_>,
        entry: &Entry,
        shards: (usize, usize),
        take: bool,
    ) -> Result<Vec<u8>, Error>;

    /// Removes what has expired of a bucket of a dictionary, but for an entry that was just inserted.
    fn sweep_a_little(
        &self,
        writer: &mut Writer<'_, '_>,
        root: Root,
        inserted: Offset,
    ) -> Result<(), Error>;

    /// Frees up to so many buckets or leaves of what was removed.
    fn free_a_little(
        &self,
        writer: &mut Writer<'_, '_>,
        shard: usize,
        buckets: u64,
    ) -> Result<(), Error>;

    /// Does and tells what a transaction left to be done after its commit.
    fn deliver(&self, store: &Store, content: Content);

    /// Tries again what a lock stood in the way of. Returns after what time to do so again, where something is left.
    fn settle(&self, store: &Store) -> Option<Duration>;

    /// Looks after marked shards (L5).
    fn look_after(&self, store: &Store) -> Result<(), Error>;

    /// Frees memory for a transaction that found none. Returns whether there was any.
    fn free_memory(&self, store: &Store) -> bool;

    /// Frees what dead processes left, until `is_enough` says so. Returns whether there was anything.
    fn free_of_the_dead(
        &self,
        store: &Store,
        is_enough: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Error>;

    /// Does a step of upkeep, which is due.
    fn upkeep(&self, store: &Store);
}

/// The table that a handle was made with.
pub(crate) type Table = &'static dyn Above;

/// The calls of a handle to the modules above.
pub(crate) fn above(store: &Store) -> Table {
    *store.part::<Table>()
}
