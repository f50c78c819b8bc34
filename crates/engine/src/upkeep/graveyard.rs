//! What is freed later, in bounded steps (W8, W9): the dictionaries of emptied
//! databases, and the dictionaries and trees of large collections that were
//! removed. Each shard has a list of them.
//!
//! ```text
//! a structure that is being freed, 64 bytes; a dictionary:
//! | next one | table | its bits | next bucket | other table | its bits | kind | unused |
//! a tree:
//! | next one | root | levels | progress | unused | unused | kind | unused |
//! what was cut off a list or a stream that has an arena:
//! | next one | arena | type, or 0 of lists | first part | unused | unused | kind | unused |
//! ```

use undercroft_memory::{Fault, Offset, Pool, Transaction, View, defer_signals, removing};

use crate::error::Error;
use crate::store::Store;
use crate::structures::dictionary::{CHAIN_MAX, Dictionary, Table, chain_fault, load_bucket};
use crate::structures::element::Element;
use crate::structures::entry::Entry;
use crate::structures::roots::{
    BITS, DATABASE_WORDS, DATABASES, DYING, KEYS, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, Root,
    TABLE, hidden,
};
use crate::structures::tree::Subtree;
use crate::transaction::access::Access;
use crate::transaction::outbox::Post;
use crate::transaction::writer::Writer;
use crate::types::contract::DyingTree;
use crate::types::registry::ValueType;
use crate::upkeep::detached;
use crate::upkeep::reclaim::Locked;

const RECORD: u64 = 64;
const NEXT: u64 = 0;
pub(crate) const MAIN: u64 = 8;
const MAIN_BITS: u64 = 16;
pub(crate) const CURSOR: u64 = 24;
const OTHER: u64 = 32;

/// What a structure that is being freed consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dying {
    /// The dictionary of a database: tables that refer to entries.
    Keys,
    /// The dictionary of a large collection: tables that refer to elements.
    Elements,
    /// Parts of the tree of a list or a stream that lives on in its arena.
    Parts,
    /// The tree of an object of a type.
    Tree(ValueType),
}

impl Dying {
    fn of(word: u64, record: Offset) -> Result<Dying, Error> {
        let is_its = |value_type: &ValueType| {
            let tree = value_type.tree();
            tree.is_some_and(|tree| tree.number() == word)
        };
        match word {
            0 => Ok(Dying::Keys),
            1 => Ok(Dying::Elements),
            4 => Ok(Dying::Parts),
            _ => match ValueType::ALL.into_iter().find(is_its) {
                Some(value_type) => Ok(Dying::Tree(value_type)),
                None => Err(Fault {
                    at: record,
                    what: "a known kind of structure to be freed",
                }
                .into()),
            },
        }
    }

    /// The number that stands for it in its record.
    fn number(self) -> Result<u64, Error> {
        match self {
            Dying::Keys => Ok(0),
            Dying::Elements => Ok(1),
            Dying::Parts => Ok(4),
            Dying::Tree(value_type) => Ok(tree_of(value_type)?.number()),
        }
    }
}

/// What answers for the trees of a type, which has such.
pub(crate) fn tree_of(value_type: ValueType) -> Result<&'static dyn DyingTree, Error> {
    value_type.tree().ok_or(Error::WrongType)
}

/// Buckets or leaves freed in one transaction when somebody waits for the memory.
pub(crate) const STEP: u64 = 64;
/// Steps of freeing that a flush does itself at most, beside one in each shard:
/// some milliseconds.
const AT_ONCE: usize = 64;
/// Blocks of long items that are as much work as a leaf or a bucket.
const LIKE_A_LEAF: u64 = 8;
/// Buckets or leaves that go along with a command that adds anything.
const ALONG: u64 = 8;

pub(crate) fn is_dying(view: &View<'_>, shard: usize) -> bool {
    view.root(shard, DYING) != 0
}

