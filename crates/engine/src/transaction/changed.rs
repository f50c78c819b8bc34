//! Every change to a key, whether by a command, a typed call, expiry or eviction, is reported
//! through this module. Therefore, this module also refuses the changes to a replica's keys.
//!
//! WATCH, the queues of waiting clients, replicas, and clients that track keys depend on these
//! reports. [`Writer::changed`] reports a change after the change was made and
//! within its transaction, so a change that is undone is never reported.

use crate::error::Error;
use crate::structures::dictionary;
use crate::structures::entry::Entry;
use crate::structures::key::{Key, hash};
use crate::structures::roots::{DATABASES, EPOCHS, KEYS, QUEUES, Root};
use crate::transaction::change_log::{Logged, is_logged, log_change, lose_changes};
use crate::transaction::effect::{ChangedPart, Effect};
use crate::transaction::notice::Queue;
use crate::transaction::tracking::record::By;
use crate::transaction::writer::{Writer, root};

impl Writer<'_, '_> {
    /// Reports the effect of a change on a key. Every change must end with a call to this function.
    #[inline(always)]
    pub fn changed(&mut self, database: usize, key: &Key<'_>, effect: Effect) {
        let root = root(database, key);
        self.count_or_notice(root, key.hash);
        let by = match effect {
            Effect::Changed | Effect::Removed => By::Client,
            Effect::Expired => By::Store,
            Effect::Evicted => By::Eviction,
        };
        self.record_key(root, key, by);
        if self.reports(root.shard) {
            self.report(root, Logged::Key(database, key.bytes, effect));
        }
    }

