//! Eviction, which makes room when the store reaches `maxmemory` (M1).
//!
//! As in Redis, the keys to evict are chosen by sampling. Each round reads a few keys from one
//! shard without a lock and keeps the best candidates in a pool for the next round. The rounds
//! cycle through the shards. A lock, that of the key's shard, is taken only to remove a key, so the
//! work under a lock is bounded (W9) even for large values.

use std::time::{Duration, Instant};

use undercroft_memory::{ForkMutex, Offset, ShardSet, removing};

use crate::error::Error;
use crate::handle::events::KeyEvent;
use crate::handle::eviction_policy::{Eviction, EvictionPolicy, Measure};
use crate::handle::store::Store;
use crate::structures::dictionary;
use crate::structures::entry::Entry;
use crate::structures::key::Key;
use crate::structures::roots::{DATABASES, EXPIRES, KEYS, Root};
use crate::structures::walk::scan_bucket;
use crate::transaction::above::above;
use crate::transaction::access::Access;
use crate::transaction::effect::Effect;
use crate::transaction::writer::{Found, Writer};
use crate::upkeep::counters::Counters;
use crate::upkeep::graveyard;
use crate::upkeep::reclaim::Locked;

/// The maximum number of candidates kept for the next round.
const POOL: usize = 16;
/// The maximum number of buckets sampled in one read.
pub(crate) const BUCKETS: u64 = 64;
/// The time for which a command keeps evicting after it has evicted enough for the bytes that it
/// adds.
const AT_ONCE: Duration = Duration::from_micros(500);
/// A command evicts at least this multiple of the bytes that it adds, regardless of how long that
/// takes. Otherwise, data could grow faster than eviction removes it.
const TIMES_AS_MUCH: u64 = 2;
/// The number of consecutive rounds in which other processes take all candidates, after which the
/// command gives up.
const LOST_AT_ONCE: u64 = 100;
/// The number of evicted keys after which the clock is read again.
const LOOK_EVERY: u64 = 64;
/// The eviction score of an expired key.
pub(crate) const EXPIRED: u64 = u64::MAX;

/// A sampled key that may be evicted next.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) score: u64,
    pub(crate) database: usize,
    pub(crate) shard: usize,
    pub(crate) key: Vec<u8>,
    /// The offset at which the key's entry must still be, or 0 to accept any offset.
    pub(crate) at: Offset,
}

/// The best candidates so far, in ascending order of their scores.
#[derive(Debug, Default)]
pub(crate) struct EvictionPool {
    policy: EvictionPolicy,
    candidates: Vec<Candidate>,
    /// The position at which the search for keys with an expiry resumes if such keys are rare.
    position: u64,
    /// The shard to sample in the next round.
    shard: usize,
}

/// The eviction pool that all threads of a store handle share, kept in the handle.
#[derive(Debug, Default)]
pub(crate) struct Pool(ForkMutex<EvictionPool>);

impl EvictionPool {
    fn add(&mut self, candidate: Candidate) {
        let same =
            |other: &Candidate| other.database == candidate.database && other.key == candidate.key;
        self.candidates.retain(|other| !same(other));
        let place = self
            .candidates
            .partition_point(|other| other.score <= candidate.score);
        if self.candidates.len() == POOL {
            if place == 0 {
                return;
            }
            self.candidates.remove(0);
            self.candidates.insert(place - 1, candidate);
        } else {
            self.candidates.insert(place, candidate);
        }
    }
}

/// The outcome of one attempt to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvictionRound {
    /// A key was evicted, or memory of a flushed database was freed.
    Made,
    /// Other processes removed or changed every candidate, which may have made room.
    Lost,
    /// There was no key to evict.
    Nothing,
}

/// The outcome of trying to evict one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Evicted,
    /// The key no longer exists, or no longer qualifies for eviction.
    Void,
    /// The shard of the key is locked.
    Locked,
}

impl Store {
    /// Seeds the random choices that eviction and use counters make. For tests only.
    pub fn set_random(&self, seed: u64) {
        self.chance.seed(seed);
    }

