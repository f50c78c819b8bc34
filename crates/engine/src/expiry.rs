//! Removing expired keys that nobody asks for (M1).
//!
//! Each insertion looks at one bucket of its dictionary, so that a busy store
//! keeps itself clean without a daemon; [`Store::sweep`] does the same in
//! larger steps for a server's timer.

use undercroft_memory::ShardSet;

use crate::dictionary::{self, Dictionary, Table, Tables, load_bucket};
use crate::entry::Entry;
use crate::error::Error;
use crate::flush;
use crate::roots::{DATABASES, EXPIRES, KEYS, Root, SWEEP};
use crate::store::{Store, hash};
use crate::writer::{Found, Writer};

/// Free memory that a store keeps in any case, in bytes.
const KEPT_FREE: u64 = 64 << 20;
/// Entries and buckets looked at in one chain at most.
const CHAIN_ENTRIES_MAX: usize = 64;

/// Looks at one bucket where some key of the dictionary expires.
pub(crate) fn sweep_a_little(writer: &mut Writer<'_, '_>, root: Root) -> Result<(), Error> {
    if root.get(writer.view(), EXPIRES) == 0 {
        return Ok(());
    }
    sweep_bucket(writer, root).map(drop)
}

/// Removes the expired keys of the next bucket. Returns how many.
fn sweep_bucket(writer: &mut Writer<'_, '_>, root: Root) -> Result<usize, Error> {
    let Some(tables) = root.tables(writer.view())? else {
        return Ok(0);
    };
    let cursor = root.get(writer.view(), SWEEP);
    root.set(writer.transaction, SWEEP, cursor.wrapping_add(1))?;
    let now = writer.now();
    let mut expired = Vec::new();
    let mut seen = 0;
    let home = bucket_number(&tables, cursor);
    let mut at = home;
    while at != 0 && seen < CHAIN_ENTRIES_MAX {
        let bucket = load_bucket(writer.view(), at)?;
        // A bucket counts, too: a damaged chain of empty ones may be a circle.
        seen += 1;
        for entry in bucket.entries.into_iter().filter(|&entry| entry != 0) {
            seen += 1;
            let entry = Entry::load(writer.view(), entry)?;
            if entry
                .expiry(writer.view())?
                .is_some_and(|expiry| expiry <= now)
            {
                let mut key = Vec::new();
                entry.append_key(writer.view(), &mut key)?;
                expired.push(key);
            }
        }
        at = bucket.next;
    }
    let secret = writer.transaction.hash_key();
    for bytes in &expired {
        let key = crate::store::Key {
            bytes,
            hash: hash(secret, bytes),
            shard: root.shard,
        };
        if let Some((slot, entry)) = dictionary::find_slot(writer.view(), root, &key)? {
            writer.remove_found(root, Found { slot, entry })?;
            writer.expired(root.database, &key);
        }
    }
    Ok(expired.len())
}

/// The bucket that a running number stands for, over both tables.
fn bucket_number(tables: &Tables, number: u64) -> u64 {
    let index = number & (tables.main.buckets() - 1);
    match tables.other {
        // A moved bucket's entries are in the other table: in one bucket where
        // it is smaller, in two where it is larger; both come up in turn.
        Some((other, moved)) if index < moved => other.bucket(number),
        _ => Table::bucket(tables.main, index),
    }
}

impl Store {
    /// Goes on with the bounded work that otherwise insertions do: removes
    /// expired keys, evicts what the memory limit does not allow, frees flushed
    /// dictionaries, resizes, lets all shards have what one has freed, and gives
    /// memory back to the system where much is
    /// free. Looks at about
    /// `buckets` buckets in every shard that has something to do, and passes
    /// over those that are locked for longer than the patience. Returns how
    /// many expired keys it removed.
    pub fn sweep(&self, buckets: u64) -> Result<usize, Error> {
        match self.check_memory() {
            // A full store that evicts nothing is for the writers to hear of.
            Err(Error::MaxMemory) => {}
            Err(error) if error.is_busy() => {}
            checked => checked?,
        }
        self.sweep_all(buckets, true)
    }

    /// What [`sweep`](Self::sweep) does beside removing and evicting keys: for
    /// a time in which the data are to stay as they are.
    pub fn tidy(&self, buckets: u64) -> Result<(), Error> {
        self.sweep_all(buckets, false).map(drop)
    }

    fn sweep_all(&self, buckets: u64, removes: bool) -> Result<usize, Error> {
        let mut removed = 0;
        // Freed memory stays warm for reuse, up to a point (H5).
        let keep = KEPT_FREE.max(self.used_memory() / 4);
        if self.statistics().free > keep {
            self.segment.trim(keep)?;
        }
        for shard in 0..self.shards() {
            match self.sweep_shard(shard, buckets, removes) {
                Ok(count) => removed += count,
                Err(error) if error.is_busy() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    fn sweep_shard(&self, shard: usize, buckets: u64, removes: bool) -> Result<usize, Error> {
        let due = self.read(ShardSet::one(shard), |reader| {
            let view = reader.view();
            let expiring =
                (0..DATABASES).filter(|&database| Root { shard, database }.get(view, EXPIRES) != 0);
            let dying = flush::is_dying(view, shard);
            Ok::<_, Error>((expiring.collect::<Vec<_>>(), dying))
        })?;
        let (databases, dying) = due;
        let mut removed = 0;
        for &database in &databases {
            removed += self.write(ShardSet::one(shard), |writer| {
                let root = Root { shard, database };
                let mut removed = 0;
                if removes {
                    for _ in 0..buckets {
                        removed += sweep_bucket(writer, root)?;
                    }
                }
                if root.get(writer.view(), KEYS) > 0 {
                    dictionary::resize_step(writer.transaction, root)?;
                }
                Ok::<_, Error>(removed)
            })?;
        }
        if dying {
            self.write(ShardSet::one(shard), |writer| {
                flush::free_a_little(writer, shard, buckets)
            })?;
        }
        self.segment.give_back(shard)?;
        Ok(removed)
    }
}
