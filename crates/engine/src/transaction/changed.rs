//! The one way that every change of a key takes: by command, typed call, expiry or eviction.
//!
//! WATCH and the queues of waiting clients hang on it, and whoever follows what becomes of all keys: a copy of the store,
//! or a journal. [`Writer::changed`] says what became of a key, behind the change and in its transaction, so that what is
//! undone was never said.

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

/// The follower of a handle's changes: a part of the handle.
#[derive(Default)]
pub(crate) struct Followed(ForkMutex<Option<Follower>>);

impl Writer<'_, '_> {
    /// Says what became of a key. Every change of one ends with it.
    #[inline(always)]
    pub fn changed(&mut self, database: usize, key: &Key<'_>, effect: Effect) {
        let root = root(database, key);
        self.count_or_notice(root, key.hash);
        if self.outbox.is_followed() {
            self.outbox.follow(database, key.bytes, effect);
        }
    }

    /// [`changed`](Self::changed) of what is beside a value's elements: to WATCH and to those who wait for the key that
    /// is no change, as in Redis.
    pub(crate) fn told_only(&mut self, database: usize, key: &Key<'_>) {
        if self.outbox.is_followed() {
            self.outbox.follow(database, key.bytes, Effect::Changed);
        }
    }

    /// [`changed`](Self::changed) of the key of an entry with this hash, whose value was changed where it lies.
    pub(crate) fn changed_in_place(
        &mut self,
        root: Root,
        hash: u64,
        entry: Entry,
    ) -> Result<(), Error> {
        self.count_or_notice(root, hash);
        if self.outbox.is_followed() {
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

    /// Says that a key was removed because it has expired: told once that is committed, and done again where it is not.
    /// To WATCH it is no change, as a deadline passes without anybody's doing.
    #[cold]
    pub(crate) fn expired(&mut self, database: usize, key: &Key<'_>) {
        self.outbox.expired(database, key.bytes);
        if self.outbox.is_followed() {
            self.outbox.follow(database, key.bytes, Effect::Expired);
        }
    }

    /// Says that all keys of a database's part of a shard were removed or exchanged.
    pub(crate) fn all_changed(&mut self, root: Root) -> Result<(), Error> {
        if self.outbox.is_followed() {
            self.outbox.follow_all(root);
        }
        if root.database >= DATABASES || !self.store.segment.counts_changes() {
            return Ok(());
        }
        let word = EPOCHS + root.database;
        let epoch = self.view().root(root.shard, word).wrapping_add(1);
        Ok(self.transaction.set_root(root.shard, word, epoch)?)
    }

    /// Whether some key of a shard has a queue.
    #[inline(always)]
    pub(crate) fn has_queues(&self, shard: usize) -> bool {
        let root = Root {
            shard,
            database: QUEUES,
        };
        root.get(self.view(), KEYS) != 0
    }

    /// Remembers the queue of a key that was changed, if it has one.
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
        // A damaged dictionary is told of by whoever needs it.
        if let Ok(Some(_)) = dictionary::find(self.view(), queue.root(), &key) {
            self.outbox.notice(queue);
        }
    }

    /// Remembers that all keys of a database became others.
    pub(crate) fn notice_all(&mut self, shard: usize) {
        if self.has_queues(shard) {
            self.outbox.notice_all();
        }
    }
}

impl Store {
    /// Has a follower told of what becomes of keys by this handle, behind the commit of each change; or none any more. It
    /// must not use the store.
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