/// Removes all keys of some databases from a shard. Returns how many. O(1).
fn empty(writer: &mut Writer<'_, '_>, shard: usize, databases: &[usize]) -> Result<u64, Error> {
    let keys =
        |writer: &Writer<'_, '_>, database| Root { shard, database }.get(writer.view(), KEYS);
    let removed = databases
        .iter()
        .map(|&database| keys(writer, database))
        .sum();
    let all = || (0..DATABASES).chain(hidden());
    let stays = all().any(|database| !databases.contains(&database) && keys(writer, database) > 0);
    if removed == 0 || stays || !writer.transaction.leave_behind(shard, removed)? {
        for &database in databases {
            detach(writer, Root { shard, database })?;
        }
        return Ok(removed);
    }
    // Nothing that is left in the shard refers to anything: what was dying is
    // left behind with the rest.
    for database in all() {
        let root = Root { shard, database };
        if databases.contains(&database) && root.get(writer.view(), TABLE) != 0 {
            writer.all_changed(root)?;
        }
        clear(writer, root)?;
    }
    writer.transaction.set_root(shard, DYING, 0)?;
    Ok(removed)
}

/// Cuts one database's dictionary off in one shard.
fn detach(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    writer.forget_mailboxes(root.shard, root.database)?;
    if root.get(writer.view(), TABLE) == 0 {
        return Ok(());
    }
    writer.all_changed(root)?;
    detach_unseen(writer, root)
}

/// [`detach`] of a dictionary that no client sees.
pub(crate) fn detach_unseen(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    bury_dictionary(writer.transaction, root, Dying::Keys)?;
    clear(writer, root)
}

/// Lets a database's part of a shard be as in a new store.
fn clear(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    for word in 0..DATABASE_WORDS {
        if root.get(writer.view(), word) != 0 {
            root.set(writer.transaction, word, 0)?;
        }
    }
    Ok(())
}

/// Lets the tables of a dictionary and what they refer to be freed later; the
/// caller sees to it that nobody reaches them any more. O(1).
pub(crate) fn bury_dictionary<D: Dictionary>(
    transaction: &mut Transaction<'_>,
    root: D,
    kind: Dying,
) -> Result<(), Error> {
    let view = transaction.view();
    let (pool, table) = (root.pool(), root.word(view, TABLE)?);
    if table == 0 {
        return Ok(());
    }
    let bits = root.word(view, BITS)?;
    let next = root.word(view, NEXT_TABLE)?;
    let next_bits = root.word(view, NEXT_BITS)?;
    // An other table that is not yet in use holds nothing but may be freed.
    let in_use = next != 0 && root.word(view, PREPARED)? == 1 << next_bits.min(63);
    let cursor = if in_use { root.word(view, MOVED)? } else { 0 };
    if root.word(view, KEYS)? == 0 {
        transaction.free(pool, table);
        if next != 0 {
            transaction.free(pool, next);
        }
        return Ok(());
    }
    let other = if in_use { next } else { 0 };
    if next != 0 && !in_use {
        transaction.free(pool, next);
    }
    let words = [table, bits, cursor, other, next_bits];
    bury(transaction, pool.shard(), kind, words).map(drop)
}

/// Puts a structure on a shard's list, behind the first, which may be the one
/// that is being freed just now. Returns its record.
pub(crate) fn bury(
    transaction: &mut Transaction<'_>,
    shard: usize,
    kind: Dying,
    words: [u64; 5],
) -> Result<Offset, Error> {
    let record = transaction.allocate(shard, RECORD)?;
    let first = transaction.view().root(shard, DYING);
    let next = match first {
        0 => 0,
        first => transaction.view().word(first + NEXT)?,
    };
    let [table, bits, cursor, other, other_bits] = words;
    let number = kind.number()?;
    let fields = [next, table, bits, cursor, other, other_bits, number, 0];
    for (word, value) in fields.into_iter().enumerate() {
        transaction.fill_word(record + word as u64 * 8, value)?;
    }
    match first {
        0 => transaction.set_root(shard, DYING, record)?,
        first => transaction.store(shard, first + NEXT, record)?,
    }
    Ok(record)
}

