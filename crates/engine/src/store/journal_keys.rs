//! The keys that the records of a journal changed.
//!
//! A record contains ranges of the store file, not keys. The records are repeated in a store of their
//! own, and an index of its entries shows which keys a range belongs to. A change in a block of a
//! large value that its entry does not reflect, such as a new value of an existing field, is found
//! only if the value has a single block.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use undercroft_memory::{
    JournalRecord, JournalRecordKind, JournalReplay, Offset, RecoveryWatch, ShardSet, Until, View,
};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::entry::Entry;
use crate::structures::roots::{DATABASES, Root, TABLE};
use crate::structures::walk::scan_bucket;

/// The maximum length of a key, as in Redis.
const KEY_MAX: u64 = 512 << 20;

/// A key and its database.
type Name = (usize, Vec<u8>);

/// The keys that a record changed, with their databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    /// Keys that did not exist before.
    pub added: BTreeSet<Name>,
    /// Keys whose value or expiry was changed.
    pub changed: BTreeSet<Name>,
    /// Keys that do not exist any more.
    pub removed: BTreeSet<Name>,
}

impl ChangedKeys {
    /// Returns true if no key is known to be changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

/// An entry in the index.
struct Known {
    name: Name,
    /// The position after the entry.
    end: Offset,
    /// The separate block of the value, and the position after it.
    block: Option<(Offset, Offset)>,
}

/// The entries of a store, by their offsets.
struct Index<'s> {
    store: &'s Store,
    entries: BTreeMap<Offset, Known>,
    /// The separate blocks of values: their ends, and the offsets of their entries.
    blocks: BTreeMap<Offset, (Offset, Offset)>,
    /// Keys whose entries are now those of other keys, such as of the same key in another database.
    displaced: Vec<Name>,
}

/// The state of the index before a record is applied.
struct Before {
    /// Entries with changed words in them or in their blocks.
    touched: BTreeSet<Offset>,
    /// Entries whose slot in a bucket may have been changed.
    unlinked: BTreeSet<Offset>,
    /// The roots of the shards: their tables.
    tables: Vec<(Root, u64)>,
}

/// Calls `each` with the records of a journal after a moment, and with the keys that they changed. The
/// store is recovered up to the moment into a new file at `scratch`, which is removed afterwards. Ends
/// early if `each` returns false.
///
/// # Errors
/// Fails if the journal is damaged, or if `watch` interrupts the work. `each` has then received all
/// records before the damage.
pub fn read_journal_keys(
    folder: &Path,
    scratch: &Path,
    since: Option<Until>,
    watch: &RecoveryWatch<'_>,
    each: &mut dyn FnMut(&JournalRecord, &ChangedKeys) -> bool,
) -> Result<(), Error> {
    /// Removes the file of the store.
    struct Removed<'a>(&'a Path);
    impl Drop for Removed<'_> {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(self.0);
        }
    }
    let replay = JournalReplay::begin(scratch, folder, since, watch)?;
    let _removed = Removed(scratch);
    let store = Store::open(scratch, true)?;
    // Upkeep would remove expired keys.
    store.leave_upkeep_to_a_timer();
    let mut index = Index {
        store: &store,
        entries: BTreeMap::new(),
        blocks: BTreeMap::new(),
        displaced: Vec::new(),
    };
    for shard in 0..store.segment.shards() {
        for database in 0..DATABASES {
            index.scan(Root { shard, database }, &mut ChangedKeys::default())?;
        }
    }
    replay.run(folder, watch, |record, apply| {
        let mut keys = ChangedKeys::default();
        if record.kind == JournalRecordKind::Transaction {
            let before = index.before(record)?;
            apply()?;
            index.after(record, before, &mut keys)?;
        } else {
            apply()?;
        }
        Ok::<_, Error>(each(record, &keys))
    })
}

/// Returns the shards that a record changed.
fn shards_of(store: &Store, record: &JournalRecord) -> impl Iterator<Item = usize> + use<> {
    let bits = record.shards;
    (0..store.segment.shards()).filter(move |shard| bits >> shard & 1 == 1)
}