    /// Makes room for a command that adds about `bytes` bytes. At the memory limit, evicts keys in
    /// proportion to `bytes`, as far as the policy allows. If usage is far below the limit, this
    /// takes only a few nanoseconds. Must not be called within a transaction.
    ///
    /// # Errors
    /// Returns [`Error::MaxMemory`] if the policy leaves no key to evict.
    #[inline]
    pub fn check_memory_for(&self, bytes: usize) -> Result<(), Error> {
        let limit = self.segment.max_memory();
        // As in Redis, the source keeps its replicas within the limit.
        if limit == 0 || self.applies_source() || self.segment.granted_bytes() <= limit {
            return Ok(());
        }
        if self.used_memory() > limit {
            return self.make_room(limit, bytes as u64);
        }
        Ok(())
    }

    /// Returns the eviction score of a key. The higher the score, the sooner the key is evicted.
    pub(crate) fn evictability(&self, measure: Measure, key: &Key<'_>, expiry: Option<u64>) -> u64 {
        match measure {
            Measure::Idle => self.idle_ticks(key),
            Measure::Frequency => u64::from(u8::MAX - self.frequency(key)),
            Measure::Deadline => u64::MAX - expiry.unwrap_or(u64::MAX),
            Measure::None => 0,
        }
    }

    /// Evicts keys until at most `limit` bytes are in use, for a command that adds about `brings`
    /// bytes. Frees at least twice that many bytes, regardless of how long that takes, and then
    /// continues for up to half a millisecond. Any remaining excess, for example after the limit
    /// was lowered, is left to later commands and to upkeep. Must not be called within a
    /// transaction.
    ///
    /// # Errors
    /// Returns [`Error::MaxMemory`] if there are no keys to evict.
    #[cold]
    pub fn make_room(&self, limit: u64, brings: u64) -> Result<(), Error> {
        let (start, least) = (Instant::now(), brings.saturating_mul(TIMES_AS_MUCH));
        self.make_room_until(limit, |evicted, freed| {
            evicted > 0 && freed >= least && evicted % LOOK_EVERY == 0 && start.elapsed() >= AT_ONCE
        })
    }

    pub(crate) fn make_room_until(
        &self,
        limit: u64,
        is_enough: impl Fn(u64, u64) -> bool,
    ) -> Result<(), Error> {
        let excess = self.used_memory().saturating_sub(limit);
        let Eviction {
            policy, samples, ..
        } = self.eviction();
        let over = || self.used_memory() > limit;
        if above(self).free_of_the_dead(self, &mut || !over())? && !over() {
            return Ok(());
        }
        if policy == EvictionPolicy::NoEviction {
            // Freeing values that were already removed, or removing expired keys, may make enough
            // room.
            while self.used_memory() > limit {
                if !self.reclaim(|| self.used_memory() <= limit)? {
                    return Err(Error::MaxMemory);
                }
            }
            return Ok(());
        }
        // If another thread is using the shared pool, use a private pool. It starts at a random
        // shard, so that evictions are spread over all shards.
        let mut own = EvictionPool {
            shard: self.chance.next() as usize % self.shards(),
            ..EvictionPool::default()
        };
        let mut shared = self.part::<Pool>().0.try_lock();
        let pool = shared.as_deref_mut().unwrap_or(&mut own);
        if pool.policy != policy {
            *pool = EvictionPool {
                policy,
                shard: pool.shard,
                ..EvictionPool::default()
            };
        }
        let (mut evicted, mut lost) = (0, 0);
        loop {
            let used = self.used_memory();
            let left = used.saturating_sub(limit);
            if left == 0 || is_enough(evicted, excess.saturating_sub(left)) {
                return Ok(());
            }
            match self.evict_one(pool, samples)? {
                EvictionRound::Made => (evicted, lost) = (evicted + 1, 0),
                EvictionRound::Lost if lost < LOST_AT_ONCE => lost += 1,
                EvictionRound::Lost | EvictionRound::Nothing => return Err(Error::MaxMemory),
            }
        }
    }

