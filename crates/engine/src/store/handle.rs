//! A store of keys: opening it, and consistent access to several keys.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use undercroft_memory::{
    ForkMutex, HeldLock, Image, Marks, Member, Options, Scratch, Segment, ShardSet, Statistics,
    User, View, WaitHook, coarse_milliseconds, defer_signals, prefetch,
};

use crate::error::Error;
use crate::messages::publish::Patterns;
use crate::store::clock::Clock;
use crate::store::terms::Terms;
use crate::structures::ahead::TOGETHER;
use crate::structures::dictionary;
use crate::structures::entry::Entry;
use crate::structures::key::{Key, hash};
use crate::structures::roots::{self, EXPIRES, KEYS, Root};
use crate::transaction::backlog::Backlog;
use crate::transaction::effect::Follower;
use crate::transaction::outbox::Mail;
use crate::transaction::running::Carried;
use crate::transaction::writer::Writer;
use crate::upkeep::dead::Round;
use crate::upkeep::eviction::EvictionPool;
use crate::upkeep::expired;
use crate::upkeep::recency::Chance;
use crate::upkeep::space::Space;
use crate::waiting::Noticed;

/// Number of databases in a store.
pub const DATABASES: usize = roots::DATABASES;

/// A store mapped into this process. Shared freely between threads.
pub struct Store {
    pub(crate) segment: Segment,
    pub(crate) clock: Clock,
    /// The patterns that publishers match channels with, as they were lately.
    pub(crate) patterns: ForkMutex<Patterns>,
    shard_mask: usize,
    /// Keys that may be evicted next.
    pub(crate) pool: ForkMutex<EvictionPool>,
    /// The places where room could be made in a full store.
    pub(crate) space: ForkMutex<Space>,
    /// Keys that this process evicted.
    pub(crate) evicted: AtomicU64,
    /// Keys that this process removed because they had expired.
    pub(crate) expired: AtomicU64,
    /// Until when expired keys stay where they are, Unix milliseconds; 0 where they do not.
    pub(crate) expired_stay: AtomicU64,
    pub(crate) chance: Chance,
    /// What is still to be done behind commits.
    pub(crate) backlog: ForkMutex<Backlog>,
    /// Whether there is something.
    pub(crate) has_backlog: AtomicBool,
    /// How far this process has looked for what the dead left.
    pub(crate) round: Round,
    /// Whether steps of upkeep are left to a timer of this process.
    kept_by_timer: AtomicBool,
    /// Who is told of what this handle does to keys.
    pub(crate) follower: ForkMutex<Option<Follower>>,
    /// Whether there is one.
    pub(crate) is_followed: AtomicBool,
}

impl Store {
    /// Opens the store at a path, to read and write or only to read.
    pub fn open(path: &Path, write: bool) -> Result<Store, Error> {
        Ok(Store::new(Segment::open(path, write)?))
    }

    /// Opens a store that [`open`](Self::open) refuses as unclean
    /// ([`Error::is_unclean`]), to save what can be read of it. Whatever is done
    /// to it, the file stays as it is.
    pub fn open_unclean(path: &Path) -> Result<Store, Error> {
        Ok(Store::new(Segment::open_unclean(path)?))
    }

    /// Creates a store at a path that is free, with a `maxmemory` of 1 GiB, or five eighths of the file system if that is less.
    pub fn create(path: &Path, options: &Options) -> Result<Store, Error> {
        let segment =
            Terms::default().initially(|initially| Segment::create_so(path, options, initially))?;
        Ok(Store::new(segment))
    }

    /// Opens the store at a path, or creates it where the path is free.
    pub fn open_or_create(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::open_or_create_so(path, options, &Terms::default())
    }

    /// [`open_or_create`](Self::open_or_create) of a store that has these terms
    /// from its first moment, if it is created. One that is there stays as it
    /// is: [`agrees_with`](Self::agrees_with) says whether it has them.
    pub fn open_or_create_so(
        path: &Path,
        options: &Options,
        terms: &Terms,
    ) -> Result<Store, Error> {
        let segment =
            terms.initially(|initially| Segment::open_or_create(path, options, initially))?;
        Ok(Store::new(segment))
    }

