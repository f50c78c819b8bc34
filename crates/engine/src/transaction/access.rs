//! Access to a store's keys, either directly or within a running transaction.
//!
//! Commands use the store only through an [`Access`]. Outside a transaction, it is the store
//! itself. Between MULTI and EXEC, the same calls operate within the transaction of all queued
//! commands. That transaction already holds the locks, and acquiring them again would deadlock.

use std::cell::Ref;

use undercroft_memory::{PinnedBlock, Scratch, ShardSet, Statistics, User, View};

use crate::error::Error;
use crate::handle::clock::Frozen;
use crate::handle::events::KeyEvent;
use crate::handle::eviction_policy::{Eviction, EvictionChange};
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::load::Load;
use crate::transaction::outbox::Post;
use crate::transaction::savepoint::Savepoint;
use crate::transaction::writer::Writer;

/// Access to a store's keys. Copying an `Access` is as cheap as copying a reference.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub(crate) store: &'a Store,
    pub(crate) running: Option<&'a dyn RunningAccess>,
    /// The announced size of the next write, if it is large.
    pub(crate) load: Load,
    /// Whether lookups leave the access times of keys unchanged (CLIENT NO-TOUCH).
    pub(crate) untouched: bool,
}

/// A running transaction as a trait object, which hides its lifetimes.
pub(crate) trait RunningAccess {
    /// Returns whether the transaction has locked `shards`. If it has not, it will run again with
    /// all shards locked.
    fn holds(&self, shards: ShardSet) -> bool;
    /// Returns whether the transaction must start again; see
    /// [`Running::starts_again`](crate::Running::starts_again).
    fn starts_again(&self) -> bool;
    /// Returns the shards that the transaction has locked.
    fn shards(&self) -> ShardSet;
    /// Returns a view of the locked shards in their current state.
    fn view(&self) -> Ref<'_, View<'_>>;
    /// Calls `body` once to change keys. If `body` returns false, it has failed, and the caller
    /// must undo its changes.
    fn write(&self, body: &mut dyn FnMut(&mut Writer<'_, '_>) -> bool);
    /// Queues work or a notification for after the commit.
    fn post(&self, post: Post);
    /// Queues an event to publish after the commit.
    fn tell(&self, event: KeyEvent, database: usize, key: &[u8]);
    /// Overwrites a savepoint in place; see [`Running::savepoint`](crate::Running::savepoint).
    fn save_to(&self, savepoint: &mut Savepoint);
    /// Rolls back to a savepoint; see [`Running::roll_back_to`](crate::Running::roll_back_to).
    fn roll_back_to(&self, savepoint: &Savepoint) -> Result<(), Error>;
}

impl Store {
    /// Returns direct access to the store.
    #[inline(always)]
    pub fn access(&self) -> Access<'_> {
        Access {
            store: self,
            running: None,
            load: Load::default(),
            untouched: false,
        }
    }
}

/// A type-erased read that fills a caller's buffer.
type Body<'b, S, R, E> = &'b dyn Fn(&Reader<'_, '_>, &mut S) -> Result<R, E>;

#[inline(never)]
fn read_within<S: Scratch, R, E: From<Error>>(
    store: &Store,
    running: &dyn RunningAccess,
    shards: ShardSet,
    scratch: &mut S,
    body: Body<'_, S, R, E>,
) -> Result<R, E> {
    scratch.clear();
    if !running.holds(shards) {
        return Err(Error::OutsideTransaction.into());
    }
    let view = &*running.view();
    let result = body(&Reader { store, view }, scratch);
    if result.is_err() {
        scratch.clear();
    }
    result
}

/// A type-erased change that fills a caller's buffer.
type Change<'b, S, R, E> = &'b dyn Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E>;

#[inline(never)]
fn write_within<S: Scratch, R, E: From<Error>>(
    running: &dyn RunningAccess,
    shards: ShardSet,
    scratch: &mut S,
    body: Change<'_, S, R, E>,
) -> Result<R, E> {
    scratch.clear();
    let mut result = None;
    if running.holds(shards) {
        running.write(&mut |writer| {
            let done = body(writer, scratch);
            let is_done = done.is_ok();
            result = Some(done);
            is_done
        });
    }
    // Creating an error can be slow, so create it only if it is returned.
    let result = result.unwrap_or_else(|| Err(Error::OutsideTransaction.into()));
    if result.is_err() {
        scratch.clear();
    }
    result
}

