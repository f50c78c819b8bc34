//! Recording the names of changed keys for processes that track them (M3): servers whose clients cache
//! values.
//!
//! Records are made by the functions that report changes (`changed.rs`), so that no change can be
//! made without one. A record is part of the transaction that makes the change, and becomes visible
//! with it. A client therefore never keeps an outdated value, whatever the order of events:
//!
//! - Before a client reads a key, its server notes that the client is interested in the key, and adds
//!   the key to a filter in the store. Writers record only the keys in this filter.
//! - If the client then reads the old value, the change is committed after that note. If its writer
//!   has seen the filter's entry, the record becomes visible in the same moment as the change. The
//!   server reads the records up to that moment only later, and finds the note.
//! - If the writer has not seen the entry, it had locked the shard before. The server finds the lock
//!   when it has added the entry, and tells the client, after the client has read the value, that the
//!   key may have changed.
//! - If a server begins to track all keys, it first sets the word that makes writers record them, and
//!   then locks every shard once. A change whose writer has not seen the word is committed before,
//!   so that the clients of the server cannot have read the old value.
//! - A record that is overwritten before the server reads it stands for all keys.
//!
//! A process that dies after its commit may not have woken the servers. They look for records ten
//! times a second (M4).

use undercroft_memory::layout::shard::CHANGED_BYTES;
use undercroft_memory::{CHANGED_KEY_MAX, ChangedKey};

use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::structures::roots::{CHANGED_KEYS, DATABASES, Root};
use crate::transaction::access::Access;
use crate::transaction::tracking::origin::{EVICTION, origin};
use crate::transaction::writer::Writer;

/// The number of recorded bytes after which a transaction records that all keys have changed.
const RECORDED_MAX: u64 = CHANGED_BYTES / 2;
/// The number of bytes that a record takes in addition to its key, at most.
const HEADER: u64 = 24;

/// The client to which a recorded change is attributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::transaction) enum By {
    /// The client for which the thread runs a command.
    Client,
    /// No client: the store removed the key because it expired.
    Store,
    /// No client: the store removed the key to free memory.
    Eviction,
}

impl Writer<'_, '_> {
    /// Records that a key has changed, if any process tracks it.
    #[inline(always)]
    pub(in crate::transaction) fn record_key(&mut self, root: Root, key: &Key<'_>, by: By) {
        if self.store.segment.is_key_tracked(root.shard, key.hash) {
            self.record_tracked_key(root, key.bytes, by);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_tracked_key(&mut self, root: Root, key: &[u8], by: By) {
        let recorded = self.outbox.recorded + key.len() as u64 + HEADER;
        if key.len() as u64 > CHANGED_KEY_MAX || recorded > RECORDED_MAX {
            return self.record_all_keys(root);
        }
        if root.database >= DATABASES {
            return;
        }
        self.outbox.recorded = recorded;
        let origin = match by {
            By::Client => origin(),
            By::Store => 0,
            By::Eviction => EVICTION,
        };
        self.record(root, ChangedKey::Key(key, origin));
    }

    /// Records that any key may have changed, if any process tracks keys.
    #[cold]
    pub(crate) fn record_all_keys(&mut self, root: Root) {
        if root.database >= DATABASES || !self.store.segment.is_tracked() {
            return;
        }
        // One such record is enough for the transaction.
        if self.outbox.recorded <= RECORDED_MAX {
            self.outbox.recorded = RECORDED_MAX + 1;
            self.record(root, ChangedKey::All);
        }
    }

    fn record(&mut self, root: Root, changed: ChangedKey<'_>) {
        let recorded = self
            .transaction
            .record_changed_key(root.shard, CHANGED_KEYS, changed);
        if let Err(error) = recorded {
            self.outbox.fail(error.into());
        }
    }
}

impl Access<'_> {
    /// Returns whether any process tracks keys, so that all processes record the changes of these
    /// keys. A dead process counts until its remains are freed.
    pub fn is_tracked(&self) -> bool {
        self.store.segment.is_tracked()
    }
}

impl Store {
    /// Wakes the processes that track keys after the commit of a transaction that `recorded` any.
    #[inline(always)]
    pub(crate) fn wake_trackers(&self, recorded: bool) {
        if recorded {
            self.segment.wake_trackers();
        }
    }
}
