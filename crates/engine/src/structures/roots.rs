//! The layout of a shard's root words: one dictionary per database, and the queue of structures to
//! free. The root words of a large collection's dictionary are in the entry of its key and use the
//! same order.

use undercroft_memory::{ROOT_WORDS, Roots, Transaction, View};

use crate::error::Error;

/// The number of databases.
pub const DATABASES: usize = 16;
/// The number of root words per database.
pub(crate) const DATABASE_WORDS: usize = 16;

/// The offset of the main table.
pub(crate) const TABLE: usize = 0;
/// The binary logarithm of the main table's number of buckets.
pub(crate) const BITS: usize = 1;
/// The number of keys of the database in this shard.
pub(crate) const KEYS: usize = 2;
/// The number of keys of the database in this shard that have an expiry.
pub(crate) const EXPIRES: usize = 3;
/// The offset of the new table while the dictionary is being resized, else 0.
pub(crate) const NEXT_TABLE: usize = 4;
/// The binary logarithm of the new table's number of buckets.
pub(crate) const NEXT_BITS: usize = 5;
/// The number of zeroed buckets of the new table. The table is in use once all buckets are zeroed.
pub(crate) const PREPARED: usize = 6;
/// The number of buckets moved from the main table to the new table.
pub(crate) const MOVED: usize = 7;
/// The number of words that describe the tables.
pub(crate) const TABLE_WORDS: usize = 8;
/// The position of the expiry sweep: a bucket, and in the bits above it the binary logarithm of the
/// table length at that time.
pub(crate) const SWEEP: usize = 8;
/// A lower bound for the deadlines of the database's keys in this shard, in Unix milliseconds. 0
/// means unknown.
pub(crate) const SOONEST: usize = 9;
/// The earliest remaining deadline that the current pass of the sweep has seen. 0 means unknown:
/// the pass has not started at the first bucket, or it started during a resize.
pub(crate) const SEEN: usize = 10;
/// For a large collection: the arena that holds its memory, or 0.
pub(crate) const ARENA: usize = 8;
/// The number of root words of a large collection, whose elements do not expire.
pub(crate) const ELEMENTS_WORDS: usize = 9;

/// The first structure in the queue of structures to free. This word follows those of the
/// databases.
pub(crate) const DYING: usize = DATABASES * DATABASE_WORDS;

/// The first of the internal dictionaries: subscribers of channels, of patterns (all in shard 0),
/// and of shard channels. Internal dictionaries use the root words of databases with higher
/// numbers.
pub(crate) const SUBSCRIPTIONS: usize = 24;
/// The number of subscription dictionaries.
pub(crate) const SUBSCRIPTION_KINDS: usize = 3;
/// The count of changes to pattern subscriptions, in shard 0.
pub(crate) const PATTERN_CHANGES: usize = (SUBSCRIPTIONS + SUBSCRIPTION_KINDS) * DATABASE_WORDS;

/// The number of tickets issued in this shard, one for each client that started to wait there.
pub(crate) const TICKETS: usize = PATTERN_CHANGES + 1;

/// The dictionary of wait queues: the queue of each key, in the shard of the key.
pub(crate) const QUEUES: usize = 28;
/// The dictionary of waiting clients, each in the shard of its seat.
pub(crate) const WAITERS: usize = 29;
/// The dictionary of answered clients, by seat.
pub(crate) const ANSWERED: usize = 30;

/// The dictionary of messages that are too long for the ring.
pub(crate) const PARCELS: usize = 20;

/// The dictionaries of script texts, keyed by SHA-1, and of function libraries, keyed by name.
pub(crate) const SCRIPTS: usize = 21;
pub(crate) const LIBRARIES: usize = 22;

/// Returns the numbers of all internal dictionaries, which clients cannot see.
pub(crate) fn hidden() -> impl Iterator<Item = usize> + Clone {
    let subscriptions = SUBSCRIPTIONS..SUBSCRIPTIONS + SUBSCRIPTION_KINDS;
    subscriptions.chain([QUEUES, WAITERS, ANSWERED, PARCELS, SCRIPTS, LIBRARIES])
}

/// Returns the numbers of all dictionaries whose keys can expire.
pub(crate) fn expiring() -> impl Iterator<Item = usize> + Clone {
    (0..DATABASES).chain([PARCELS])
}

/// The epochs of the databases, one word each, at the end of the root words. While any key is
/// watched, an epoch grows when its database is emptied or swapped.
pub(crate) const EPOCHS: usize = ROOT_WORDS - DATABASES;

const _: () = assert!(DYING < PARCELS * DATABASE_WORDS && LIBRARIES < SUBSCRIPTIONS);
const _: () = assert!(PARCELS < SCRIPTS && SCRIPTS < LIBRARIES);
const _: () = assert!(DYING < SUBSCRIPTIONS * DATABASE_WORDS && TICKETS < QUEUES * DATABASE_WORDS);
const _: () = assert!((ANSWERED + 1) * DATABASE_WORDS <= EPOCHS);

/// One database's root words in one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    pub(crate) shard: usize,
    pub(crate) database: usize,
}

impl Root {
    #[inline(always)]
    pub(crate) fn get(self, view: &View<'_>, word: usize) -> u64 {
        view.root(self.shard, self.database * DATABASE_WORDS + word)
    }

    /// Returns the words that describe the tables.
    #[inline(always)]
    pub(crate) fn table_words<'v>(self, view: &View<'v>) -> Roots<'v, TABLE_WORDS> {
        view.roots(self.shard, self.database * DATABASE_WORDS)
    }

    #[inline(always)]
    pub(crate) fn set(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        value: u64,
    ) -> Result<(), Error> {
        let word = self.database * DATABASE_WORDS + word;
        Ok(transaction.set_root(self.shard, word, value)?)
    }

    pub(crate) fn add(
        self,
        transaction: &mut Transaction<'_>,
        word: usize,
        change: i64,
    ) -> Result<(), Error> {
        let old = self.get(transaction.view(), word);
        self.set(transaction, word, old.wrapping_add_signed(change))
    }
}
