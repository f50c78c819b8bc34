//! The end of a lookup, which records the key's use or reports the miss, and removes the expired
//! keys that the lookup found.

use std::sync::atomic::Ordering;
use std::time::Duration;

use undercroft_memory::{defer_signals, limit_patience, unix_milliseconds};

use crate::error::Error;
use crate::handle::expired_seen;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::access::Access;

/// The maximum number of expired keys that one transaction removes.
const STEP: usize = 32;
/// The maximum time that a command waits for a lock to remove the expired keys that it found.
const MOMENT: Duration = Duration::from_micros(100);

impl Store {
    /// Returns whether this thread remembers expired keys that may still exist.
    #[inline]
    pub fn met_expired() -> bool {
        expired_seen::has_any()
    }

    /// Ends a lookup by a typed call, in the same way as a lookup by a command.
    #[inline(always)]
    pub fn looked_up(&self, database: usize, key: &Key<'_>, found: bool) {
        if found {
            self.touch(key);
        } else {
            self.end_missed(database, key);
        }
    }

    #[cold]
    fn end_missed(&self, database: usize, key: &Key<'_>) {
        self.access().missed(database, key);
        self.access().end_command();
    }

    /// Stops this process from removing expired keys until the given Unix time in milliseconds.
    /// Lookups still treat these keys as missing. 0 resumes the removal. CLIENT PAUSE uses this.
    pub fn keep_expired_until(&self, time: u64) {
        self.expired_stay.store(time, Ordering::Relaxed);
    }

    /// Returns whether the removal of expired keys is currently stopped. A replica never removes them
    /// itself.
    pub fn keeps_expired(&self) -> bool {
        if self.refuses_expiry() {
            return true;
        }
        let until = self.expired_stay.load(Ordering::Relaxed);
        until != 0 && until > unix_milliseconds()
    }

    /// Removes the expired keys that this thread's reads found. Returns the number of these keys
    /// that still existed and had expired.
    pub fn remove_met(&self) -> Result<u64, Error> {
        self.access().remove_met()
    }
}

impl Access<'_> {
    /// Ends the lookup of a key: records a use of the key, or reports that the key does not exist.
    #[inline(always)]
    pub fn looked_up(&self, database: usize, key: &Key<'_>, found: bool) {
        if found {
            self.note_use(key);
        } else {
            self.missed(database, key);
        }
    }

    /// Ends the lookup of a key that does not exist; see [`looked_up`](Self::looked_up).
    #[cold]
    pub fn missed(&self, database: usize, key: &Key<'_>) {
        // A process whose lookups all miss detects a removed file at this point. No system call is
        // made under locks (W9), and a write has already checked before it acquired its locks.
        if self.running.is_none() {
            self.store.look_for_file();
        }
        if self.tells_of_misses() {
            // Remove the expired key first, so that its expiry is reported before the miss.
            self.end_command();
            self.tell_miss(database, key.bytes);
        }
    }

    /// Ends a command by removing the expired keys that it found, which Redis does immediately. If
    /// it found none, only checks a flag of this thread.
    #[inline]
    pub fn end_command(&self) {
        if Store::met_expired() {
            // If a lock is held or the store is damaged, leave the removal to the next writer,
            // because a read must not wait for other processes (R9).
            let _limited = limit_patience(MOMENT);
            let _ = self.remove_met();
        }
    }

    /// Removes the expired keys that this thread's reads found; see [`Store::remove_met`]. Within a
    /// transaction, removes only keys in the transaction's locked shards, and rolls back a failed
    /// removal.
    pub fn remove_met(&self) -> Result<u64, Error> {
        let met = expired_seen::take();
        // The command has already completed, so a signal must not change its reply.
        let _deferred = defer_signals();
        if met.is_empty() || !self.store.writable() || self.store.keeps_expired() {
            return Ok(0);
        }
        let within = |key: &Key<'_>| {
            self.running
                .is_none_or(|running| running.shards().contains(key.shard()))
        };
        let mut removed = 0;
        for some in met.chunks(STEP) {
            let keys = some
                .iter()
                .map(|(database, key)| (*database, self.key(key)));
            let (databases, keys): (Vec<usize>, Vec<Key<'_>>) =
                keys.filter(|(_, key)| within(key)).unzip();
            let databases = || databases.iter().copied();
            let remove = || {
                self.write(self.shards_of(&keys), |writer| {
                    let mut removed = 0;
                    for (database, key) in databases().zip(&keys) {
                        removed += u64::from(writer.remove_expired(database, key)?);
                    }
                    Ok::<_, Error>(removed)
                })
            };
            removed += self.attempt(remove)??;
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use undercroft_memory::Options;

    use super::*;
    use crate::transaction::writer::Expiry;
    use crate::types::string::hot::{Condition, SetOptions};

    /// Creates a store in which the given keys of a database have expired but have not been
    /// removed.
    fn with_expired(database: usize, keys: &[&[u8]]) -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        // Prevent the upkeep after a command from removing the keys first.
        store.leave_upkeep_to_a_timer();
        store.set_time(1000);
        let options = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(2000),
        };
        for key in keys {
            store.set_with(database, key, b"v", options).expect("set");
        }
        store.set_time(3000);
        (directory, store)
    }

    #[test]
    fn expired_keys_found_by_reads_are_removed_unless_set_again() {
        let names: Vec<[u8; 1]> = (0..100).map(|number| [number]).collect();
        let keys: Vec<&[u8]> = names.iter().map(<[u8; 1]>::as_slice).collect();
        let (_directory, store) = with_expired(0, &keys);
        let mut out = Vec::new();
        for number in 0..100_u8 {
            // Read as a command does, which removes expired keys only after its reply.
            assert!(!store.access().get(0, &[number], &mut out).expect("read"));
        }
        assert_eq!(store.count_keys(0).expect("counted"), 100);
        store.set(0, &[7], b"again").expect("set");
        assert!(Store::met_expired());
        // The sweep during the insertion has already removed some of the keys.
        let removed = store.remove_met().expect("removed");
        assert!((1..100).contains(&removed), "{removed}");
        assert!(!Store::met_expired());
        assert_eq!(store.count_keys(0).expect("counted"), 1);
        assert!(store.get(0, &[7], &mut out).expect("read"));
    }

    #[test]
    fn typed_call_removes_expired_keys_that_it_finds() {
        let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let (_directory, store) = with_expired(0, &keys);
        let left = || store.count_keys(0).expect("counted");
        assert!(!store.get(0, keys[0], &mut Vec::new()).expect("read"));
        assert_eq!(left(), 3);
        assert_eq!(store.expiry(0, keys[1]).expect("read"), None);
        assert_eq!(left(), 2);
        assert_eq!(store.exists(0, &keys).expect("read"), 0);
        assert_eq!(left(), 0);
    }

    #[test]
    fn walk_remembers_expired_keys() {
        let (_directory, store) = with_expired(3, &[b"old"]);
        assert!(
            store
                .keys_where(3, |_| Ok(true))
                .expect("walked")
                .is_empty()
        );
        assert_eq!(store.remove_met().expect("removed"), 1);
        assert_eq!(store.count_keys(3).expect("counted"), 0);
    }
}
