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

use undercroft_memory::{ShardSet, removing};

use crate::error::Error;
use crate::handle::reader::Reader;
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
pub(super) const ID: &[u8] = b"id";

/// The key of the [`SourceLink`] in the same dictionary.
pub(super) const LINK: &[u8] = b"link";

/// The number of bytes in a replication id.
pub const REPLICATION_ID: usize = 40;

/// The key of the record of which of the source's keys the store has, in the same dictionary.
const FILTER: &[u8] = b"filter";

/// A place in a source's stream of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppliedPosition {
    /// The number of bytes in the stream before the place. Must be less than 2^60.
    pub offset: u64,
    /// The database that the stream has selected at the place.
    pub database: usize,
}

impl AppliedPosition {
    pub(super) fn to_word(self) -> u64 {
        self.offset << DATABASE_BITS | self.database as u64 & (DATABASES as u64 - 1)
    }

    pub(super) fn of_word(word: u64) -> AppliedPosition {
        AppliedPosition {
            offset: word >> DATABASE_BITS,
            database: (word & (DATABASES as u64 - 1)) as usize,
        }
    }
}

/// The state of a replica's connection to its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkStatus {
    /// There is no connection.
    #[default]
    Down = 0,
    /// The source's data set is being loaded.
    Loading = 1,
    /// The source's changes are applied as they arrive.
    Up = 2,
}

/// A replica's connection to its source, as the process that follows the source last recorded it. All
/// processes can report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceLink {
    /// The host of the source, or the path of its unix socket.
    pub host: String,
    /// The port of the source, or 0 for a unix socket.
    pub port: u16,
    /// The state of the connection. [`Store::source_link`] returns `Down` if the process that
    /// recorded another state has not renewed it for some seconds.
    pub status: LinkStatus,
    /// When the state last changed, in Unix milliseconds.
    pub since: u64,
    /// When the last byte arrived from the source, in Unix milliseconds, or 0.
    pub heard: u64,
    /// When the record was written, in Unix milliseconds.
    pub recorded: u64,
    /// The number of bytes of the source's stream before the last one that has arrived.
    pub offset: u64,
    /// The number of bytes that the source's stream had when the source was last asked, or 0.
    pub source_offset: u64,
    /// The last time at which the source is known to have had no change that the store now lacks, in
    /// Unix milliseconds, or 0.
    pub current: u64,
    /// The number of bytes of a data set that have arrived.
    pub loaded_bytes: u64,
    /// Whether a server follows the source, which does so again after its next start.
    pub is_server: bool,
    /// Whether the connection uses TLS.
    pub is_encrypted: bool,
    /// The last error, or an empty string.
    pub error: String,
}

/// The flags of a [`SourceLink`] in its record.
const SERVER: u64 = 1;
const ENCRYPTED: u64 = 2;

impl SourceLink {
    /// The time after which a record counts as abandoned.
    const ABANDONED: u64 = 5000;

    /// The maximum number of bytes of an error that are recorded.
    const ERROR_MAX: usize = 500;