/// Frees up to so many leaves of a tree, the first word of whose record or part
/// is the root, and counts them down; long items beside them count, too. Returns
/// whether it is gone.
pub(crate) fn free_leaves(
    transaction: &mut Transaction<'_>,
    pool: Pool,
    tree: Offset,
    kind: &dyn DyingTree,
    leaves: &mut u64,
) -> Result<bool, Error> {
    let [root, height, mut progress] = transaction.view().words::<3>(tree)?;
    while *leaves > 0 {
        let subtree = (root, height as usize);
        let (further, blocks) = kind.free_next_leaf(transaction, pool, subtree, progress)?;
        *leaves = leaves.saturating_sub(1 + blocks as u64 / LIKE_A_LEAF);
        match further {
            Some(further) => progress = further,
            None => return Ok(true),
        }
    }
    transaction.store(pool.shard(), tree + (CURSOR - MAIN), progress)?;
    Ok(false)
}

/// Frees up to so many buckets or leaves of the structures that are being freed.
#[cold]
pub(crate) fn free_a_little(
    writer: &mut Writer<'_, '_>,
    shard: usize,
    mut buckets: u64,
) -> Result<(), Error> {
    while buckets > 0 && is_dying(writer.view(), shard) {
        free_some_of_first(writer, shard, &mut buckets)?;
    }
    Ok(())
}

/// Frees up to so many buckets or leaves of the first structure, and counts them
/// down.
fn free_some_of_first(
    writer: &mut Writer<'_, '_>,
    shard: usize,
    buckets: &mut u64,
) -> Result<(), Error> {
    let record = writer.view().root(shard, DYING);
    let [_, at, bits, cursor, other, other_bits, kind] = writer.view().words::<7>(record)?;
    let kind = Dying::of(kind, record)?;
    let pool = Pool::from(shard);
    let transaction = &mut *writer.transaction;
    let gone = match kind {
        Dying::Keys | Dying::Elements => None,
        Dying::Tree(value_type) => {
            let kind = tree_of(value_type)?;
            let gone = free_leaves(transaction, pool, record + MAIN, kind, buckets)?;
            Some(gone)
        }
        Dying::Parts => Some(detached::free_a_little(
            transaction,
            shard,
            record,
            buckets,
        )?),
    };
    match gone {
        Some(true) => return remove_first(writer, shard, record),
        Some(false) => return Ok(()),
        None => {}
    }
    let table = Table {
        at,
        bits: bits.min(40),
    };
    let end = cursor.saturating_add(*buckets).min(table.buckets());
    // A table that is empty counts, too: each round must come to an end.
    *buckets -= (end.saturating_sub(cursor)).clamp(1, *buckets);
    for index in cursor..end {
        free_chain(writer, pool, kind, table.bucket(index))?;
    }
    if end < table.buckets() {
        return Ok(writer.transaction.store(shard, record + CURSOR, end)?);
    }
    writer.transaction.free(shard, at);
    if other != 0 {
        writer.transaction.store(shard, record + MAIN, other)?;
        writer
            .transaction
            .store(shard, record + MAIN_BITS, other_bits)?;
        writer.transaction.store(shard, record + CURSOR, 0)?;
        writer.transaction.store(shard, record + OTHER, 0)?;
        return Ok(());
    }
    remove_first(writer, shard, record)
}

/// Frees some of what was removed along with a command that adds so many items:
/// more than these take, so that it cannot grow faster than it is freed.
#[inline]
pub(crate) fn free_along(
    writer: &mut Writer<'_, '_>,
    shard: usize,
    items: usize,
) -> Result<(), Error> {
    if is_dying(writer.view(), shard) {
        return free_a_little(writer, shard, ALONG.max(items as u64));
    }
    Ok(())
}

