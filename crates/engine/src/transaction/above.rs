//! Calls from a transaction to higher modules, which it must not depend on. The higher modules pass
//! a table of functions to each store handle.

use std::time::Duration;

use undercroft_memory::Offset;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::entry::Entry;
use crate::structures::roots::Root;
use crate::transaction::outbox::Content;
use crate::transaction::writer::Writer;

/// The functions that higher modules provide to a transaction. These functions are not on a hot
/// path.
pub(crate) trait UpperFloors: Send + Sync {
    /// Queues the parts of an object to be freed later, in small steps (W8).
    fn discard_object(
        &self,
        writer: &mut Writer<'_, '_>,
        shard: usize,
        entry: &Entry,
    ) -> Result<(), Error>;

    /// Returns the root words for an object that moves or is copied to a different key. With
    /// `take`, the new key takes over the object; otherwise, it gets a copy.
    fn hand_over_object(
        &self,
        writer: &mut Writer<'_, '_>,
        entry: &Entry,
        shards: (usize, usize),
        take: bool,
    ) -> Result<Vec<u8>, Error>;

    /// Removes the expired entries from one bucket of a dictionary, except for an entry that was
    /// just inserted.
    fn sweep_a_little(
        &self,
        writer: &mut Writer<'_, '_>,
        root: Root,
        inserted: Offset,
    ) -> Result<(), Error>;

    /// Frees up to `buckets` buckets or leaves of removed structures.
    fn free_a_little(
        &self,
        writer: &mut Writer<'_, '_>,
        shard: usize,
        buckets: u64,
    ) -> Result<(), Error>;

    /// Does the work and sends the notifications that a transaction postponed until after its
    /// commit.
    fn deliver(&self, store: &Store, content: Content);

    /// Retries work that was skipped because of a lock. If work remains, returns the time after
    /// which to retry it.
    fn settle(&self, store: &Store) -> Option<Duration>;

    /// Returns the items of dead clients in marked shards to their keys (L5).
    fn look_after(&self, store: &Store) -> Result<(), Error>;

    /// Frees memory for a transaction that ran out of it. Returns whether any memory was freed.
    fn free_memory(&self, store: &Store) -> bool;

    /// Frees the waits and subscriptions that dead processes left, until `is_enough` returns true.
    /// Returns whether anything was freed.
    fn free_of_the_dead(
        &self,
        store: &Store,
        is_enough: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Error>;

    /// Runs the step of upkeep that is due.
    fn upkeep(&self, store: &Store);
}

/// The table of higher modules' functions that a store handle was created with.
pub(crate) type Table = &'static dyn UpperFloors;

/// Returns a store handle's table of higher modules' functions.
pub(crate) fn above(store: &Store) -> Table {
    *store.part::<Table>()
}