    /// Reports a change like [`changed`](Self::changed), but replicas receive only parts of the key,
    /// which must include everything that changed. If the change removed the key, or created it where
    /// another key may have been before, [`changed`](Self::changed) must be called instead.
    #[inline]
    pub(crate) fn changed_parts<'p>(
        &mut self,
        database: usize,
        key: &Key<'_>,
        parts: impl IntoIterator<Item = ChangedPart<'p>>,
    ) {
        let root = root(database, key);
        self.count_or_notice(root, key.hash);
        self.record_key(root, key, By::Client);
        if self.reports(root.shard) {
            for part in parts {
                self.report(root, Logged::Part(database, key.bytes, &part));
            }
        }
    }

    /// Reports an [effect](Self::changed) that is a change to [parts](Self::changed_parts) of the
    /// key, unless it removed the key.
    #[inline]
    pub(crate) fn taken_parts<'p>(
        &mut self,
        database: usize,
        key: &Key<'_>,
        gone: bool,
        parts: impl IntoIterator<Item = ChangedPart<'p>>,
    ) {
        match gone {
            true => self.changed(database, key, Effect::Removed),
            false => self.changed_parts(database, key, parts),
        }
    }

    /// Reports a change to replicas and trackers only. As in Redis, a change to data that is not an
    /// element of the value is invisible to WATCH and to waiting clients.
    pub(crate) fn told_only(&mut self, database: usize, key: &Key<'_>) {
        let root = root(database, key);
        self.record_key(root, key, By::Client);
        if self.reports(root.shard) {
            self.report(root, Logged::Key(database, key.bytes, Effect::Changed));
        }
    }

    /// Reports a change like [`told_only`](Self::told_only), and to replicas only
    /// [parts](Self::changed_parts) of the key.
    pub(crate) fn told_parts<'p>(
        &mut self,
        database: usize,
        key: &Key<'_>,
        parts: impl IntoIterator<Item = ChangedPart<'p>>,
    ) {
        let root = root(database, key);
        self.record_key(root, key, By::Client);
        if self.reports(root.shard) {
            for part in parts {
                self.report(root, Logged::Part(database, key.bytes, &part));
            }
        }
    }

    /// Like [`changed`](Self::changed), for an entry whose value was changed in place. `hash` is
    /// the hash of the entry's key.
    pub(crate) fn changed_in_place(
        &mut self,
        root: Root,
        hash: u64,
        entry: Entry,
    ) -> Result<(), Error> {
        self.count_or_notice(root, hash);
        let reports = self.reports(root.shard);
        if reports || self.store.segment.is_key_tracked(root.shard, hash) {
            let mut bytes = Vec::new();
            entry.append_key(self.view(), &mut bytes)?;
            let key = Key {
                hash,
                bytes: &bytes,
                shard: root.shard,
            };
            self.record_key(root, &key, By::Client);
            if reports {
                self.report(root, Logged::Key(root.database, &bytes, Effect::Changed));
            }
        }
        Ok(())
    }

    /// Returns whether the changes of a shard must be reported through [`report`](Self::report).
    #[inline(always)]
    fn reports(&self, shard: usize) -> bool {
        self.outbox.refuses() | is_logged(self.view(), shard)
    }

    /// Logs a change for replicas, or makes the transaction fail, because the store itself is a
    /// replica, or has too few.
    #[inline(never)]
    fn report(&mut self, root: Root, change: Logged<'_>) {
        if root.database >= DATABASES {
            return;
        }
        if self.outbox.refuses() {
            self.outbox.fail(self.store.refusal());
        }
        self.log(root.shard, change);
    }

    /// Logs a change, if changes are logged.
    fn log(&mut self, shard: usize, change: Logged<'_>) {
        if is_logged(self.view(), shard)
            && let Err(error) = log_change(self.transaction, shard, self.store.shards(), change)
        {
            self.outbox.fail(error);
        }
    }

    /// Logs that the function libraries changed. All shards must be locked.
    pub(crate) fn libraries_changed(&mut self) {
        self.log(0, Logged::Libraries);
    }

    #[inline(always)]
    fn count_or_notice(&mut self, root: Root, hash: u64) {
        if self.store.segment.counts_changes() {
            self.count_change(root, hash);
        }
        if self.has_queues(root.shard) {
            self.notice(root, hash);
        }
    }

    /// Reports that a key was removed because it had expired. The report is sent after the commit.
    /// If the transaction fails, the key is removed again later. WATCH does not count this removal
    /// as a change, because it checks expiry itself.
    #[cold]
    pub(crate) fn expired(&mut self, database: usize, key: &Key<'_>) {
        self.outbox.expired(database, key.bytes);
        let root = root(database, key);
        self.record_key(root, key, By::Store);
        if self.reports(root.shard) {
            self.report(root, Logged::Key(database, key.bytes, Effect::Expired));
        }
    }

    /// Reports like [`expired`](Self::expired) that a key expired, given its entry. Reads the key's
    /// name only if the report has a receiver.
    pub(crate) fn expired_at(&mut self, root: Root, entry: &Entry) -> Result<(), Error> {
        if !self.outbox.tells() && !self.reports(root.shard) && !self.store.segment.is_tracked() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        entry.append_key(self.view(), &mut bytes)?;
        let key = Key {
            hash: hash(self.transaction.hash_key(), &bytes),
            bytes: &bytes,
            shard: root.shard,
        };
        self.expired(root.database, &key);
        Ok(())
    }

    /// Reports that all keys of a database in one shard were removed.
    pub(crate) fn emptied(&mut self, root: Root) -> Result<(), Error> {
        self.record_all_keys(root);
        if self.reports(root.shard) {
            self.report(root, Logged::Emptied(root.database));
        }
        self.count_epoch(root)
    }

    /// Reports that the keys of two databases in one shard were swapped.
    pub(crate) fn swapped(&mut self, one: Root, other: Root) -> Result<(), Error> {
        let shard = one.shard;
        for root in [one, other] {
            self.record_all_keys(root);
        }
        let are_visible = one.database < DATABASES && other.database < DATABASES;
        if self.reports(shard) && are_visible {
            self.report(one, Logged::Swapped([one.database, other.database]));
        } else if is_logged(self.view(), shard) {
            // A data set was loaded, of whose keys the replicas have none.
            lose_changes(self.transaction, shard)?;
        }
        self.count_epoch(one)?;
        self.count_epoch(other)
    }

    /// Counts a change to all keys of a database in one shard, for WATCH.
    fn count_epoch(&mut self, root: Root) -> Result<(), Error> {
        if root.database >= DATABASES || !self.store.segment.counts_changes() {
            return Ok(());
        }
        let word = EPOCHS + root.database;
        let epoch = self.view().root(root.shard, word).wrapping_add(1);
        Ok(self.transaction.set_root(root.shard, word, epoch)?)
    }

    /// Returns whether any key of a shard has a queue of waiting clients.
    #[inline(always)]
    pub(crate) fn has_queues(&self, shard: usize) -> bool {
        let root = Root {
            shard,
            database: QUEUES,
        };
        root.get(self.view(), KEYS) != 0
    }

    /// If a changed key has a queue, records the queue, to be served after the commit.
    #[cold]
    pub(crate) fn notice(&mut self, root: Root, hash: u64) {
        if root.database >= DATABASES {
            return;
        }
        let queue = Queue {
            database: root.database,
            hash,
            shard: root.shard,
        };
        let name = queue.name();
        let key = self.store.hidden_key(root.shard, &name);
        // Ignore a damaged dictionary: calls that need it report the damage.
        if let Ok(Some(_)) = dictionary::find(self.view(), queue.root(), &key) {
            self.outbox.notice(queue);
        }
    }

    /// Records that all keys of a database may have changed, so that all queues are served after
    /// the commit.
    pub(crate) fn notice_all(&mut self, shard: usize) {
        if self.has_queues(shard) {
            self.outbox.notice_all();
        }
    }
}
