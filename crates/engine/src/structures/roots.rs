//! The layout of a shard's root words: one dictionary for each database, and the queue of
//! structures to free. The root words of a large collection's dictionary are in the entry of the
//! collection's key, in the same order.

use undercroft_memory::{ROOT_WORDS, Roots, Transaction, View};

use crate::error::Error;

/// The number of databases.
pub const DATABASES: usize = 16;
/// The number of root words for each database.
pub(crate) const DATABASE_WORDS: usize = 16;

/// The index of the root word with the offset of the main table.
pub(crate) const TABLE: usize = 0;
/// The binary logarithm of the main table's number of buckets.
pub(crate) const BITS: usize = 1;
/// The number of the database's keys in this shard.
pub(crate) const KEYS: usize = 2;
/// The number of the database's keys in this shard that have an expiry.
pub(crate) const EXPIRES: usize = 3;
/// The offset of the new table during a resize of the dictionary, otherwise 0.
pub(crate) const NEXT_TABLE: usize = 4;
/// The binary logarithm of the new table's number of buckets.
pub(crate) const NEXT_BITS: usize = 5;
/// The number of zeroed buckets in the new table. The table is in use once all its buckets are
/// zeroed.
pub(crate) const PREPARED: usize = 6;
/// The number of buckets that were moved from the main table to the new table.
pub(crate) const MOVED: usize = 7;
/// The number of root words that describe the tables.
pub(crate) const TABLE_WORDS: usize = 8;
/// The position of the expiry sweep: a bucket number, and above it the binary logarithm of the
/// table length when the position was stored.
pub(crate) const SWEEP: usize = 8;
/// A lower bound for the expiry times of the database's keys in this shard, in Unix milliseconds. 0
/// means unknown.
pub(crate) const SOONEST: usize = 9;
/// The earliest future expiry that the current pass of the sweep has seen. 0 means unknown, because
/// the pass did not start at the first bucket or started during a resize.
pub(crate) const SEEN: usize = 10;
/// For a large collection, the arena (a separate memory area) that contains its blocks, or 0.
pub(crate) const ARENA: usize = 8;
/// The number of root words of a large collection. Its elements do not expire, so it needs no words
/// for expiry.
pub(crate) const ELEMENTS_WORDS: usize = 9;

/// The first structure in the queue of structures to free. This root word follows the root words of
/// the databases.
pub(crate) const DYING: usize = DATABASES * DATABASE_WORDS;

/// The first of the subscriber dictionaries: for channels, for patterns (all in shard 0), and for
/// shard channels. Internal dictionaries use the root words of databases with higher numbers.
pub(crate) const SUBSCRIPTIONS: usize = 24;
/// The number of subscriber dictionaries.
pub(crate) const SUBSCRIPTION_KINDS: usize = 3;
/// The number of changes to pattern subscriptions, stored in shard 0.
pub(crate) const PATTERN_CHANGES: usize = (SUBSCRIPTIONS + SUBSCRIPTION_KINDS) * DATABASE_WORDS;

/// The number of tickets (ids of waits) issued in this shard, one for each client that began to
/// wait.
pub(crate) const TICKETS: usize = PATTERN_CHANGES + 1;

/// The dictionary of waiting clients' queues. A key's queue is in the key's shard.
pub(crate) const QUEUES: usize = 28;
/// The dictionary of waiting clients' records. Each record is in the shard of the client's seat
/// (its process's futex slot).
pub(crate) const WAITERS: usize = 29;
/// The dictionary of answered clients' tickets (ids of waits), by seat.
pub(crate) const ANSWERED: usize = 30;

/// The dictionary of messages that are too long for the message ring.
pub(crate) const PARCELS: usize = 20;

/// The dictionaries of script texts, keyed by their SHA-1, and of function libraries, keyed by
/// their names.
pub(crate) const SCRIPTS: usize = 21;
pub(crate) const LIBRARIES: usize = 22;

/// The dictionary of the users of servers, keyed by their names after a prefix.
pub(crate) const USERS: usize = 19;

/// The dictionary with the source of a replica, in shard 0.
pub(crate) const SOURCE: usize = 23;

/// The first of the databases into which a replica loads a data set of its source, before they
/// replace the databases of the same order.
pub(crate) const LOADING: usize = 32;

/// The position in a source's stream up to which a replica has applied the changes of this shard; see
/// `store/replication.rs`.
pub(crate) const APPLIED: usize = (LOADING + DATABASES) * DATABASE_WORDS;

/// The first root word of the shard's change log; see `transaction/change_log.rs`. The word after its
/// words is nonzero if the log became too long and was removed.
pub(crate) const CHANGE_LOG: usize = APPLIED + 8;
pub(crate) const CHANGES_LOST: usize = CHANGE_LOG + 4;

/// The first root word of the backlog, in shard 0, and the word with the position up to which it can
/// be sent; see `store/backlog.rs`.
pub(crate) const BACKLOG: usize = CHANGE_LOG + 8;
pub(crate) const BACKLOG_SENT: usize = BACKLOG + 4;

/// The position after the last record in the shard's ring of changed keys; see
/// `transaction/tracking/record.rs`.
pub(crate) const CHANGED_KEYS: usize = BACKLOG + 8;

/// The first of the words with the positions up to which a replica has applied the changes of this
/// shard from each master of a cluster, and their number; see `store/cluster.rs`.
pub(crate) const LANES: usize = 896;
pub(crate) const LANES_MAX: usize = 128;

/// Returns the numbers of all internal dictionaries, which clients cannot see.
pub(crate) fn hidden() -> impl Iterator<Item = usize> + Clone {
    let subscriptions = SUBSCRIPTIONS..SUBSCRIPTIONS + SUBSCRIPTION_KINDS;
    subscriptions.chain([
        QUEUES, WAITERS, ANSWERED, PARCELS, SCRIPTS, LIBRARIES, SOURCE, USERS,
    ])
}

/// Returns the numbers of the databases into which a data set is loaded.
pub(crate) fn loading() -> impl Iterator<Item = usize> + Clone {
    LOADING..LOADING + DATABASES
}

/// Returns the numbers of all dictionaries whose keys can expire.
pub(crate) fn expiring() -> impl Iterator<Item = usize> + Clone {
    (0..DATABASES).chain([PARCELS])
}

/// The epochs of the databases, one word each, before the root words of databases that are being
/// loaded. If any key is watched, emptying or swapping a database increments its epoch.
pub(crate) const EPOCHS: usize = LOADING * DATABASE_WORDS - DATABASES;

const _: () = assert!(DYING < USERS * DATABASE_WORDS && SOURCE < SUBSCRIPTIONS);
const _: () = assert!(USERS < PARCELS);
const _: () = assert!(PARCELS < SCRIPTS && SCRIPTS < LIBRARIES && LIBRARIES < SOURCE);
const _: () = assert!(DYING < SUBSCRIPTIONS * DATABASE_WORDS && TICKETS < QUEUES * DATABASE_WORDS);
const _: () = assert!((ANSWERED + 1) * DATABASE_WORDS <= EPOCHS);
const _: () = assert!(BACKLOG_SENT < CHANGED_KEYS && CHANGED_KEYS < LANES);
const _: () = assert!(LANES + LANES_MAX <= ROOT_WORDS);

/// Identifies the root words of one database in one shard.
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

    /// Returns the root words that describe the tables.
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