    fn new(segment: Segment) -> Store {
        Store {
            shard_mask: segment.shards() - 1,
            clock: Clock::default(),
            patterns: ForkMutex::default(),
            pool: ForkMutex::default(),
            space: ForkMutex::default(),
            evicted: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            expired_stay: AtomicU64::new(0),
            chance: Chance::new(coarse_milliseconds() ^ segment.hash_key()[0]),
            backlog: ForkMutex::default(),
            has_backlog: AtomicBool::new(false),
            round: Round::default(),
            kept_by_timer: AtomicBool::new(false),
            follower: ForkMutex::default(),
            is_followed: AtomicBool::new(false),
            segment,
        }
    }

    /// Hashes a key.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let hash = hash(self.segment.hash_key(), bytes);
        Key {
            bytes,
            hash,
            shard: self.shard_of(hash),
        }
    }

    /// Hashes many keys. Their texts lie anywhere: they are asked for ahead of their turns.
    pub fn hash_all<'k: 'n, 'n>(
        &self,
        names: impl IntoIterator<Item = &'n &'k [u8], IntoIter: Clone>,
    ) -> Vec<Key<'k>> {
        let names = names.into_iter();
        let mut ahead = names.clone().skip(TOGETHER);
        let hashed = names.map(|name| {
            if let Some(first) = ahead.next().and_then(|name| name.first()) {
                prefetch(first);
            }
            self.key(name)
        });
        hashed.collect()
    }

    /// The shard of a key with this hash.
    #[inline(always)]
    pub(crate) fn shard_of(&self, hash: u64) -> usize {
        (hash >> 58) as usize & self.shard_mask
    }

    /// The shards that some keys lie in.
    pub fn shards_of<'k>(&self, keys: impl IntoIterator<Item = &'k Key<'k>>) -> ShardSet {
        keys.into_iter().map(|key| key.shard).collect()
    }

    /// All shards of the store.
    pub fn all_shards(&self) -> ShardSet {
        self.segment.all_shards()
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.segment.shards()
    }

    /// Unix time in milliseconds, as expiry goes by it.
    #[inline]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Milliseconds since boot, as leases go by them.
    pub(crate) fn boot_now(&self) -> u64 {
        self.clock.boot()
    }

    /// Sets the clock that leases go by, in this process; 0 goes back to the system's. For tests.
    pub fn set_boot_time(&self, milliseconds: u64) {
        self.clock.set_boot(milliseconds);
    }

    /// Leaves steps of upkeep (M8) to a timer of this process, which calls
    /// [`upkeep`](Self::upkeep): otherwise its writes do them.
    pub fn leave_upkeep_to_a_timer(&self) {
        self.kept_by_timer.store(true, Ordering::Relaxed);
    }

    /// Whether writes do steps of upkeep. Not where a test has set the time:
    /// what happens then is the test's to say.
    pub(crate) fn keeps_itself(&self) -> bool {
        !self.kept_by_timer.load(Ordering::Relaxed) && self.clock.fixed().is_none()
    }

    /// Sets the time that expiry goes by, in this process, and ends its upkeep;
    /// 0 goes back to the system's. For tests.
    pub fn set_time(&self, milliseconds: u64) {
        self.clock.set(milliseconds);
    }

    /// Reads keys of some shards as they were at one moment. `body` may run
    /// several times; what it returns counts only if nothing changed meanwhile.
    /// It can keep nothing between its runs (R8): it is [`Fn`] and [`Sync`].
    #[inline(always)]
    pub fn read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Reader<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.read_into(shards, &mut (), |reader, ()| body(reader))
    }

    /// [`read`](Self::read) that fills memory of the caller's. It is empty
    /// whenever `body` begins, and where the read fails (R8).
    #[inline(always)]
    pub fn read_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&Reader<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        loop {
            let result = self.segment.read_into(shards, scratch, |view, scratch| {
                body(&Reader { store: self, view }, scratch).map_err(Carried::of)
            });
            match result {
                Ok(value) => return Ok(value),
                Err(carried) => self.try_again(carried)?,
            }
        }
    }

    /// [`read`](Self::read) for who looks after marked shards (L5).
    pub(crate) fn read_marked<R>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Reader<'_, '_>) -> Result<R, Error> + Sync,
    ) -> Result<R, Error> {
        let read = |view: &View<'_>| body(&Reader { store: self, view });
        self.segment.read_marked(shards, read)
    }

    /// Changes keys of some shards: all or nothing. An error from `body` undoes
    /// everything. `body` may run several times, where there is not enough memory
    /// or log at first. It can keep nothing between its runs (W10): it is [`Fn`]
    /// and [`Sync`], as that of [`read`](Self::read).
    #[inline(always)]
    pub fn write<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.write_into(shards, &mut (), |writer, ()| body(writer))
    }

    /// [`write`](Self::write) that fills memory of the caller's. It is empty
    /// whenever `body` begins, and where the change fails (W10).
    #[inline(always)]
    pub fn write_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        if self.has_backlog() {
            self.settle_first();
        }
        let (value, mail) = self.change(shards, Marks::Respected, scratch, body)?;
        self.deliver(mail);
        if self.segment.upkeep_is_due() {
            self.upkeep_behind();
        }
        Ok(value)
    }

    /// Holds the locks of some shards while `body` runs, once. For tests.
    #[doc(hidden)]
    pub fn hold<R>(&self, shards: ShardSet, mut body: impl FnMut() -> R) -> Result<R, Error> {
        self.read_locked(shards, |_| body())
    }

    /// Reads some shards under their locks. `body` runs once: what it shows
    /// somebody else counts.
    pub(crate) fn read_locked<R>(
        &self,
        shards: ShardSet,
        mut body: impl FnMut(&View<'_>) -> R,
    ) -> Result<R, Error> {
        if self.has_backlog() {
            self.settle_first();
        }
        loop {
            match self.segment.read_locked(shards, &mut body) {
                Ok(value) => return Ok(value),
                Err(error) => self.try_again(Carried::<Error>::from(error))?,
            }
        }
    }

    /// Copies the store as it is at one moment, at which `moment` is called, while others go on; `between` is called
    /// after every page, in tests.
    pub(crate) fn image<T>(
        &self,
        mut moment: impl FnMut() -> T,
        between: &mut dyn FnMut(),
    ) -> Result<(Image, T), Error> {
        if self.has_backlog() {
            self.settle_first();
        }
        loop {
            match self.segment.image(&mut moment, between) {
                Ok(made) => return Ok(made),
                Err(error) => self.try_again(Carried::<Error>::from(error))?,
            }
        }
    }

    /// [`write`](Self::write) without serving those who wait for the keys, who
    /// are returned: for who looks after marked shards (L5).
    pub(crate) fn write_marked<R>(
        &self,
        shards: ShardSet,
        body: impl Fn(&mut Writer<'_, '_>) -> Result<R, Error> + Sync,
    ) -> Result<(R, Noticed), Error> {
        let body = |writer: &mut Writer<'_, '_>, (): &mut ()| body(writer);
        let (value, mut mail) = self.change(shards, Marks::Ignored, &mut (), body)?;
        let noticed = mail.take_noticed();
        self.deliver(mail);
        Ok((value, noticed))
    }

    /// Changes keys of some shards, and returns what is to be done behind the
    /// commit.
    #[inline(always)]
    fn change<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        marks: Marks,
        scratch: &mut S,
        body: impl Fn(&mut Writer<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<(R, Mail), E> {
        loop {
            let result = self.segment.write_where(shards, marks, |transaction| {
                scratch.clear();
                let mut writer = Writer::new(self, transaction);
                match body(&mut writer, scratch) {
                    Ok(value) => Ok((value, writer.outbox.close())),
                    Err(error) => {
                        let again = writer.transaction.is_short();
                        Err(Carried::failed(error, writer.outbox, again))
                    }
                }
            });
            match result {
                Ok(done) => return Ok(done),
                Err(carried) => self.try_again(carried).inspect_err(|_| scratch.clear())?,
            }
        }
    }

    /// Number of keys in a database, including those that have expired and
    /// were not yet removed. O(number of shards).
    pub fn keys(&self, database: usize) -> u64 {
        self.sum(database, KEYS)
    }

    /// Number of keys in a database that expire.
    pub fn expiring_keys(&self, database: usize) -> u64 {
        self.sum(database, EXPIRES)
    }

    fn sum(&self, database: usize, word: usize) -> u64 {
        // There is no error to return.
        let _deferred = defer_signals();
        (0..self.shards())
            .map(|shard| {
                let read = self.read(ShardSet::one(shard), |reader| {
                    Ok::<_, Error>(Root { shard, database }.get(reader.view(), word))
                });
                read.unwrap_or(0)
            })
            .sum()
    }

    /// Bytes in allocated blocks: keys, values, buckets.
    pub fn used_memory(&self) -> u64 {
        (0..self.shards())
            .map(|shard| self.segment.used_bytes(shard))
            .sum()
    }

    /// The limit on [`used_memory`](Self::used_memory); 0 is none.
    pub fn max_memory(&self) -> u64 {
        self.segment.max_memory()
    }

    /// Sets the limit, for all processes.
    pub fn set_max_memory(&self, bytes: u64) -> Result<(), Error> {
        Ok(self.segment.set_max_memory(bytes)?)
    }

    /// Makes sure that there is room for a command that adds about this many bytes: where the limit is reached, keys are
    /// evicted, in proportion to `bytes` and as the policy allows. A few nanoseconds while the limit is far away. Must
    /// not be called within a transaction.
    ///
    /// # Errors
    /// [`Error::MaxMemory`] where nothing may be evicted.
    #[inline]
    pub fn check_memory_for(&self, bytes: usize) -> Result<(), Error> {
        let limit = self.segment.max_memory();
        if limit == 0 || self.segment.granted_bytes() <= limit {
            return Ok(());
        }
        if self.used_memory() > limit {
            return self.make_room(limit, bytes as u64);
        }
        Ok(())
    }

    /// Sizes of the store.
    pub fn statistics(&self) -> Statistics {
        self.segment.statistics()
    }

    /// The living processes that have written to the store.
    pub fn members(&self) -> Vec<Member> {
        self.segment.members()
    }

    /// The other processes that have the store mapped, those that write first.
    ///
    /// # Errors
    /// Where this process may not open the store's path any more.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        Ok(self.segment.users()?)
    }

    /// The locks that are held at this moment.
    pub fn held_locks(&self) -> Vec<HeldLock> {
        self.segment.held_locks()
    }

    /// Recovers at once what dead writers left in any shard.
    pub fn recover(&self) -> Result<(), Error> {
        Ok(self.segment.recover()?)
    }

    /// Writes everything to the disk, so that the store may be opened after a
    /// power cut or on another machine, until somebody changes it again.
    ///
    /// # Errors
    /// Where others changed it all the time, too.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.segment.sync()?)
    }

    /// From now on this process ends with a line on standard error where the
    /// store's file is cut short under it, instead of being killed by SIGBUS.
    /// For programs that use one store at a time, not for libraries.
    pub fn tell_when_lost(&self) {
        self.segment.tell_when_lost();
    }

    /// Whether everything that was written is on the disk.
    pub fn is_synced(&self) -> bool {
        self.segment.is_synced()
    }

    /// Whether it is known already that the path names the store's file no longer. Makes no look itself.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.segment.is_lost()
    }

    /// Looks whether the path still names the store's file, once a second at most; [`is_lost`](Self::is_lost) tells.
    /// Costs a look at the coarse clock otherwise.
    #[inline]
    pub fn look_for_file(&self) {
        self.segment.look_for_file(coarse_milliseconds());
    }

    /// Whether the store's file was removed or replaced under its users.
    pub fn removed(&self) -> bool {
        self.segment.removed()
    }

    /// The error of all writes, where the store's file was removed or replaced under its users.
    pub fn removal(&self) -> Option<Error> {
        self.removed().then(|| Error::of_removal(self.path()))
    }

    /// The path of the store's file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    /// Whether this handle may write.
    pub fn writable(&self) -> bool {
        self.segment.writable()
    }

    /// How long to wait for a lock whose owner makes no progress before
    /// [`undercroft_memory::Error::Busy`] is returned (default 5 s).
    pub fn set_patience(&self, patience: Duration) {
        self.segment.set_patience(patience);
    }

    /// What [`set_patience`](Self::set_patience) has set; less, where the thread's
    /// patience is [limited](crate::limit_patience).
    pub fn patience(&self) -> Duration {
        self.segment.patience()
    }

    /// Sets what is done while a thread waits for a lock.
    pub fn set_wait_hook(&mut self, hook: Box<dyn WaitHook>) {
        self.segment.set_wait_hook(hook);
    }

    /// Whether a signal has come that may want to end what this thread does; see [`WaitHook::is_signalled`].
    pub fn is_signalled(&self) -> bool {
        self.segment.is_signalled()
    }

    /// Runs a script, which holds locks; see [`WaitHook::script`].
    pub fn run_script(&self, run: &mut dyn FnMut()) {
        self.segment.run_script(run);
    }

    /// Has signal handlers run, and asks whether one of them ends what this thread does, which holds no lock; see
    /// [`WaitHook::interrupted`].
    pub fn is_interrupted(&self) -> bool {
        self.segment.is_interrupted()
    }

    /// Has a hook called in the midst of this handle's reads, or none any more; see [`undercroft_memory::race`].
    #[cfg(feature = "races")]
    pub fn interrupt_reads(&self, hook: Option<undercroft_memory::race::Hook>) {
        self.segment.interrupt_reads(hook);
    }

    /// Lets go of this process' place as if it had been killed; for tests.
    pub fn abandon(&self) {
        self.segment.abandon();
    }
}