/// Takes the first structure off the list.
fn remove_first(writer: &mut Writer<'_, '_>, shard: usize, record: Offset) -> Result<(), Error> {
    // Read only now: what was freed may have put others on the list.
    let next = writer.view().word(record + NEXT)?;
    writer.transaction.set_root(shard, DYING, next)?;
    writer.transaction.free(shard, record);
    Ok(())
}

fn free_chain(
    writer: &mut Writer<'_, '_>,
    pool: Pool,
    kind: Dying,
    home: Offset,
) -> Result<(), Error> {
    let mut at = home;
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(writer.view(), at)?;
        for item in bucket.entries.into_iter().filter(|&item| item != 0) {
            match kind {
                Dying::Keys => {
                    let entry = Entry::load(writer.view(), item)?;
                    writer.discard_value(pool.shard(), &entry)?;
                    writer.transaction.free(pool, item);
                }
                Dying::Elements => {
                    let element = Element::load(writer.view(), item)?;
                    element.free(writer.transaction, pool)?;
                }
                // A tree has no tables.
                Dying::Tree(_) | Dying::Parts => return Err(chain_fault(home).into()),
            }
        }
        if at != home {
            writer.transaction.free(pool, at);
        }
        if bucket.next == 0 {
            return Ok(());
        }
        at = bucket.next;
    }
    Err(chain_fault(home).into())
}

/// One structure that is being freed.
pub(crate) enum Left {
    /// Tables, what they refer to, and the first bucket of each that is still in
    /// use.
    Tables(Dying, Vec<(Table, u64)>),
    /// A tree, and how far it has been freed.
    Tree(&'static dyn DyingTree, Subtree, u64),
    /// Blocks that refer to parts of the tree of a list or a stream, and these.
    Parts(Vec<(Offset, Left)>),
}

/// The structures that are being freed, for the check.
pub(crate) fn for_each_dying(
    view: &View<'_>,
    shard: usize,
    mut visit: impl FnMut(Offset, Left) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut record = view.root(shard, DYING);
    while record != 0 {
        let [next, at, bits, cursor, other, other_bits, kind] = view.words::<7>(record)?;
        let left = match Dying::of(kind, record)? {
            Dying::Tree(value_type) => {
                Left::Tree(tree_of(value_type)?, (at, bits as usize), cursor)
            }
            Dying::Parts => Left::Parts(detached::all(view, record)?),
            kind @ (Dying::Keys | Dying::Elements) => {
                let table = |at, bits: u64| Table {
                    at,
                    bits: bits.min(40),
                };
                let mut tables = vec![(table(at, bits), cursor)];
                if other != 0 {
                    tables.push((table(other, other_bits), 0));
                }
                Left::Tables(kind, tables)
            }
        };
        visit(record, left)?;
        record = next;
    }
    Ok(())
}

impl Store {
    /// Removes all keys of some databases at one moment. With `wait`, also
    /// frees memory before it returns, all where it is little; otherwise, and
    /// what is left, upkeep does in small steps. Returns the number of keys
    /// removed.
    pub fn flush(&self, databases: &[usize], wait: bool) -> Result<u64, Error> {
        self.access().flush(databases, wait)
    }

