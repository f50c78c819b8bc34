//! The end of a look-up: the use of the key is noted, or that it is missing; expired keys that were met are removed.

use std::sync::atomic::Ordering;
use std::time::Duration;

use undercroft_memory::{defer_signals, limit_patience, unix_milliseconds};

use crate::error::Error;
use crate::handle::expired_seen;
use crate::handle::store::Store;
use crate::structures::key::Key;
use crate::transaction::access::Access;

/// Keys removed in one transaction.
const STEP: usize = 32;
/// How long a command that met expired keys waits for the lock to remove them.
const MOMENT: Duration = Duration::from_micros(100);

impl Store {
    /// Whether this thread met expired keys that are still there.
    #[inline]
    pub fn met_expired() -> bool {
        expired_seen::has_any()
    }

    /// Ends a typed call that looked for a key, as a command ends that looked for it.
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

    /// Leaves expired keys where they are until a time in Unix milliseconds, though no one finds them, for this
    /// process; 0 removes them again. What a pause of clients asks for.
    pub fn keep_expired_until(&self, time: u64) {
        self.expired_stay.store(time, Ordering::Relaxed);
    }

    /// Whether expired keys are left where they are.
    pub fn keeps_expired(&self) -> bool {
        let until = self.expired_stay.load(Ordering::Relaxed);
        until != 0 && until > unix_milliseconds()
    }

    /// Removes the expired keys that reads of this thread met. Returns how many
    /// were still there and have expired.
    pub fn remove_met(&self) -> Result<u64, Error> {
        self.access().remove_met()
    }
}

impl Access<'_> {
    /// Ends the look-up of a key, whoever asked for it: its use is noted, or it is told that it is not there.
    #[inline(always)]
    pub fn looked_up(&self, database: usize, key: &Key<'_>, found: bool) {
        if found {
            self.note_use(key);
        } else {
            self.missed(database, key);
        }
    }

    /// [`looked_up`](Self::looked_up) for a key that is not there.
    #[cold]
    pub fn missed(&self, database: usize, key: &Key<'_>) {
        // A process whose keys are all absent learns here that the file was removed. Under locks no system call is made
        // (W9), and a write has looked before it took them.
        if self.running.is_none() {
            self.store.look_for_file();
        }
        if self.tells_of_misses() {
            // That it has expired is told first.
            self.end_command();
            self.tell_miss(database, key.bytes);
        }
    }

    /// Ends a command: the expired keys that it met are removed, as Redis does at once. A look at a flag of this thread
    /// where it met none.
    #[inline]
    pub fn end_command(&self) {
        if Store::met_expired() {
            // Where the lock is held or the store is damaged, the next writer will do it, or say so: a read waits for nobody
            // (R9).
            let _limited = limit_patience(MOMENT);
            let _ = self.remove_met();
        }
    }

    /// Removes the expired keys that reads of this thread met; see
    /// [`Store::remove_met`]. Within a transaction only those whose shards it
    /// has locked, and where that fails nothing of it stays.
    pub fn remove_met(&self) -> Result<u64, Error> {
        let met = expired_seen::take();
        // Done behind a command, whose reply stands.
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

    /// A store in which these keys of a database have expired and are still there.
    fn with_expired(database: usize, keys: &[&[u8]]) -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let path = directory.path().join("store");
        let store = Store::create(&path, &Options::default()).expect("a new store");
        // Upkeep behind a command would be faster.
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
    fn what_a_read_met_is_removed_unless_it_lives_again() {
        let names: Vec<[u8; 1]> = (0..100).map(|number| [number]).collect();
        let keys: Vec<&[u8]> = names.iter().map(<[u8; 1]>::as_slice).collect();
        let (_directory, store) = with_expired(0, &keys);
        let mut out = Vec::new();
        for number in 0..100_u8 {
            // As a command reads, which has them removed once it has replied.
            assert!(!store.access().get(0, &[number], &mut out).expect("read"));
        }
        assert_eq!(store.count_keys(0).expect("counted"), 100);
        store.set(0, &[7], b"again").expect("set");
        assert!(Store::met_expired());
        // The insertion swept some of them away.
        let removed = store.remove_met().expect("removed");
        assert!((1..100).contains(&removed), "{removed}");
        assert!(!Store::met_expired());
        assert_eq!(store.count_keys(0).expect("counted"), 1);
        assert!(store.get(0, &[7], &mut out).expect("read"));
    }

    #[test]
    fn a_typed_call_removes_what_it_met() {
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
    fn a_walk_meets_them_too() {
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