    /// The number of numbers in a record.
    const NUMBERS: usize = 11;

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let numbers: [u64; Self::NUMBERS] = [
            u64::from(self.port),
            self.status as u64,
            self.since,
            self.heard,
            self.recorded,
            self.offset,
            self.source_offset,
            self.current,
            self.loaded_bytes,
            (u64::from(self.is_server) * SERVER) | (u64::from(self.is_encrypted) * ENCRYPTED),
            self.host.len() as u64,
        ];
        let mut bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        bytes.extend_from_slice(self.host.as_bytes());
        // A character that is cut in half is shown as a replacement character.
        bytes.extend(self.error.bytes().take(Self::ERROR_MAX));
        bytes
    }

    /// Returns the number of bytes that the source's stream has after a place, as far as is known.
    pub fn bytes_after(&self, applied: u64) -> u64 {
        self.source_offset.max(self.offset).saturating_sub(applied)
    }

    fn of_bytes(bytes: &[u8]) -> Option<SourceLink> {
        let (numbers, texts) = bytes.split_at_checked(8 * Self::NUMBERS)?;
        let number = |index: usize| {
            let bytes = numbers.get(8 * index..8 * index + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let (host, error) = texts.split_at_checked(usize::try_from(number(10)?).ok()?)?;
        Some(SourceLink {
            host: String::from_utf8_lossy(host).into_owned(),
            port: u16::try_from(number(0)?).ok()?,
            status: match number(1)? {
                1 => LinkStatus::Loading,
                2 => LinkStatus::Up,
                _ => LinkStatus::Down,
            },
            since: number(2)?,
            heard: number(3)?,
            recorded: number(4)?,
            offset: number(5)?,
            source_offset: number(6)?,
            current: number(7)?,
            loaded_bytes: number(8)?,
            is_server: number(9)? & SERVER != 0,
            is_encrypted: number(9)? & ENCRYPTED != 0,
            error: String::from_utf8_lossy(error).into_owned(),
        })
    }
}

/// The distance between a replica and its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The number of bytes of the source's stream that are not applied, as far as the source was
    /// asked, which happens every second.
    pub bytes: u64,
    /// The maximum age of the oldest change that the store lacks, in milliseconds: 0 if it lacks
    /// none, and `None` if it never had a complete data set.
    pub milliseconds: Option<u64>,
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
            let id = source_text(self, reader, ID)?;
            let Some(Ok(id)) = id.as_deref().map(<[u8; REPLICATION_ID]>::try_from) else {
                return Ok(None);
            };
            let positions = shards.iter().map(|shard| position_in(reader, shard));
            let position = positions.max().unwrap_or_default();
            Ok::<_, Error>(Some(Source { id, position }))
        })
    }

    /// Returns the record of which of the source's keys the store has, or an empty one if it has all.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn source_filter(&self) -> Result<Vec<u8>, Error> {
        let filter = self.read(ShardSet::one(0), |reader| source_text(self, reader, FILTER))?;
        Ok(filter.unwrap_or_default())
    }

    /// Records which of the source's keys the next data set has. [`forget_source`] removes the record.
    ///
    /// [`forget_source`]: Self::forget_source
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn set_source_filter(&self, filter: &[u8]) -> Result<(), Error> {
        let key = self.hidden_key(0, FILTER);
        self.write(ShardSet::one(0), |writer| {
            writer.set(SOURCE, &key, filter, Expiry::Never)
        })
    }

    /// Returns whether the store has a complete data set of a source.
    pub(super) fn has_source(&self) -> Result<bool, Error> {
        let id = self.read(ShardSet::one(0), |reader| source_text(self, reader, ID))?;
        Ok(id.is_some_and(|id| id.len() == REPLICATION_ID))
    }

    /// Returns the connection to the source, as the process that follows it last recorded it.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn source_link(&self) -> Result<Option<SourceLink>, Error> {
        let bytes = self.read(ShardSet::one(0), |reader| source_text(self, reader, LINK))?;
        Ok(bytes.and_then(|bytes| self.current_link(&bytes)))
    }

    /// Returns the connection that a record describes. It is down if the record is not current.
    pub(super) fn current_link(&self, record: &[u8]) -> Option<SourceLink> {
        let mut link = SourceLink::of_bytes(record)?;
        if self.now().saturating_sub(link.recorded) > SourceLink::ABANDONED {
            link.status = LinkStatus::Down;
        }
        Some(link)
    }

    /// Returns how far the store is from its source, or `None` if it is no replica.
    ///
    /// # Errors
    /// Fails if the store is damaged.
    pub fn lag(&self) -> Result<Option<Lag>, Error> {
        let Some(link) = self.source_link()?.filter(|_| self.is_replica()) else {
            return Ok(None);
        };
        let bytes = match self.cluster_source()? {
            Some(cluster) => {
                let mut bytes = 0;
                for lane in &cluster.lanes {
                    let link = self.lane_link(lane.number)?.unwrap_or_default();
                    bytes += link.bytes_after(lane.position.offset);
                }
                bytes
            }
            None => {
                let source = self.source()?;
                link.bytes_after(source.map_or(0, |source| source.position.offset))
            }
        };
        let is_current = link.status == LinkStatus::Up && bytes == 0;
        let milliseconds = match link.current {
            0 => None,
            _ if is_current => Some(0),
            current => Some(self.now().saturating_sub(current)),
        };
        Ok(Some(Lag {
            bytes,
            milliseconds,
        }))
    }

    /// Records the state of the connection to the source, for all processes. Must be renewed every
    /// second.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub fn set_source_link(&self, link: &SourceLink) -> Result<(), Error> {
        self.set_link(LINK, link)
    }

    pub(super) fn set_link(&self, name: &[u8], link: &SourceLink) -> Result<(), Error> {
        let key = self.hidden_key(0, name);
        // A full store must still report that it is full. The record replaces one of its size.
        let _removing = removing();
        self.write(ShardSet::one(0), |writer| {
            writer.set(SOURCE, &key, &link.to_bytes(), Expiry::Never)
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

/// Returns the position up to which the changes of a shard are applied, or a lower one than that of
/// another shard.
pub(super) fn position_in(reader: &Reader<'_, '_>, shard: usize) -> AppliedPosition {
    AppliedPosition::of_word(reader.view().root(shard, APPLIED))
}

/// Returns an entry of the dictionary with the source.
pub(crate) fn source_text(
    store: &Store,
    reader: &Reader<'_, '_>,
    name: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let key = store.hidden_key(0, name);
    let Some(entry) = reader.find(SOURCE, &key)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let text = entry.text(reader.view())?;
    text.append_to(reader.view(), &mut bytes)?;
    Ok(Some(bytes))
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
        self.note_place(APPLIED, position)
    }

    /// Records a place in one of the shards that are locked, or in the first shard.
    pub(super) fn note_place(&self, word: usize, position: AppliedPosition) -> Result<(), Error> {
        let locked = self.running.map(|running| running.shards());
        let shard = locked.and_then(|shards| shards.iter().next()).unwrap_or(0);
        self.write(ShardSet::one(shard), |writer| {
            Ok(writer
                .transaction
                .set_root(shard, word, position.to_word())?)
        })
    }
}
