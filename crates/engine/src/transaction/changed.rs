//! Every change to a key, whether by a command, a typed call, expiry or eviction, is reported
//! through this module. Therefore, this module also refuses the changes to a replica's keys.
//!
//! WATCH, the queues of waiting clients, and followers of all changes (a replica or a journal)
//! depend on these reports. [`Writer::changed`] reports a change after the change was made and
//! within its transaction, so a change that is undone is never reported.

use std::sync::atomic::Ordering;

use undercroft_memory::ForkMutex;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::roots::{DATABASES, EPOCHS, KEYS, QUEUES, Root};
use crate::transaction::effect::{Change, Effect, Follower};
use crate::transaction::notice::Queue;
use crate::transaction::writer::{Writer, root};

/// The follower of a store handle's changes, kept in the handle.
#[derive(Default)]
pub(crate) struct Followed(ForkMutex<Option<Follower>>);

impl Writer<'_, '_> {
    /// Reports the effect of a change on a key. Every change must end with a call to this function.
    #[inline(always)]
    pub fn changed(&mut self, database: usize, key: &Key<'_>, effect: Effect) {
        let root = root(database, key);
        self.count_or_notice(root, key.hash);
        if self.outbox.reports() {
            self.outbox.follow(database, key.bytes, effect);
        }
    }

    /// Reports a change to followers only. As in Redis, a change to data that is not an element of
    /// the value is invisible to WATCH and to waiting clients.
    pub(crate) fn told_only(&mut self, database: usize, key: &Key<'_>) {
        if self.outbox.reports() {
            self.outbox.follow(database, key.bytes, Effect::Changed);
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
        if self.outbox.reports() {
            let mut key = Vec::new();
            entry.append_key(self.view(), &mut key)?;
            self.outbox.follow(root.database, &key, Effect::Changed);
        }
        Ok(())
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
        if self.outbox.reports() {
            self.outbox.follow(database, key.bytes, Effect::Expired);
        }
    }

    /// Reports that all keys of a database in one shard were removed or swapped.
    pub(crate) fn all_changed(&mut self, root: Root) -> Result<(), Error> {
        if self.outbox.reports() {
            self.outbox.follow_all(root);
        }
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

impl Store {
    /// Sets or removes the follower, which receives the changes made through this handle after each
    /// commit. The follower must not use the store.
    pub fn follow(&self, follower: Option<Follower>) {
        self.is_followed
            .store(follower.is_some(), Ordering::Release);
        *self.part::<Followed>().0.lock() = follower;
    }

    #[cold]
    pub(crate) fn tell_follower(&self, change: Change) {
        if let Some(follower) = &mut *self.part::<Followed>().0.lock() {
            follower(change);
        }
    }
}
