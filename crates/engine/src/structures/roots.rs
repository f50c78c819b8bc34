//! Where a shard's roots lie: one dictionary a database, and the list of what
//! is being freed. The root words of a large collection's dictionary lie in its
//! entry, in the same order.

use undercroft_memory::{ROOT_WORDS, Roots, Transaction, View};

use crate::error::Error;

/// Number of databases.
pub const DATABASES: usize = 16;
/// Words of a database's root.
pub(crate) const DATABASE_WORDS: usize = 16;

/// The main table's offset.
pub(crate) const TABLE: usize = 0;
/// Binary logarithm of the main table's number of buckets.
pub(crate) const BITS: usize = 1;
/// Keys in the database's part of this shard.
pub(crate) const KEYS: usize = 2;
/// Of these, keys that expire.
pub(crate) const EXPIRES: usize = 3;
/// The other table's offset, while the dictionary is being resized.
pub(crate) const NEXT_TABLE: usize = 4;
/// Binary logarithm of the other table's number of buckets.
pub(crate) const NEXT_BITS: usize = 5;
/// Buckets of the other table that are zeroed; it is in use when all are.
pub(crate) const PREPARED: usize = 6;
/// Buckets of the main table that have been moved to the other.
pub(crate) const MOVED: usize = 7;
/// Words that describe the tables.
pub(crate) const TABLE_WORDS: usize = 8;
/// Where the sweep for expired keys goes on: a bucket, and above it the binary
/// logarithm of the table's length at the time.
pub(crate) const SWEEP: usize = 8;
/// No key of the database's part of this shard expires before this time, Unix
/// milliseconds; 0 is not known.
pub(crate) const SOONEST: usize = 9;
/// What the sweep has seen of that since it began with the first bucket: the
/// soonest deadline that is left. 0 is not known: it began while the tables
/// were being resized, or has not begun.
pub(crate) const SEEN: usize = 10;
/// In a large collection: the arena that its memory is, or 0.
pub(crate) const ARENA: usize = 8;
/// Words of a large collection, which knows no expiry of its keys.
pub(crate) const ELEMENTS_WORDS: usize = 9;

/// Behind the databases: the first structure that is being freed.
pub(crate) const DYING: usize = DATABASES * DATABASE_WORDS;

/// The first of the dictionaries that no client sees: who is subscribed to
/// channels, to patterns (all in shard 0), and to shard channels. They lie
/// where databases of these numbers would.
pub(crate) const SUBSCRIPTIONS: usize = 24;
/// Number of these dictionaries.
pub(crate) const SUBSCRIPTION_KINDS: usize = 3;
/// In shard 0: counts the changes of who is subscribed to patterns.
pub(crate) const PATTERN_CHANGES: usize = (SUBSCRIPTIONS + SUBSCRIPTION_KINDS) * DATABASE_WORDS;

/// Beside it, in each shard: counts the clients that began to wait there.
pub(crate) const TICKETS: usize = PATTERN_CHANGES + 1;

/// Three more dictionaries that no client sees, of clients that wait for keys:
/// the queue of each key, in the key's shard;
pub(crate) const QUEUES: usize = 28;
/// each waiting client, in the shard of its seat;
pub(crate) const WAITERS: usize = 29;
/// and for each seat those of its clients that were answered.
pub(crate) const ANSWERED: usize = 30;

/// One more, of messages that are too long for the ring.
pub(crate) const PARCELS: usize = 20;

/// Two more, of which clients see no keys: the texts of scripts by their SHA-1, and the libraries of functions by their
/// names.
pub(crate) const SCRIPTS: usize = 21;
pub(crate) const LIBRARIES: usize = 22;

/// All dictionaries that no client sees.
pub(crate) fn hidden() -> impl Iterator<Item = usize> + Clone {
    let subscriptions = SUBSCRIPTIONS..SUBSCRIPTIONS + SUBSCRIPTION_KINDS;
    subscriptions.chain([QUEUES, WAITERS, ANSWERED, PARCELS, SCRIPTS, LIBRARIES])
}

/// All dictionaries whose keys may expire.
pub(crate) fn expiring() -> impl Iterator<Item = usize> + Clone {
    (0..DATABASES).chain([PARCELS])
}

/// At the end, one word a database: how often all its keys were removed or
/// exchanged while somebody watched.
pub(crate) const EPOCHS: usize = ROOT_WORDS - DATABASES;

const _: () = assert!(DYING < PARCELS * DATABASE_WORDS && LIBRARIES < SUBSCRIPTIONS);
const _: () = assert!(PARCELS < SCRIPTS && SCRIPTS < LIBRARIES);
const _: () = assert!(DYING < SUBSCRIPTIONS * DATABASE_WORDS && TICKETS < QUEUES * DATABASE_WORDS);
const _: () = assert!((ANSWERED + 1) * DATABASE_WORDS <= EPOCHS);

/// One database's part of one shard.
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

    /// The words that describe the tables.
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