impl Index<'_> {
    /// Reads the shards of the store.
    fn read<R>(
        &self,
        shards: impl Iterator<Item = usize>,
        body: impl Fn(&View<'_>) -> Result<R, Error> + Sync,
    ) -> Result<R, Error> {
        let mut set = ShardSet::one(0);
        for shard in shards {
            set.insert(shard);
        }
        self.store.segment.read_marked(set, body)
    }

    fn forget(&mut self, at: Offset) -> Option<Name> {
        let known = self.entries.remove(&at)?;
        if let Some((block, _)) = known.block {
            self.blocks.remove(&block);
        }
        Some(known.name)
    }

    fn learn(&mut self, at: Offset, known: Known) {
        let before = self.forget(at).filter(|name| *name != known.name);
        self.displaced.extend(before);
        if let Some((block, end)) = known.block {
            self.blocks.insert(block, (end, at));
        }
        self.entries.insert(at, known);
    }

    /// Finds the entries that a record is about to change.
    fn before(&self, record: &JournalRecord) -> Result<Before, Error> {
        let mut touched = BTreeSet::new();
        for &(from, length) in &record.ranges {
            let to = from + length;
            let mut entries = self.entries.range(..to).rev();
            touched.extend(
                entries
                    .by_ref()
                    .take_while(|(_, known)| known.end > from)
                    .map(|(at, _)| *at),
            );
            let blocks = self.blocks.range(..to).rev();
            touched.extend(
                blocks
                    .take_while(|(_, (end, _))| *end > from)
                    .map(|(_, (_, at))| *at),
            );
        }
        let entries = &self.entries;
        let (unlinked, tables) = self.read(shards_of(self.store, record), |view| {
            let mut unlinked = BTreeSet::new();
            for_each_word(view, record, |word| {
                if entries.contains_key(&word) {
                    unlinked.insert(word);
                }
            });
            Ok((unlinked, tables(self.store, view, record)))
        })?;
        Ok(Before {
            touched,
            unlinked,
            tables,
        })
    }

    /// Finds the keys that a record has changed, and updates the index.
    fn after(
        &mut self,
        record: &JournalRecord,
        before: Before,
        keys: &mut ChangedKeys,
    ) -> Result<(), Error> {
        let shards = || shards_of(self.store, record);
        let now = self.read(shards(), |view| Ok(tables(self.store, view, record)))?;
        for ((root, was), (_, is)) in before.tables.iter().zip(now) {
            if *was != is {
                self.scan(*root, keys)?;
            }
        }
        let mut gone = BTreeSet::new();
        for &at in before.touched.union(&before.unlinked) {
            let Some(known) = self.entries.get(&at) else {
                continue;
            };
            let (database, key) = known.name.clone();
            match self.find(database, &key)? {
                Some((found, known)) => {
                    let is_same = found == at && !before.touched.contains(&at);
                    if !is_same && !keys.added.contains(&(database, key.clone())) {
                        keys.changed.insert((database, key));
                    }
                    if found != at {
                        self.forget(at);
                    }
                    self.learn(found, known);
                }
                None => {
                    self.forget(at);
                    gone.insert((database, key));
                }
            }
        }
        let linked = self.read(shards(), |view| {
            let mut linked = BTreeSet::new();
            for_each_word(view, record, |word| {
                linked.insert(word);
            });
            Ok(linked)
        })?;
        for at in linked {
            if self.entries.contains_key(&at) {
                continue;
            }
            if let Some(known) = self.live_entry(record, at)? {
                let name = known.name.clone();
                self.learn(at, known);
                match gone.remove(&name) {
                    true => keys.changed.insert(name),
                    false => keys.added.insert(name),
                };
            }
        }
        keys.removed.extend(gone);
        for (database, key) in std::mem::take(&mut self.displaced) {
            match self.find(database, &key)? {
                None => {
                    keys.removed.insert((database, key));
                }
                Some((found, known)) if !self.entries.contains_key(&found) => {
                    keys.changed.insert((database, key));
                    self.learn(found, known);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Looks up a key. Returns its entry's offset and description.
    fn find(&self, database: usize, key: &[u8]) -> Result<Option<(Offset, Known)>, Error> {
        let found = self.store.key(key);
        let root = Root {
            shard: found.shard,
            database,
        };
        self.read(
            std::iter::once(found.shard),
            |view| match dictionary::find(view, root, &found)? {
                None => Ok(None),
                Some(entry) => Ok(Some((entry.at, known(view, database, &entry)?))),
            },
        )
    }

    /// Returns the description of an entry at an offset, if a database has it.
    fn live_entry(&self, record: &JournalRecord, at: Offset) -> Result<Option<Known>, Error> {
        let read = self.read(shards_of(self.store, record), |view| {
            let entry = Entry::load(view, at)?;
            if entry.key_length > KEY_MAX || entry.header.form().is_none() {
                return Ok(None);
            }
            view.check(at, entry.size())?;
            let mut key = Vec::new();
            entry.append_key(view, &mut key)?;
            Ok(Some(key))
        });
        // The word was not the offset of an entry.
        let Ok(Some(key)) = read else {
            return Ok(None);
        };
        for database in 0..DATABASES {
            match self.find(database, &key)? {
                Some((found, known)) if found == at => return Ok(Some(known)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Compares the index with a dictionary whose table is another one, and updates the index.
    fn scan(&mut self, root: Root, keys: &mut ChangedKeys) -> Result<(), Error> {
        let database = root.database;
        let found = self.read(std::iter::once(root.shard), |view| {
            let (mut found, mut position) = (BTreeMap::new(), 0);
            loop {
                position = scan_bucket(view, root, position, |at| {
                    let entry = Entry::load(view, at)?;
                    found.insert(at, known(view, database, &entry)?);
                    Ok(())
                })?;
                if position == 0 {
                    return Ok(found);
                }
            }
        })?;
        let store = self.store;
        let of_root = |known: &Known| {
            known.name.0 == database && store.key(&known.name.1).shard == root.shard
        };
        let old = self.entries.iter().filter(|(_, known)| of_root(known));
        let mut old: BTreeMap<Name, Offset> =
            old.map(|(at, known)| (known.name.clone(), *at)).collect();
        for (at, known) in found {
            match old.remove(&known.name) {
                Some(before) if before == at => {}
                Some(before) => {
                    keys.changed.insert(known.name.clone());
                    self.forget(before);
                    self.learn(at, known);
                }
                None => {
                    keys.added.insert(known.name.clone());
                    self.learn(at, known);
                }
            }
        }
        for (name, at) in old {
            // Another key may have taken the place.
            if self
                .entries
                .get(&at)
                .is_some_and(|known| known.name == name)
            {
                self.forget(at);
            }
            keys.removed.insert(name);
        }
        Ok(())
    }
}

/// Describes an entry.
fn known(view: &View<'_>, database: usize, entry: &Entry) -> Result<Known, Error> {
    let mut key = Vec::new();
    entry.append_key(view, &mut key)?;
    let block = match entry.block(view)? {
        Some(block) => Some((block, block + view.block_bytes(block)?)),
        None => None,
    };
    Ok(Known {
        name: (database, key),
        end: entry.at + entry.size(),
        block,
    })
}

/// Calls `visit` with every word in the ranges of a record that lies in the heap and may be an offset.
fn for_each_word(view: &View<'_>, record: &JournalRecord, mut visit: impl FnMut(u64)) {
    for &(from, length) in &record.ranges {
        for at in (from..from + length).step_by(8) {
            if let Ok(word) = view.word(at)
                && word != 0
                && word.is_multiple_of(8)
            {
                visit(word);
            }
        }
    }
}

/// Returns the tables of the databases in the shards of a record.
fn tables(store: &Store, view: &View<'_>, record: &JournalRecord) -> Vec<(Root, u64)> {
    let roots = shards_of(store, record)
        .flat_map(|shard| (0..DATABASES).map(move |database| Root { shard, database }));
    roots.map(|root| (root, root.get(view, TABLE))).collect()
}
