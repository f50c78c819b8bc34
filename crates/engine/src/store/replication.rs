//! The state of a replica: which source its keys come from, and up to which position in the source's
//! stream of changes.
//!
//! Each shard has a root word with the position up to which the changes of that shard are applied
//! ([`APPLIED`]). The transaction that applies a change also stores the position after it, in any one
//! of the shards that it has locked. The highest position of all shards is therefore exactly the
//! position of the last change, whichever process was killed at whichever moment, and a change needs
//! no locks but its own.
//!
//! A complete data set is loaded into databases that clients cannot see ([`LOADING`]). One
//! transaction then swaps them with the visible ones, so that readers see the old data set or the new
//! one.

use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::handle::store::Store;
use crate::store::flush::empty;
use crate::structures::roots::{APPLIED, DATABASES, LOADING, Root, SOURCE, loading};
use crate::transaction::access::Access;
use crate::transaction::writer::{Expiry, Writer};
use crate::upkeep::graveyard::detach_unseen;

/// The number of low bits of an applied position that contain the selected database.
const DATABASE_BITS: u32 = 4;
const _: () = assert!(DATABASES == 1 << DATABASE_BITS);

/// The key of the replication id in its dictionary.
const ID: &[u8] = b"id";

/// The number of bytes in a replication id.
pub const REPLICATION_ID: usize = 40;

/// A place in a source's stream of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppliedPosition {
    /// The number of bytes in the stream before the place. Must be less than 2^60.
    pub offset: u64,
    /// The database that the stream has selected at the place.
    pub database: usize,
}

impl AppliedPosition {
    fn to_word(self) -> u64 {
        self.offset << DATABASE_BITS | self.database as u64 & (DATABASES as u64 - 1)
    }

    fn of_word(word: u64) -> AppliedPosition {
        AppliedPosition {
            offset: word >> DATABASE_BITS,
            database: (word & (DATABASES as u64 - 1)) as usize,
        }
    }
}

/// The source of a replica's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The replication id of the source's stream.
    pub id: [u8; REPLICATION_ID],
    /// The place after the last change that was applied.
    pub position: AppliedPosition,
}

/// Returns the number of the database in which a data set's database is loaded.
///
/// # Panics
/// Panics if there is no such database.
pub fn loading_database(database: usize) -> usize {
    assert!(database < DATABASES, "database {database}");
    LOADING + database
}

impl Store {
    /// Returns the source of the store's keys, or `None` if the store never was a replica, or if it
    /// has no complete data set.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn source(&self) -> Result<Option<Source>, Error> {
        let shards = self.all_shards();
        self.read(shards, |reader| {
            let key = self.hidden_key(0, ID);
            let Some(entry) = reader.find(SOURCE, &key)? else {
                return Ok(None);
            };
            let mut id = Vec::new();
            let text = entry.text(reader.view())?;
            text.append_to(reader.view(), &mut id)?;
            let Ok(id) = id.as_slice().try_into() else {
                return Ok(None);
            };
            let words = shards
                .iter()
                .map(|shard| reader.view().root(shard, APPLIED));
            let position = AppliedPosition::of_word(words.max().unwrap_or(0));
            Ok::<_, Error>(Some(Source { id, position }))
        })
    }

    /// Removes the remains of an interrupted load. The next data set can then be loaded into the
    /// databases of [`loading_database`].
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn begin_loading(&self) -> Result<(), Error> {
        let databases: Vec<usize> = loading().collect();
        self.flush(&databases, true).map(drop)
    }

    /// Replaces all keys with those that were loaded, and records their source, in one transaction.
    /// Returns the number of keys that were replaced. Their memory is freed later, in small steps.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn finish_loading(&self, source: &Source) -> Result<u64, Error> {
        let (shards, databases) = (self.all_shards(), loading().collect::<Vec<usize>>());
        self.write(shards, |writer| {
            for database in 0..DATABASES {
                writer.swap_databases(database, loading_database(database))?;
            }
            let mut replaced = 0;
            for shard in shards.iter() {
                replaced += empty(writer, shard, &databases)?;
            }
            writer.set_source(source)?;
            Ok::<_, Error>(replaced)
        })
    }

    /// Records another source for the keys that the store has, such as a replica that took its
    /// source's place.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn set_source(&self, source: &Source) -> Result<(), Error> {
        self.write(self.all_shards(), |writer| writer.set_source(source))
    }

    /// Forgets the source, because the store's keys are about to differ from it. The next source must
    /// send a complete data set.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn forget_source(&self) -> Result<(), Error> {
        let root = Root {
            shard: 0,
            database: SOURCE,
        };
        self.write(ShardSet::one(0), |writer| detach_unseen(writer, root))
    }
}

impl Writer<'_, '_> {
    fn set_source(&mut self, source: &Source) -> Result<(), Error> {
        let key = self.store.hidden_key(0, ID);
        self.set(SOURCE, &key, &source.id, Expiry::Never)?;
        // A word of an earlier stream could be higher than all positions of this one.
        for shard in self.transaction.shards().iter() {
            let word = source.position.to_word();
            self.transaction.set_root(shard, APPLIED, word)?;
        }
        Ok(())
    }
}

impl Access<'_> {
    /// Records that all changes before a place in the source's stream are applied. Within a
    /// transaction, the record takes effect together with the transaction's changes.
    ///
    /// # Errors
    /// Returns the errors of [`Store::write`].
    pub fn note_applied(&self, position: AppliedPosition) -> Result<(), Error> {
        let locked = self.running.map(|running| running.shards());
        let shard = locked.and_then(|shards| shards.iter().next()).unwrap_or(0);
        self.write(ShardSet::one(shard), |writer| {
            Ok(writer
                .transaction
                .set_root(shard, APPLIED, position.to_word())?)
        })
    }
}
