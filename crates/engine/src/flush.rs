//! Emptying databases: the dictionaries are cut off at once and freed in
//! bounded steps (W8, W9).
//!
//! ```text
//! a dictionary that is being freed, 64 bytes:
//! | next one | table | its bits | next bucket | other table | its bits | unused |
//! ```

use undercroft_memory::{Offset, ShardSet, View};

use crate::access::Access;
use crate::dictionary::{CHAIN_MAX, Table, chain_fault, load_bucket};
use crate::entry::Entry;
use crate::error::Error;
use crate::roots::{
    BITS, DATABASE_WORDS, DATABASES, DYING, KEYS, MOVED, NEXT_BITS, NEXT_TABLE, PREPARED, Root,
    TABLE,
};
use crate::store::Store;
use crate::writer::Writer;

const RECORD: u64 = 64;
const NEXT: u64 = 0;
const MAIN: u64 = 8;
const MAIN_BITS: u64 = 16;
const CURSOR: u64 = 24;
const OTHER: u64 = 32;
const OTHER_BITS: u64 = 40;

/// Buckets freed in one transaction when somebody waits for all of it.
const STEP: u64 = 64;

pub(crate) fn is_dying(view: &View<'_>, shard: usize) -> bool {
    view.root(shard, DYING) != 0
}

/// Cuts one database's dictionary off in one shard.
fn detach(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    let view = writer.view();
    let table = root.get(view, TABLE);
    if table == 0 {
        return Ok(());
    }
    let bits = root.get(view, BITS);
    let next = root.get(view, NEXT_TABLE);
    let next_bits = root.get(view, NEXT_BITS);
    // An other table that is not yet in use holds nothing but may be freed.
    let in_use = next != 0 && root.get(view, PREPARED) == 1 << next_bits.min(63);
    let cursor = if in_use { root.get(view, MOVED) } else { 0 };
    let first = view.root(root.shard, DYING);
    let record = writer.transaction.allocate(root.shard, RECORD)?;
    let fields = [
        first,
        table,
        bits,
        cursor,
        if in_use { next } else { 0 },
        next_bits,
    ];
    for (word, value) in fields.into_iter().enumerate() {
        writer
            .transaction
            .fill_word(record + word as u64 * 8, value)?;
    }
    if next != 0 && !in_use {
        writer.transaction.free(root.shard, next);
    }
    writer.transaction.set_root(root.shard, DYING, record)?;
    writer.all_changed(root)?;
    for word in 0..DATABASE_WORDS {
        if root.get(writer.view(), word) != 0 {
            root.set(writer.transaction, word, 0)?;
        }
    }
    Ok(())
}

/// Frees up to so many buckets of the first dictionary that is being freed.
pub(crate) fn free_a_little(
    writer: &mut Writer<'_, '_>,
    shard: usize,
    buckets: u64,
) -> Result<(), Error> {
    let record = writer.view().root(shard, DYING);
    if record == 0 {
        return Ok(());
    }
    let [next, at, bits, cursor, other, other_bits] = writer.view().words::<6>(record)?;
    let table = Table {
        at,
        bits: bits.min(40),
    };
    let end = cursor.saturating_add(buckets).min(table.buckets());
    for index in cursor..end {
        free_chain(writer, shard, table.bucket(index))?;
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
    writer.transaction.set_root(shard, DYING, next)?;
    writer.transaction.free(shard, record);
    Ok(())
}

fn free_chain(writer: &mut Writer<'_, '_>, shard: usize, home: Offset) -> Result<(), Error> {
    let mut at = home;
    for _ in 0..CHAIN_MAX {
        let bucket = load_bucket(writer.view(), at)?;
        for entry in bucket.entries.into_iter().filter(|&entry| entry != 0) {
            let entry = Entry::load(writer.view(), entry)?;
            writer.discard_value(shard, &entry)?;
            writer.transaction.free(shard, entry.at);
        }
        if at != home {
            writer.transaction.free(shard, at);
        }
        if bucket.next == 0 {
            return Ok(());
        }
        at = bucket.next;
    }
    Err(chain_fault(home).into())
}

/// The blocks of the dictionaries that are being freed, for the check.
pub(crate) fn for_each_dying(
    view: &View<'_>,
    shard: usize,
    mut visit: impl FnMut(Offset, &[(Table, u64)]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut record = view.root(shard, DYING);
    while record != 0 {
        let [next, at, bits, cursor, other, other_bits] = view.words::<6>(record)?;
        let mut tables = vec![(
            Table {
                at,
                bits: bits.min(40),
            },
            cursor,
        )];
        if other != 0 {
            let bits = other_bits.min(40);
            tables.push((Table { at: other, bits }, 0));
        }
        visit(record, &tables)?;
        record = next;
    }
    Ok(())
}

impl Store {
    /// Removes all keys of some databases at one moment. With `wait`, also
    /// frees their memory before it returns; otherwise later writers and
    /// [`sweep`](Store::sweep) do, in small steps. Returns the number of keys
    /// removed.
    pub fn flush(&self, databases: &[usize], wait: bool) -> Result<u64, Error> {
        self.access().flush(databases, wait)
    }

    /// Frees all that flushes left, where nobody else holds the locks.
    pub(crate) fn free_flushed(&self) -> Result<(), Error> {
        for shard in self.all_shards().iter() {
            loop {
                let dying = self.write(ShardSet::one(shard), |writer| {
                    free_a_little(writer, shard, STEP)?;
                    Ok::<_, Error>(is_dying(writer.view(), shard))
                });
                match dying {
                    Ok(true) => {}
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
        let shards = self.all_shards();
        let removed = self.write(shards, |writer| {
            let mut removed = 0;
            for shard in shards.iter() {
                for &database in databases {
                    let root = Root { shard, database };
                    removed += root.get(writer.view(), KEYS);
                    detach(writer, root)?;
                }
            }
            Ok::<_, Error>(removed)
        })?;
        match self.running {
            _ if !wait => {}
            Some(running) => running.free_after_commit(),
            None => self.store.free_flushed()?,
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

const _: () = assert!(NEXT == 0 && OTHER_BITS + 8 <= RECORD);

#[cfg(test)]
mod tests {
    use undercroft_memory::Options;

    use super::*;
    use crate::dictionary::{BUCKET, SLOTS};
    use crate::hot::{Condition, SetOptions};
    use crate::writer::Expiry;

    /// A store in which the only bucket of shard 0 leads to itself.
    fn looped(keys: u32) -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in /dev/shm");
        let options = Options {
            capacity: Some(8 << 20),
            shards: Some(1),
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
            let freed = store.flush_all(true);
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