impl<'a> Access<'a> {
    /// Returns this access with a different setting. If `untouched` is true, lookups do not count
    /// as uses of keys, so they do not affect OBJECT IDLETIME, OBJECT FREQ and eviction.
    #[inline(always)]
    #[must_use]
    pub fn leaving_untouched(self, untouched: bool) -> Access<'a> {
        Access { untouched, ..self }
    }

    /// Announces the size of the next writes, so that they need not run again for lack of memory.
    #[inline(always)]
    pub fn expect(&mut self, load: Load) {
        self.load = load;
    }

    /// Hashes the bytes of a key, for use in lookups.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(bytes)
    }

    /// Hashes many keys; see [`Store::hash_all`].
    pub fn hash_all<'k: 'n, 'n>(
        &self,
        names: impl IntoIterator<Item = &'n &'k [u8], IntoIter: Clone>,
    ) -> Vec<Key<'k>> {
        self.store.hash_all(names)
    }

    /// Returns the set of shards that contain the given keys.
    pub fn shards_of<'k>(&self, keys: impl IntoIterator<Item = &'k Key<'k>>) -> ShardSet {
        self.store.shards_of(keys)
    }

    /// Returns the set of all shards.
    pub fn all_shards(&self) -> ShardSet {
        self.store.all_shards()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.store.shards()
    }

    /// Returns the Unix time in milliseconds against which expiry times are checked.
    #[inline]
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// Reads keys of several shards in one consistent state; see [`Store::read`].
    #[inline(always)]
    pub fn read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Reader<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.read_into(shards, &mut (), |reader, ()| body(reader))
    }

    /// Like [`read`](Self::read), but fills a caller's buffer; see [`Store::read_into`].
    #[inline(always)]
    pub fn read_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&Reader<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        match self.running {
            None => self.store.read_into(shards, scratch, body),
            Some(running) => read_within(self.store, running, shards, scratch, &body),
        }
    }

    /// Changes keys of several shards; see [`Store::write`]. Within a transaction, an error does
    /// not undo the changes of `body`. The code that runs the transaction's commands must roll them
    /// back before the transaction can commit.
    #[inline(always)]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.write_into(shards, &mut (), |writer, ()| body(writer))
    }

    /// Like [`write`](Self::write), but fills a caller's buffer; see [`Store::write_into`].
    #[inline(always)]
    pub fn write_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        match self.running {
            None => {
                if self.load.keys != 0 {
                    self.store.expect(shards, &self.load);
                }
                self.store.write_into(shards, scratch, body)
            }
            Some(running) => write_within(running, shards, scratch, &body),
        }
    }

    /// Runs one command of a transaction, and rolls back the command's changes if it fails. Outside
    /// a transaction, the store itself rolls back a failed command.
    ///
    /// # Errors
    /// Fails if [`Running::roll_back_to`](crate::Running::roll_back_to) fails. An error from `body`
    /// is in the inner result.
    pub fn attempt<R, E>(
        &self,
        body: impl FnOnce() -> Result<R, E>,
    ) -> Result<Result<R, E>, Error> {
        let Some(running) = self.running else {
            return Ok(body());
        };
        let mut savepoint = Savepoint::default();
        running.save_to(&mut savepoint);
        let result = body();
        if result.is_err() {
            running.roll_back_to(&savepoint)?;
        }
        Ok(result)
    }

    /// Returns whether the surrounding transaction must start again; see
    /// [`Running::starts_again`](crate::Running::starts_again).
    pub fn starts_again(&self) -> bool {
        self.running.is_some_and(RunningAccess::starts_again)
    }

    /// Returns whether this access is within a transaction.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Records a use of a key; see [`Store::note_use`]. Within a transaction, the use is counted
    /// once after the commit, even if the transaction runs several times.
    #[inline(always)]
    pub fn note_use(&self, key: &Key<'_>) {
        if !self.untouched {
            self.touch(key);
        }
    }

    /// Records a use of a key, as TOUCH does, even if this access leaves keys untouched.
    #[inline(always)]
    pub fn touch(&self, key: &Key<'_>) {
        match self.running {
            Some(running) if self.store.counts_uses() => {
                running.post(Post::Use(key.shard, key.hash));
            }
            // Setting an access time twice is harmless. Use the time at which the transaction
            // started writing.
            Some(_) => self.store.touch_written(key),
            None => self.store.note_use(key),
        }
    }

    /// Like [`note_use`](Self::note_use), for a key that was just written. Reuses the time of that
    /// write.
    #[inline(always)]
    pub fn note_written(&self, key: &Key<'_>) {
        match self.running {
            Some(_) => self.note_use(key),
            None if self.untouched => {}
            None => self.store.touch_written(key),
        }
    }

    /// Freezes the clock for this thread as long as the returned guard lives, so that a batch of
    /// commands reads the system clock at most once. Commands of a transaction share one time even
    /// without a guard.
    #[inline]
    pub fn freeze(&self) -> Frozen {
        self.store.clock.freeze()
    }

    /// Returns the number of seconds since the last use of a key; see [`Store::idle_seconds`].
    pub fn idle_seconds(&self, key: &Key<'_>) -> u64 {
        self.store.idle_seconds(key)
    }

    /// Sets the number of seconds since the last use of a key; see [`Store::set_idle_seconds`].
    pub fn set_idle_seconds(&self, key: &Key<'_>, seconds: u64) {
        self.store.set_idle_seconds(key, seconds);
    }

    /// Returns the use counter of a key; see [`Store::frequency`].
    pub fn frequency(&self, key: &Key<'_>) -> u8 {
        self.store.frequency(key)
    }

    /// Sets the use counter of a key; see [`Store::set_frequency`].
    pub fn set_frequency(&self, key: &Key<'_>, counter: u8) {
        self.store.set_frequency(key, counter);
    }

    /// Returns the number of bytes in allocated blocks.
    pub fn used_memory(&self) -> u64 {
        self.store.used_memory()
    }

    /// Returns the other processes that have the store mapped; see [`Store::users`].
    pub fn users(&self) -> Result<Vec<User>, Error> {
        self.store.users()
    }

    /// Returns the memory limit in bytes, which applies to [`used_memory`](Self::used_memory). 0
    /// means no limit.
    pub fn max_memory(&self) -> u64 {
        self.store.max_memory()
    }

    /// Sets the memory limit in bytes for all processes.
    pub fn set_max_memory(&self, bytes: u64) -> Result<(), Error> {
        self.store.set_max_memory(bytes)
    }

    /// Returns the rate of checkpoints that begin by themselves; see [`Store::checkpoint_rate`].
    pub fn checkpoint_rate(&self) -> u64 {
        self.store.checkpoint_rate()
    }

    /// Sets the rate of checkpoints that begin by themselves, for all processes.
    pub fn set_checkpoint_rate(&self, bytes: u64) -> Result<(), Error> {
        self.store.set_checkpoint_rate(bytes)
    }

    /// Returns when a checkpoint begins by itself; see [`Store::checkpoint_growth`].
    pub fn checkpoint_growth(&self) -> u64 {
        self.store.checkpoint_growth()
    }

    /// Sets when a checkpoint begins by itself, for all processes.
    pub fn set_checkpoint_growth(&self, percent: u64) -> Result<(), Error> {
        self.store.set_checkpoint_growth(percent)
    }

    /// Returns the eviction settings of the store.
    pub fn eviction(&self) -> Eviction {
        self.store.eviction()
    }

    /// Changes one eviction setting for all processes; see [`Store::change_eviction`].
    pub fn change_eviction(&self, change: EvictionChange) -> Result<(), Error> {
        self.store.change_eviction(change)
    }

    /// Changes the eviction settings for all processes; see [`Store::set_eviction`].
    pub fn set_eviction(&self, eviction: Eviction) -> Result<(), Error> {
        self.store.set_eviction(eviction)
    }

    /// Returns the strings that are pinned for reading in place, oldest pin first. Each is returned
    /// with the reading process and the start time of the pin.
    pub fn pins(&self) -> Vec<PinnedBlock> {
        self.store.pins()
    }

    /// Returns statistics about the store's memory.
    pub fn statistics(&self) -> Statistics {
        self.store.statistics()
    }

    /// Returns the path of the store's file.
    pub fn path(&self) -> &'a std::path::Path {
        self.store.path()
    }
}