/// Read access to keys, as they were at one moment.
pub struct Reader<'r, 's> {
    pub(crate) store: &'r Store,
    pub(crate) view: &'r View<'s>,
}

impl<'s> Reader<'_, 's> {
    /// The view to read entries with.
    #[inline(always)]
    pub fn view(&self) -> &View<'s> {
        self.view
    }

    /// Hashes a key.
    #[inline(always)]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        self.store.key(bytes)
    }

    /// Unix time in milliseconds, as expiry goes by it.
    #[inline]
    pub fn now(&self) -> u64 {
        self.store.now()
    }

    /// Brings keys into the caches ahead of a walk over them; see
    /// [`Store::warm_ahead`].
    #[inline(always)]
    pub fn warm_ahead(&self, database: usize, keys: &[Key<'_>], position: usize) {
        self.store.warm_ahead(database, keys, position);
    }

    /// Looks a key up; one that has expired is not there.
    #[inline(always)]
    pub fn find(&self, database: usize, key: &Key<'_>) -> Result<Option<Entry>, Error> {
        let root = Root {
            shard: key.shard,
            database,
        };
        match dictionary::find(self.view, root, key)? {
            Some(entry) if entry.header.expires() && self.has_expired(database, &entry)? => {
                Ok(None)
            }
            found => Ok(found),
        }
    }

    #[cold]
    fn has_expired(&self, database: usize, entry: &Entry) -> Result<bool, Error> {
        let expiry = entry.expiry(self.view)?;
        let expired = expiry.is_some_and(|expiry| expiry <= self.store.now());
        if expired {
            expired::remember(self.view, database, entry);
        }
        Ok(expired)
    }
}

#[cfg(test)]
mod tests {
    use super::Store;
    use undercroft_memory::Options;

    #[test]
    fn the_hints_grow_with_the_keys() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let options = Options {
            capacity: Some(16 << 20),
            shards: Some(2),
            ring: None,
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
        let hints = |store: &Store| [0, 1].map(|shard| store.segment.hints(shard));
        let first = hints(&store);
        for key in 0_u32..20_000 {
            let database = key as usize % 4;
            store.set(database, &key.to_le_bytes(), b"").expect("room");
        }
        for (shard, (first, now)) in first.into_iter().zip(hints(&store)).enumerate() {
            let keys: u64 = (0..4)
                .map(|database| {
                    let root = crate::structures::roots::Root { shard, database };
                    let keys = store
                        .segment
                        .read(undercroft_memory::ShardSet::one(shard), |view| {
                            Ok::<_, super::Error>(root.get(view, super::KEYS))
                        });
                    keys.expect("a count")
                })
                .sum();
            assert!(first < now && now <= keys, "{now} for {keys} keys");
            assert!(keys < now * 4, "{now} for {keys} keys");
        }
    }
}