    /// Frees what flushes left, where nobody else holds the locks: all of it
    /// where it is little, and otherwise some, lest others wait for the locks.
    pub(crate) fn free_flushed(&self) -> Result<(), Error> {
        let _deferred = defer_signals();
        let mut left = AT_ONCE;
        for shard in self.all_shards().iter() {
            loop {
                match self.reclaim_step(shard, Locked::Wait) {
                    Ok(true) if left == 0 => break,
                    Ok(true) => left -= 1,
                    Ok(false) => break,
                    // The keys are gone; whoever holds the lock frees the rest.
                    Err(error) if error.is_wait() => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes all keys of all databases; see [`flush`](Store::flush).
    pub fn flush_all(&self, wait: bool) -> Result<u64, Error> {
        self.access().flush_all(wait)
    }
}

impl Access<'_> {
    /// Removes all keys of some databases; see [`Store::flush`]. Within a
    /// transaction memory is freed after its commit.
    pub fn flush(&self, databases: &[usize], wait: bool) -> Result<u64, Error> {
        self.flush_and(databases, wait, || Ok(()))
    }

    /// The same, and does something else before that is committed, while all locks are held.
    pub(crate) fn flush_and(
        &self,
        databases: &[usize],
        wait: bool,
        also: impl Fn() -> Result<(), Error> + Sync,
    ) -> Result<u64, Error> {
        let shards = self.all_shards();
        let _removing = removing();
        let removed = self.write(shards, |writer| {
            let mut removed = 0;
            for shard in shards.iter() {
                removed += empty(writer, shard, databases)?;
            }
            also()?;
            Ok::<_, Error>(removed)
        })?;
        match self.running {
            _ if !wait => {}
            Some(running) => running.post(Post::Flushed),
            None => {
                // The keys are gone, whatever stands in the way of this.
                let _ = self.store.free_all_of_the_dead();
                self.store.free_flushed()?;
            }
        }
        Ok(removed)
    }

    /// Removes all keys of all databases; see [`flush`](Self::flush).
    pub fn flush_all(&self, wait: bool) -> Result<u64, Error> {
        self.flush(
            &std::array::from_fn::<usize, DATABASES, _>(|database| database),
            wait,
        )
    }
}

#[cfg(test)]
mod tests {
    use undercroft_memory::{Options, ShardSet};

    use super::*;
    use crate::structures::dictionary::{BUCKET, SLOTS};
    use crate::transaction::writer::Expiry;
    use crate::types::string::hot::{Condition, SetOptions};

    /// A store in which the only bucket of shard 0 leads to itself.
    fn looped(keys: u32) -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let options = Options {
            capacity: Some(8 << 20),
            shards: Some(1),
            ring: None,
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
        store.set_time(1000);
        for key in 0..keys {
            let options = SetOptions {
                condition: Condition::Always,
                expiry: Expiry::At(2000),
            };
            let key = key.to_le_bytes();
            store.set_with(0, &key, b"value", options).expect("room");
        }
        let link = BUCKET - 8;
        store
            .write(ShardSet::one(0), |writer| {
                let root = Root {
                    shard: 0,
                    database: 0,
                };
                let bucket = root.get(writer.view(), TABLE);
                let tags = writer.view().word(bucket)? & (u64::MAX >> 8);
                writer
                    .transaction
                    .store(0, bucket, tags | 1 << (SLOTS * 8))?;
                writer.transaction.store(0, bucket + link, bucket)?;
                Ok::<_, Error>(())
            })
            .expect("damage");
        (directory, store)
    }

    #[test]
    fn a_chain_that_leads_to_itself_ends_a_flush_with_an_error() {
        for keys in [1, 4] {
            let (_directory, store) = looped(keys);
            // Where something stays in the shard, what goes is freed one by one.
            store.set(1, b"stays", b"value").expect("room");
            let freed = store.flush(&[0], true);
            assert!(matches!(freed, Err(Error::Memory(_))), "{freed:?}");
        }
    }

    #[test]
    fn a_chain_that_leads_to_itself_ends_a_sweep() {
        for keys in [1, 4] {
            let (_directory, store) = looped(keys);
            assert_eq!(store.sweep(100).expect("nothing has expired"), 0);
            // Then they are looked up, and the look-up sees the circle.
            store.set_time(3000);
            let swept = store.sweep(100);
            assert!(matches!(swept, Err(Error::Memory(_))), "{swept:?}");
        }
    }
}