    /// Runs one step of eviction if the store uses more memory than the limit allows. Returns
    /// whether usage is still above the limit.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    pub(crate) fn evict_some(&self) -> Result<bool, Error> {
        let limit = self.max_memory();
        if limit == 0 || self.eviction().policy == EvictionPolicy::NoEviction {
            return Ok(false);
        }
        match self.check_memory_for(0) {
            Ok(()) => Ok(self.used_memory() > limit),
            // The policy leaves no key to evict. Writers get this error, and further steps of
            // upkeep would not find a key either.
            Err(Error::MaxMemory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Evicts one key, or frees part of the memory that a flush or a removal left.
    fn evict_one(&self, pool: &mut EvictionPool, samples: u64) -> Result<EvictionRound, Error> {
        // Free the memory of flushed databases before evicting a key, because that is fast and
        // loses no data.
        for shard in 0..self.shards() {
            if self.segment.has_remains(shard) && self.reclaim_step(shard, Locked::Skip)? {
                return Ok(EvictionRound::Made);
            }
        }
        let (mut locked, mut without) = (None, EvictionRound::Nothing);
        for _ in 0..self.shards() {
            let shard = pool.shard % self.shards();
            pool.shard = shard + 1;
            if self.segment.is_locked(shard) {
                locked = Some(shard);
                continue;
            }
            // Free the memory of removed values before evicting a key.
            if self.reclaim_step(shard, Locked::Skip)? {
                return Ok(EvictionRound::Made);
            }
            self.look_for_candidates(pool, shard, samples)?;
            // A candidate may have been used since it was sampled, so compute its score again.
            for _ in 0..=POOL {
                let Some(candidate) = pool.candidates.pop() else {
                    break;
                };
                let now = self.key(&candidate.key);
                let score = match pool.policy.measure() {
                    // For these keys, the removal itself checks the expiry.
                    Measure::Deadline => candidate.score,
                    _ if candidate.score == EXPIRED => EXPIRED,
                    measure => self.evictability(measure, &now, None),
                };
                if score < candidate.score
                    && pool
                        .candidates
                        .last()
                        .is_some_and(|next| next.score > score)
                {
                    pool.add(Candidate { score, ..candidate });
                    continue;
                }
                match self.evict(pool.policy, &candidate, false)? {
                    Attempt::Evicted => return Ok(EvictionRound::Made),
                    Attempt::Void => without = EvictionRound::Lost,
                    Attempt::Locked => locked = Some(candidate.shard),
                }
            }
        }
        // Every candidate is in a locked shard, so wait for one of these shards' locks.
        let Some(shard) = locked else {
            return Ok(without);
        };
        self.look_for_candidates(pool, shard, samples)?;
        while let Some(candidate) = pool.candidates.pop() {
            match self.evict(pool.policy, &candidate, true)? {
                Attempt::Evicted => return Ok(EvictionRound::Made),
                Attempt::Void | Attempt::Locked => without = EvictionRound::Lost,
            }
        }
        Ok(without)
    }

    /// Removes a candidate if it still qualifies for eviction.
    pub(crate) fn evict(
        &self,
        policy: EvictionPolicy,
        candidate: &Candidate,
        wait: bool,
    ) -> Result<Attempt, Error> {
        let key = self.key(&candidate.key);
        if !wait && self.segment.is_locked(key.shard) {
            return Ok(Attempt::Locked);
        }
        let _removing = removing();
        let evicted = self.write(ShardSet::one(key.shard), |writer| {
            writer.evict(candidate, &key, policy.only_expiring())
        });
        match evicted {
            Ok(true) => {
                self.part::<Counters>().count_evicted();
                Ok(Attempt::Evicted)
            }
            Ok(false) => Ok(Attempt::Void),
            Err(error) if error.is_busy() && !wait => Ok(Attempt::Locked),
            Err(error) => Err(error),
        }
    }

    /// Samples a few keys from a shard and keeps the best keys as candidates. If the policy evicts
    /// only keys with an expiry, and such keys are rare, samples more buckets, up to the entire
    /// shard. The reads take no locks.
    fn look_for_candidates(
        &self,
        pool: &mut EvictionPool,
        shard: usize,
        samples: u64,
    ) -> Result<(), Error> {
        let word = if pool.policy.only_expiring() {
            EXPIRES
        } else {
            KEYS
        };
        let counts = self.read(ShardSet::one(shard), |reader| {
            let count = |database| Root { shard, database }.get(reader.view(), word);
            Ok::<_, Error>(std::array::from_fn::<u64, DATABASES, _>(count))
        })?;
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return Ok(());
        }
        // Choose a database with a probability proportional to its number of keys.
        let mut ticket = self.chance.next() % total;
        let database = counts.iter().position(|&count| {
            let here = ticket < count;
            ticket = ticket.saturating_sub(count);
            here
        });
        let root = Root {
            shard,
            database: database.unwrap_or(0),
        };
        let buckets = self.buckets(root)?;
        let random = self.chance.next();
        let mut found = Vec::new();
        self.look_at_buckets(root, random, pool.policy, samples, &mut found)?;
        if found.is_empty() {
            let mut position = pool.position;
            let mut looked_at = 0;
            while found.is_empty() && looked_at < buckets.saturating_mul(2) {
                position =
                    self.look_at_buckets(root, position, pool.policy, samples, &mut found)?;
                looked_at += BUCKETS;
            }
            // Make the next search resume where this search ended.
            pool.position = position;
        }
        if pool.policy.measure() == Measure::None && found.len() > 1 {
            let chosen = found.swap_remove((random >> 32) as usize % found.len());
            found = vec![chosen];
        }
        found.into_iter().for_each(|candidate| pool.add(candidate));
        Ok(())
    }

    /// Samples up to 64 buckets of a dictionary, until at least `samples` keys have been seen.
    /// Returns the position at which to resume.
    fn look_at_buckets(
        &self,
        root: Root,
        position: u64,
        policy: EvictionPolicy,
        samples: u64,
        found: &mut Vec<Candidate>,
    ) -> Result<u64, Error> {
        let now = self.now();
        let mut seen: Vec<(Vec<u8>, Option<u64>)> = Vec::new();
        let next = self.read_into(ShardSet::one(root.shard), &mut seen, |reader, seen| {
            let view = reader.view();
            let mut position = position;
            for _ in 0..BUCKETS {
                position = scan_bucket(view, root, position, |at| {
                    let entry = Entry::load(view, at)?;
                    let expiry = entry.expiry(view)?;
                    if expiry.is_some() || !policy.only_expiring() {
                        let mut key = Vec::new();
                        entry.append_key(view, &mut key)?;
                        seen.push((key, expiry));
                    }
                    Ok(())
                })?;
                view.recheck()?;
                if seen.len() as u64 >= samples {
                    break;
                }
            }
            Ok::<_, Error>(position)
        })?;
        for (key, expiry) in seen {
            let score = match expiry {
                // Expired keys are evicted before all other keys.
                Some(expiry) if expiry <= now => EXPIRED,
                _ => self.evictability(policy.measure(), &self.key(&key), expiry),
            };
            found.push(Candidate {
                score,
                database: root.database,
                shard: root.shard,
                key,
                at: 0,
            });
        }
        Ok(next)
    }
}

impl Writer<'_, '_> {
    /// Removes a key to make room, if it still qualifies. The key must exist, have an expiry if the
    /// policy requires that, be at the candidate's offset if that is set, and have expired if the
    /// candidate was chosen as expired. Returns whether the key was removed.
    fn evict(
        &mut self,
        candidate: &Candidate,
        key: &Key<'_>,
        only_expiring: bool,
    ) -> Result<bool, Error> {
        let database = candidate.database;
        let root = Root {
            shard: key.shard,
            database,
        };
        let Some((slot, entry)) = dictionary::find_slot(self.view(), root, key)? else {
            return Ok(false);
        };
        if only_expiring && !entry.header.expires() || ![0, entry.at].contains(&candidate.at) {
            return Ok(false);
        }
        if candidate.score == EXPIRED {
            let expiry = entry.expiry(self.view())?;
            if expiry.is_none_or(|expiry| expiry > self.store.now()) {
                return Ok(false);
            }
        }
        self.remove_found(root, Found { slot, entry })?;
        self.changed(database, key, Effect::Evicted);
        self.tell(KeyEvent::Evicted, database, key);
        // A large value is freed in steps, so run the first step now.
        graveyard::free_a_little(self, key.shard, graveyard::STEP)?;
        Ok(true)
    }
}

impl Access<'_> {
    /// Makes room for a command that adds about `bytes` bytes; see [`Store::check_memory_for`].
    /// Does nothing within a transaction. As in Redis, room for all commands of a transaction is
    /// made before the transaction begins.
    ///
    /// # Errors
    /// Returns the errors of [`Store::check_memory_for`].
    #[inline]
    pub fn check_memory_for(&self, bytes: usize) -> Result<(), Error> {
        match self.running {
            None => self.store.check_memory_for(bytes),
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use undercroft_memory::Options;

    use super::*;
    use crate::handle::eviction_policy::EvictionChange;
    use crate::transaction::writer::Expiry;
    use crate::types::string::hot::{Condition, SetOptions};

    #[test]
    fn expired_key_that_was_set_again_is_not_evicted_first() {
        let (_directory, store) = fresh_store(1);
        let options = SetOptions {
            condition: Condition::Always,
            expiry: Expiry::At(2000),
        };
        store.set_time(1000);
        store.set_with(0, b"k", b"v", options).expect("room");
        let candidate = Candidate {
            score: EXPIRED,
            database: 0,
            shard: store.key(b"k").shard(),
            key: b"k".to_vec(),
            at: 0,
        };
        let evict = || store.evict(EvictionPolicy::AllKeysLru, &candidate, false);
        assert_eq!(evict().expect("no lock is held"), Attempt::Void);
        store.set_time(3000);
        store.set(0, b"k", b"new").expect("room");
        assert_eq!(evict().expect("no lock is held"), Attempt::Void);
        store.set_time(1000);
        store.set_with(0, b"k", b"v", options).expect("room");
        store.set_time(2000);
        assert_eq!(evict().expect("no lock is held"), Attempt::Evicted);
    }

    fn fresh_store(shards: usize) -> (tempfile::TempDir, Store) {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory in shared memory");
        let options = Options {
            shards: Some(shards),
            ..Options::default()
        };
        let store = Store::create(&directory.path().join("store"), &options).expect("a new store");
        (directory, store)
    }

    #[test]
    fn thread_that_finds_the_pool_in_use_evicts_from_all_shards() {
        let (_directory, store) = fresh_store(4);
        store
            .change_eviction(EvictionChange::Policy(EvictionPolicy::AllKeysLru))
            .expect("writable");
        let set = |number: u32| {
            let key = number.to_string();
            store.set(0, key.as_bytes(), &[b'v'; 1000]).expect("room");
        };
        (0..2000).for_each(set);
        store.set_max_memory(store.used_memory()).expect("writable");
        let _used = store.part::<Pool>().0.lock();
        (2000..6000).for_each(set);
        for shard in 0..4 {
            let keys = store
                .read(ShardSet::one(shard), |reader| {
                    Ok::<_, Error>(Root { shard, database: 0 }.get(reader.view(), KEYS))
                })
                .expect("no lock is held");
            assert!(keys > 100, "{keys} of shard {shard}");
        }
    }

    #[test]
    fn eviction_goes_on_after_other_processes_took_the_candidates() {
        let (_directory, store) = fresh_store(1);
        store
            .change_eviction(EvictionChange::Policy(EvictionPolicy::AllKeysLru))
            .expect("writable");
        store.set(0, b"k", &[b'v'; 1000]).expect("room");
        let gone = |number: usize| Candidate {
            score: EXPIRED,
            database: 0,
            shard: 0,
            key: format!("gone:{number}").into_bytes(),
            at: 0,
        };
        // Fill the pool with candidates that score higher than any existing key, so that it has no
        // room for real candidates.
        store.part::<Pool>().0.lock().candidates = (0..POOL).map(gone).collect();
        store.part::<Pool>().0.lock().policy = EvictionPolicy::AllKeysLru;
        store
            .make_room(store.used_memory() - 1, 0)
            .expect("there is a key");
        assert_eq!(store.evicted_keys(), 1);
    }
}
