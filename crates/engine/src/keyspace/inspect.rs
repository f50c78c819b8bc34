//! Statistics about keys that commands report: memory usage and key counts.

use undercroft_memory::View;

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::dictionary::table_bytes;
use crate::structures::entry::{Entry, Form};
use crate::structures::roots::{EXPIRES, KEYS, Root};
use crate::transaction::access::Access;

/// Each key's share of its bucket in bytes, for buckets that are two thirds full.
const BUCKET_SHARE: u64 = 14;

impl Entry {
    /// Returns the total memory usage of the key in bytes: its block, the separate block of its
    /// value, its elements, and its share of a bucket. For a hash, set or sorted set, the size of
    /// the elements is estimated from about `samples` elements, or computed from all elements if
    /// `samples` is 0. A collection of about 64 KiB or more has its own arena (a separate memory
    /// area) of known size, so the time depends neither on its length nor on `samples`.
    pub fn memory_usage(&self, view: &View<'_>, samples: u64) -> Result<u64, Error> {
        let value = match self.header.form() {
            // A string that has grown has spare room at its end, so count the entire block and not
            // only the length of the string.
            Some(Form::Block) => view.block_bytes(view.word(self.value_at())?)?,
            Some(Form::Object) => self.object()?.memory_usage(view, self, samples)?,
            _ => 0,
        };
        Ok(view
            .block_bytes(self.at)?
            .saturating_add(value)
            .saturating_add(BUCKET_SHARE))
    }
}

impl Access<'_> {
    /// Returns the number of keys in a database; see [`Store::count_keys`].
    pub fn count_keys(&self, database: usize) -> Result<u64, Error> {
        self.sum(database, KEYS)
    }

    /// Returns the number of keys in a database that have an expiry.
    pub fn expiring_keys(&self, database: usize) -> Result<u64, Error> {
        self.sum(database, EXPIRES)
    }

    /// Returns the size in bytes of a database's hash tables, excluding overflow buckets. O(number
    /// of shards).
    pub fn table_bytes(&self, database: usize) -> Result<u64, Error> {
        let shards = self.all_shards();
        self.read(shards, |reader| {
            shards.iter().try_fold(0u64, |sum, shard| {
                let bytes = table_bytes(reader.view(), Root { shard, database })?;
                Ok(sum.saturating_add(bytes))
            })
        })
    }

    fn sum(&self, database: usize, word: usize) -> Result<u64, Error> {
        let shards = self.all_shards();
        self.read(shards, |reader| {
            let counts = shards
                .iter()
                .map(|shard| Root { shard, database }.get(reader.view(), word));
            Ok(counts.fold(0, u64::saturating_add))
        })
    }
}

impl Store {
    /// Returns the number of keys in a database, counted in all shards at the same moment. Includes
    /// expired keys that have not been removed yet. O(number of shards).
    pub fn count_keys(&self, database: usize) -> Result<u64, Error> {
        self.access().count_keys(database)
    }
}

#[cfg(test)]
mod tests {
    use undercroft_memory::{Options, coarse_milliseconds};

    use super::*;
    use crate::structures::key::Key;
    use crate::transaction::writer::Expiry;

    #[test]
    fn memory_usage_and_idle_time_are_reported() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        let (small, large) = (store.key(b"small"), store.key(b"large"));
        for (key, length) in [(&small, 10), (&large, 100_000)] {
            store
                .set(0, key.bytes(), &vec![b'x'; length])
                .expect("the value is set");
        }
        let usage = |key: &Key<'_>| {
            store.read(store.shards_of([key]), |reader| {
                let entry = reader.find(0, key)?.expect("the key exists");
                entry.memory_usage(reader.view(), 5)
            })
        };
        let (few, many) = (usage(&small).expect("read"), usage(&large).expect("read"));
        assert!((24..100).contains(&few), "{few}");
        assert!((100_000..110_000).contains(&many), "{many}");
        assert_eq!(store.count_keys(0).expect("counted"), 2);
        assert_eq!(store.count_keys(1).expect("counted"), 0);
        let tables = |database| store.access().table_bytes(database).expect("read");
        assert!(tables(0) >= 64 && tables(0) % 64 == 0, "{}", tables(0));
        assert_eq!(tables(1), 0);

        // The coarse clock starts at boot, which may have been less than 100 seconds ago.
        let age = (coarse_milliseconds() / 1000).min(100);
        store.set_idle_seconds(&small, age);
        let idle = store.idle_seconds(&small);
        // Access times are stored in clock ticks, and a second is not a multiple of a tick.
        assert!((age.saturating_sub(1)..age + 60).contains(&idle), "{idle}");
    }

    #[test]
    fn numeric_text_can_be_stored_as_text() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        let key = store.key(b"k");
        let encoding = |as_text: bool| {
            let entry = store.write(store.shards_of([&key]), |writer| {
                if as_text {
                    writer.set_text(0, &key, b"12", Expiry::Never)?;
                } else {
                    writer.set(0, &key, b"12", Expiry::Never)?;
                }
                writer.find(0, &key)
            });
            let entry = entry.expect("the value is set").expect("the key exists");
            entry.encoding().expect("a known encoding").name()
        };
        assert_eq!((encoding(false), encoding(true)), ("int", "embstr"));
    }
}
