//! A consistent snapshot of all keys, for an export.

use std::collections::BTreeMap;

use undercroft_memory::{Image, ShardSet, View};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::entry::Entry;
use crate::structures::ranges::Ranges;
use crate::structures::roots::{DATABASES, EXPIRES, KEYS, Root};
use crate::structures::walk::scan_bucket;
use crate::types::value_type::{Encoding, ValueType};

/// One key in a snapshot, with its value.
#[derive(Clone, Copy, Debug)]
pub struct Item<'i> {
    /// The database of the key.
    pub database: usize,
    /// The name of the key.
    pub key: &'i [u8],
    /// The type of the value.
    pub value_type: ValueType,
    /// The encoding of the value.
    pub encoding: Encoding,
    /// The time when the key expires in Unix milliseconds, or `None` if the key does not expire.
    pub expiry: Option<u64>,
    /// The value as a flat list of items; see [`Entry::append_items`].
    pub items: &'i Ranges,
}

/// The state that a store had at one moment. Other processes keep reading and writing. Threads can
/// share a snapshot and visit its shards at the same time.
pub struct Snapshot<'s> {
    store: &'s Store,
    /// A private copy of the used part of the store, or `None` if the mapping is private.
    image: Option<Image>,
    now: u64,
}

impl Snapshot<'_> {
    /// Returns the time of the snapshot in Unix milliseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.store.shards()
    }

    /// Calls `read` with a view of a shard.
    fn read<R, E: From<Error>>(
        &self,
        shard: usize,
        mut read: impl FnMut(&View<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        match &self.image {
            Some(image) => read(&image.view()),
            None => self.store.read_locked(ShardSet::one(shard), read)?,
        }
    }

    /// Returns the number of keys in a database, and how many of these have an expiry. Both include
    /// keys that have expired but have not been removed yet. O(number of shards).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if a lock cannot be acquired.
    pub fn keys(&self, database: usize) -> Result<(u64, u64), Error> {
        let mut sums = (0, 0);
        for shard in 0..self.shards() {
            let root = Root { shard, database };
            let (keys, expiring) = self.read(shard, |view| {
                Ok::<_, Error>((root.get(view, KEYS), root.get(view, EXPIRES)))
            })?;
            sums = (sums.0 + keys, sums.1 + expiring);
        }
        Ok(sums)
    }

    /// Visits every unexpired key of a database in one shard exactly once. O(data).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if a lock cannot be acquired or an entry is damaged. Also returns
    /// any error from `visit`.
    pub fn visit<E: From<Error>>(
        &self,
        database: usize,
        shard: usize,
        mut visit: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let root = Root { shard, database };
        self.read(shard, |view| show_shard(view, root, self.now, &mut visit))
    }

    /// Returns the names and the texts in an internal dictionary. O(bytes).
    pub(crate) fn texts(&self, database: usize) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Error> {
        let mut found = BTreeMap::new();
        for shard in 0..self.shards() {
            self.read(shard, |view| {
                walk(view, Root { shard, database }, |entry| {
                    let (mut name, mut text) = (Vec::new(), Vec::new());
                    entry.append_key(view, &mut name)?;
                    entry.text(view)?.append_to(view, &mut text)?;
                    found.insert(name, text);
                    Ok::<_, Error>(())
                })
            })?;
        }
        Ok(found)
    }
}

impl Store {
    /// Copies the state of the store at this moment to private memory. No lock is held afterwards,
    /// and other processes keep reading and writing. O(memory in use).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the locks cannot be acquired, or if the store changes faster
    /// than it can be copied.
    pub fn take_snapshot(&self) -> Result<Snapshot<'_>, Error> {
        let (image, now) = match self.segment.is_alone() {
            // The mapping is private, so locks block no other process. Read the data in place: a
            // private copy of a store that was changing may have inconsistent page maps, which
            // copying requires.
            true => (None, self.now()),
            false => {
                let (image, now) = self.image(|| self.now(), &mut || {})?;
                (Some(image), now)
            }
        };
        let store = self;
        Ok(Snapshot { store, image, now })
    }

    /// Visits every unexpired key exactly once, in the state that the store had at one moment.
    /// Other processes keep reading and writing: the used part of the store is first copied to
    /// private memory, and no lock is held while `visit` runs. O(data).
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the locks cannot be acquired, if the store changes faster than
    /// it can be copied, or if an entry is damaged. Also returns any error from `visit`.
    pub fn snapshot<E: From<Error>>(
        &self,
        visit: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.segment.is_alone() {
            // The mapping is private, so locks block no other process. Read the data in place: a
            // private copy of a store that was changing may have inconsistent page maps, which
            // copying requires.
            let mut visit = visit;
            let shown = self.read_locked(self.all_shards(), |view| {
                show(view, self.shards(), self.now(), &mut visit)
            });
            return shown?;
        }
        let (image, now) = self.image(|| self.now(), &mut || {})?;
        show(&image.view(), self.shards(), now, visit)
    }

    /// Like [`snapshot`](Self::snapshot), but calls `between` after each copied page, with no lock
    /// held. Only for tests.
    #[doc(hidden)]
    pub fn snapshot_interrupted<E: From<Error>>(
        &self,
        between: &mut dyn FnMut(),
        visit: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (image, now) = self.image(|| self.now(), between)?;
        show(&image.view(), self.shards(), now, visit)
    }
}

/// Visits every key that has not expired at the time `now`.
fn show<E: From<Error>>(
    view: &View<'_>,
    shards: usize,
    now: u64,
    mut visit: impl FnMut(Item<'_>) -> Result<(), E>,
) -> Result<(), E> {
    for shard in 0..shards {
        for database in 0..DATABASES {
            show_shard(view, Root { shard, database }, now, &mut visit)?;
        }
    }
    Ok(())
}

/// Visits every key of a dictionary that has not expired at the time `now`.
fn show_shard<E: From<Error>>(
    view: &View<'_>,
    root: Root,
    now: u64,
    visit: &mut impl FnMut(Item<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let (mut key, mut items) = (Vec::new(), Ranges::new());
    walk(view, root, |entry| {
        let expiry = entry.expiry(view)?;
        if expiry.is_some_and(|expiry| expiry <= now) {
            return Ok(());
        }
        key.clear();
        items.clear();
        entry.append_key(view, &mut key)?;
        entry.append_items(view, &mut items)?;
        visit(Item {
            database: root.database,
            key: &key,
            value_type: entry.value_type()?,
            encoding: entry.encoding()?,
            expiry,
            items: &items,
        })
    })
}

/// Visits each entry of a dictionary once. The dictionary must not change during the walk.
fn walk<E: From<Error>>(
    view: &View<'_>,
    root: Root,
    mut visit: impl FnMut(&Entry) -> Result<(), E>,
) -> Result<(), E> {
    let mut position = 0;
    let mut found = Vec::new();
    loop {
        found.clear();
        position = scan_bucket(view, root, position, |at| {
            found.push(at);
            Ok(())
        })?;
        for &at in &found {
            visit(&Entry::load(view, at).map_err(Error::from)?)?;
        }
        if position == 0 {
            return Ok(());
        }
    }
}
