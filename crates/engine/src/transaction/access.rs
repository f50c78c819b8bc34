//! Access to a store's keys, by itself or within a transaction that runs already.
//!
//! Commands reach the store through an [`Access`] only. By itself it is the store. Within MULTI and EXEC the same calls
//! work in the one transaction of all queued commands, which holds the locks: taking them again would never end.

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

/// A way to a store's keys. Copied freely; as cheap as a reference.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub(crate) store: &'a Store,
    pub(crate) running: Option<&'a dyn Within>,
    /// What the next write brings, where that is much.
    pub(crate) load: Load,
    /// Look-ups leave the clocks of keys alone (CLIENT NO-TOUCH).
    pub(crate) untouched: bool,
}

/// A transaction that runs, without its lifetimes.
pub(crate) trait Within {
    /// Whether it holds the locks of these shards. Where it does not, it starts again with all of them.
    fn holds(&self, shards: ShardSet) -> bool;
    /// See [`Running::starts_again`](crate::Running::starts_again).
    fn starts_again(&self) -> bool;
    /// The shards that it has locked.
    fn shards(&self) -> ShardSet;
    /// The locked shards as they are now.
    fn view(&self) -> Ref<'_, View<'_>>;
    /// Calls `body` once to change it. Where it returns false it has failed, and what it changed must be undone.
    fn write(&self, body: &mut dyn FnMut(&mut Writer<'_, '_>) -> bool);
    /// Has something done behind the commit.
    fn post(&self, post: Post);
    /// Tells of an event behind the commit.
    fn tell(&self, event: KeyEvent, database: usize, key: &[u8]);
    /// See [`Running::savepoint`](crate::Running::savepoint); in its place.
    fn save_to(&self, savepoint: &mut Savepoint);
    /// See [`Running::roll_back_to`](crate::Running::roll_back_to).
    fn roll_back_to(&self, savepoint: &Savepoint) -> Result<(), Error>;
}

impl Store {
    /// The store by itself.
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

/// A read that fills memory of the caller's, without its type.
type Body<'b, S, R, E> = &'b dyn Fn(&Reader<'_, '_>, &mut S) -> Result<R, E>;

#[inline(never)]
fn read_within<S: Scratch, R, E: From<Error>>(
    store: &Store,
    running: &dyn Within,
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

/// A change that fills memory of the caller's, without its type.
type Change<'b, S, R, E> = &'b dyn Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E>;

#[inline(never)]
fn write_within<S: Scratch, R, E: From<Error>>(
    running: &dyn Within,
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
    // An error may be long in the making: only where it is one.
    let result = result.unwrap_or_else(|| Err(Error::OutsideTransaction.into()));
    if result.is_err() {
        scratch.clear();
    }
    result
}

impl<'a> Access<'a> {
    /// The same access, whose look-ups count as no use of their keys where `untouched` is set: OBJECT IDLETIME, OBJECT
    /// FREQ and eviction do not see them.
    #[inline(always)]
    #[must_use]
    pub fn leaving_untouched(self, untouched: bool) -> Access<'a> {
        Access { untouched, ..self }
    }

    /// Says what the next writes bring, so that they need not run twice.
    #[inline(always)]
    pub fn expect(&mut self, load: Load) {
        self.load = load;
    }

    /// Hashes a key.
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

    /// The shards that some keys lie in.
    pub fn shards_of<'k>(&self, keys: impl IntoIterator<Item = &'k Key<'k>>) -> ShardSet {
        self.store.shards_of(keys)
    }

    /// All shards of the store.
    pub fn all_shards(&self) -> ShardSet {
        self.store.all_shards()
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.store.shards()
    }

