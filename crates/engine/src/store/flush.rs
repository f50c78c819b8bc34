//! FLUSHDB and FLUSHALL: all keys of the databases are removed in one transaction, and their memory
//! is freed later in bounded steps (W8).

use undercroft_memory::{View, defer_signals, removing};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::byte_queue::BACKLOG_QUEUE;
use crate::structures::roots::{DATABASES, DYING, KEYS, Root, TABLE, hidden, loading};
use crate::transaction::access::Access;
use crate::transaction::change_log::is_logged;
use crate::transaction::outbox::Post;
use crate::transaction::writer::Writer;
use crate::upkeep::graveyard::{clear, detach_unseen};
use crate::upkeep::reclaim::Locked;

/// The maximum number of freeing steps that a flush runs itself, in addition to one step in each
/// shard. These steps take a few milliseconds.
const AT_ONCE: usize = 64;

/// Removes all keys of the given databases from a shard. Returns the number of removed keys. O(1).
pub(crate) fn empty(
    writer: &mut Writer<'_, '_>,
    shard: usize,
    databases: &[usize],
) -> Result<u64, Error> {
    if shard == 0 {
        // As in Redis, trackers are told even if there are no keys.
        for &database in databases {
            writer.record_all_keys(Root { shard, database });
        }
    }
    let keys =
        |writer: &Writer<'_, '_>, database| Root { shard, database }.get(writer.view(), KEYS);
    let removed = databases
        .iter()
        .map(|&database| keys(writer, database))
        .sum();
    let all = || (0..DATABASES).chain(hidden()).chain(loading());
    let stays = all().any(|database| !databases.contains(&database) && keys(writer, database) > 0)
        || has_queue(writer.view(), shard);
    if removed == 0 || stays || !writer.transaction.leave_behind(shard, removed)? {
        for &database in databases {
            detach(writer, Root { shard, database })?;
        }
        return Ok(removed);
    }
    // No live structure in the shard refers to the abandoned memory. The graveyard, the queue of
    // large values to free, is abandoned too.
    for database in all() {
        let root = Root { shard, database };
        if databases.contains(&database) && root.get(writer.view(), TABLE) != 0 {
            writer.emptied(root)?;
        }
        clear(writer, root)?;
    }
    writer.transaction.set_root(shard, DYING, 0)?;
    Ok(removed)
}

/// Returns whether a shard has a queue of bytes for replicas.
fn has_queue(view: &View<'_>, shard: usize) -> bool {
    is_logged(view, shard) || shard == 0 && BACKLOG_QUEUE.exists(view)
}

/// Detaches a database's dictionary in one shard, to be freed later.
fn detach(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    writer.forget_mailboxes(root.shard, root.database)?;
    if root.get(writer.view(), TABLE) == 0 {
        // Shard 0 logs each time that a database is emptied in all shards.
        return match root.shard {
            0 if is_logged(writer.view(), 0) => writer.emptied(root),
            _ => Ok(()),
        };
    }
    writer.emptied(root)?;
    detach_unseen(writer, root)
}

impl Store {
    /// Removes all keys of the given databases in one transaction, and returns their number. With
    /// `wait`, also frees the keys' memory before returning: all of it if there is little,
    /// otherwise a part. Upkeep frees the rest in small steps.
    pub fn flush(&self, databases: &[usize], wait: bool) -> Result<u64, Error> {
        self.access().flush(databases, wait)
    }

    /// Frees the memory of flushed databases: all of it if there is little, otherwise a part, so
    /// that other processes do not wait long for the locks. Skips a shard whose lock cannot be
    /// acquired.
    pub(crate) fn free_flushed(&self) -> Result<(), Error> {
        let _deferred = defer_signals();
        let mut left = AT_ONCE;
        for shard in self.all_shards().iter() {
            loop {
                match self.reclaim_step(shard, Locked::Wait) {
                    Ok(true) if left == 0 => break,
                    Ok(true) => left -= 1,
                    Ok(false) => break,
                    // The keys are already removed, and the holder of the lock frees the remaining
                    // memory.
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
    /// Removes all keys of the given databases; see [`Store::flush`]. Within a transaction, memory
    /// is freed after the commit.
    pub fn flush(&self, databases: &[usize], wait: bool) -> Result<u64, Error> {
        self.flush_and(databases, wait, |_| Ok(()))
    }

    /// Removes all keys of the given databases like [`flush`](Self::flush), and calls `also` before
    /// the commit, while all locks are held.
    pub(crate) fn flush_and(
        &self,
        databases: &[usize],
        wait: bool,
        also: impl Fn(&mut Writer<'_, '_>) -> Result<(), Error> + Sync,
    ) -> Result<u64, Error> {
        let shards = self.all_shards();
        let _removing = removing();
        let removed = self.write(shards, |writer| {
            let mut removed = 0;
            for shard in shards.iter() {
                removed += empty(writer, shard, databases)?;
            }
            also(writer)?;
            Ok::<_, Error>(removed)
        })?;
        match self.running {
            _ if !wait => {}
            Some(running) => running.post(Post::Flushed),
            None => {
                // The keys are already removed, so ignore errors from the cleanup.
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

    /// Creates a store in which the only bucket of shard 0 links to itself.
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
    fn cyclic_bucket_chain_makes_a_flush_fail() {
        for keys in [1, 4] {
            let (_directory, store) = looped(keys);
            // The shard also contains a key of another database, so the flush must free the keys of
            // this database one by one.
            store.set(1, b"stays", b"value").expect("room");
            let freed = store.flush(&[0], true);
            assert!(matches!(freed, Err(Error::Memory(_))), "{freed:?}");
        }
    }

    #[test]
    fn cyclic_bucket_chain_makes_a_sweep_fail() {
        for keys in [1, 4] {
            let (_directory, store) = looped(keys);
            assert_eq!(store.sweep(100).expect("nothing has expired"), 0);
            // The keys have expired, so the sweep looks them up and detects the cycle.
            store.set_time(3000);
            let swept = store.sweep(100);
            assert!(matches!(swept, Err(Error::Memory(_))), "{swept:?}");
        }
    }
}