    /// Unix time in milliseconds, as expiry goes by it.
    #[inline]
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// Reads keys of some shards as they were at one moment; see [`Store::read`].
    #[inline(always)]
    pub fn read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Reader<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.read_into(shards, &mut (), |reader, ()| body(reader))
    }

    /// [`read`](Self::read) that fills memory of the caller's; see [`Store::read_into`].
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

    /// Changes keys of some shards; see [`Store::write`]. Within a transaction an error does not undo what `body`
    /// changed: whoever runs the commands does, and until then the transaction cannot be committed.
    #[inline(always)]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.write_into(shards, &mut (), |writer, ()| body(writer))
    }

    /// [`write`](Self::write) that fills memory of the caller's; see [`Store::write_into`].
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

    /// Runs one of several commands of a transaction and undoes what it changed where it fails. By itself the store
    /// does that anyway.
    ///
    /// # Errors
    /// Those of [`Running::roll_back_to`](crate::Running::roll_back_to); those of `body` are within the result.
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

    /// Whether the transaction that this is within has to start again; see [`Running::starts_again`](crate::Running::starts_again).
    pub fn starts_again(&self) -> bool {
        self.running.is_some_and(Within::starts_again)
    }

    /// Whether this is the store within a transaction.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Notes that a key was used; see [`Store::note_use`]. Within a transaction that is counted behind its commit, once
    /// however often it runs.
    #[inline(always)]
    pub fn note_use(&self, key: &Key<'_>) {
        if !self.untouched {
            self.touch(key);
        }
    }

    /// [`note_use`](Self::note_use) whether or not this access leaves keys untouched: TOUCH.
    #[inline(always)]
    pub fn touch(&self, key: &Key<'_>) {
        match self.running {
            Some(running) if self.store.counts_uses() => {
                running.post(Post::Use(key.shard, key.hash));
            }
            // To set a clock twice is to set it once. It is that of the transaction, whose beginning was a write's.
            Some(_) => self.store.touch_written(key),
            None => self.store.note_use(key),
        }
    }

    /// [`note_use`](Self::note_use) of a key right behind a write, whose clock it goes by.
    #[inline(always)]
    pub fn note_written(&self, key: &Key<'_>) {
        match self.running {
            Some(_) => self.note_use(key),
            None if self.untouched => {}
            None => self.store.touch_written(key),
        }
    }

    /// Lets time stand still for this thread while what is returned lives: for a few commands that are run at once, which
    /// then look at the system's clock once, if at all. Those of a transaction go by one time anyway.
    #[inline]
    pub fn freeze(&self) -> Frozen {
        self.store.clock.freeze()
    }

    /// Seconds since a key was used last; see [`Store::idle_seconds`].
    pub fn idle_seconds(&self, key: &Key<'_>) -> u64 {
        self.store.idle_seconds(key)
    }

    /// Notes that a key was last used so many seconds ago; see [`Store::set_idle_seconds`].
    pub fn set_idle_seconds(&self, key: &Key<'_>, seconds: u64) {
        self.store.set_idle_seconds(key, seconds);
    }

    /// How often a key was used; see [`Store::frequency`].
    pub fn frequency(&self, key: &Key<'_>) -> u8 {
        self.store.frequency(key)
    }

    /// Sets a key's counter of uses.
    pub fn set_frequency(&self, key: &Key<'_>, counter: u8) {
        self.store.set_frequency(key, counter);
    }

    /// Bytes in allocated blocks.
    pub fn used_memory(&self) -> u64 {
        self.store.used_memory()
    }

    /// The other processes that have the store mapped; see [`Store::users`].
    pub fn users(&self) -> Result<Vec<User>, Error> {
        self.store.users()
    }

    /// The limit on [`used_memory`](Self::used_memory); 0 is none.
    pub fn max_memory(&self) -> u64 {
        self.store.max_memory()
    }

    /// Sets the limit, for all processes.
    pub fn set_max_memory(&self, bytes: u64) -> Result<(), Error> {
        self.store.set_max_memory(bytes)
    }

    /// How the processes that share the store make room in it.
    pub fn eviction(&self) -> Eviction {
        self.store.eviction()
    }

    /// Sets one value of how all processes make room; see [`Store::change_eviction`].
    pub fn change_eviction(&self, change: EvictionChange) -> Result<(), Error> {
        self.store.change_eviction(change)
    }

    /// Sets how all processes make room; see [`Store::set_eviction`].
    pub fn set_eviction(&self, eviction: Eviction) -> Result<(), Error> {
        self.store.set_eviction(eviction)
    }

    /// The strings that are read in place now, by whom and since when, oldest first.
    pub fn pins(&self) -> Vec<PinnedBlock> {
        self.store.pins()
    }

    /// Sizes of the store.
    pub fn statistics(&self) -> Statistics {
        self.store.statistics()
    }

    /// The path of the store's file.
    pub fn path(&self) -> &'a std::path::Path {
        self.store.path()
    }
}
