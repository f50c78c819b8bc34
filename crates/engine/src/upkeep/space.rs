//! Makes room when the store itself is full, because it has reached its capacity or its file system
//! is full (M1).
//!
//! A writer then needs free pages, usually several contiguous pages. Keys are first evicted by age,
//! as at `maxmemory`, which suffices for a writer whose keys are similar in size to the evicted
//! keys. However, keys of similar age are scattered over the heap, so most of the store could be
//! evicted before two adjacent pages are free. Therefore, if a round by age does not help, keys are
//! evicted by place. A survey of all keys finds the stretches of the heap that contain only
//! evictable keys. Some stretches are picked at random, and the stretches with the least valuable
//! keys are emptied. Later shortages reuse the results of the survey.

use std::ops::Range;

use undercroft_memory::layout::EXTENT;
use undercroft_memory::{ForkMutex, Offset, Scratch, ShardSet, View, is_removing, shortfall};

use crate::error::Error;
use crate::handle::eviction_policy::EvictionPolicy;
use crate::handle::store::Store;
use crate::structures::entry::{Entry, Form};
use crate::structures::roots::{DATABASES, Root};
use crate::structures::walk::scan_chain;
use crate::types::value::for_each_block;
use crate::upkeep::eviction::{Attempt, Candidate, EXPIRED};
use crate::upkeep::reclaim::Locked;

/// The minimum number of bytes that one call evicts.
const AT_ONCE: u64 = 64 << 10;
/// The amount of room that a survey looks for: 1/`PART` of the bytes in use, but at most `MOST`
/// bytes, and at least the length of the requested run.
const PART: u64 = 64;
const MOST: u64 = 16 << 20;
/// The number of stretches that are compared for each stretch that is emptied, unless a single
/// stretch exceeds the size that a survey looks for.
const COMPARED: usize = 4;
/// The maximum number of stretches that one command empties.
const STRETCHES_AT_ONCE: usize = 4;
/// The number of buckets in one read.
const BUCKETS: u64 = 32;
/// The maximum number of steps spent on freeing the large values of evicted keys.
const STEPS: usize = 256;

/// The known stretches of the heap that can be emptied to make room.
#[derive(Debug, Default)]
struct Space {
    /// The bytes that the last round freed, and the bytes in use after that round. The round helped
    /// if at least half of the freed bytes are in use again.
    freed: u64,
    used_then: u64,
    /// The policy under which `stretches` were found, and the length in bytes of the run that fits
    /// into each stretch.
    policy: EvictionPolicy,
    run: u64,
    /// The shard that was surveyed last.
    shard: usize,
    /// The evictable keys of each stretch. The best stretch to empty is last.
    stretches: Vec<Vec<Candidate>>,
}

/// The known stretches, shared by the threads of a store handle and kept in the handle.
#[derive(Default)]
pub(crate) struct Places(ForkMutex<Space>);

/// The conditions under which a key may be evicted.
#[derive(Clone, Copy, Debug)]
struct Terms {
    only_expiring: bool,
    /// The maximum size in bytes of a key that is evicted by place. Larger keys are evicted only by
    /// age.
    most: u64,
}

/// A key and the blocks that it occupies in the heap.
#[derive(Debug)]
struct Holding {
    at: Offset,
    /// The overflow bucket that contains the entry, or 0.
    overflow: Offset,
    expiry: Option<u64>,
    may_go: bool,
    /// The range of this key's blocks in `Holdings::blocks`.
    blocks: Range<usize>,
    /// Whether the survey wants one of the key's blocks or its overflow bucket. `key` is filled in
    /// only for a wanted key.
    is_wanted: bool,
    key: Vec<u8>,
}

/// The keys of several buckets, with the blocks that the keys occupy.
#[derive(Debug, Default)]
struct Holdings {
    entries: Vec<(Offset, Offset)>,
    found: Vec<Holding>,
    /// The offset and the length of each block. An arena (a separate memory area) is represented by
    /// its first page.
    blocks: Vec<(Offset, u64)>,
    /// Whether the walk found an object that spans several blocks, which must be examined under its
    /// shard's lock.
    is_partial: bool,
}

impl Scratch for Holdings {
    fn clear(&mut self) {
        self.entries.clear();
        self.found.clear();
        self.blocks.clear();
        self.is_partial = false;
    }
}

impl Holdings {
    fn blocks_of(&self, holding: &Holding) -> &[(Offset, u64)] {
        &self.blocks[holding.blocks.clone()]
    }
}

impl Store {
    /// Evicts keys after one of this thread's writes found the store full, if the policy allows
    /// eviction. Frees about 64 KiB, or more if the write requested more, by age or by place.
    /// Returns whether any key was evicted. Must not be called within a transaction.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    #[cold]
    pub(crate) fn evict_for_space(&self) -> Result<bool, Error> {
        let wanted = shortfall();
        let policy = self.eviction().policy;
        if wanted.bytes == 0 || is_removing() || policy == EvictionPolicy::NoEviction {
            return Ok(false);
        }
        // If another thread is using the shared state, use private state.
        let mut own = Space::default();
        let mut shared = self.part::<Places>().0.try_lock();
        let space = shared.as_deref_mut().unwrap_or(&mut own);
        let (before, used) = (self.evicted_keys(), self.used_memory());
        let helped = used.saturating_sub(space.used_then) >= space.freed / 2;
        let any = (!helped && self.evict_by_place(space, policy, wanted.run)?)
            || self.evict_by_age(used.saturating_sub(wanted.bytes.max(AT_ONCE)))?;
        let left = self.used_memory();
        (space.used_then, space.freed) = (left, used.saturating_sub(left));
        Ok(any || self.evicted_keys() > before)
    }

    fn evict_by_age(&self, limit: u64) -> Result<bool, Error> {
        match self.make_room_until(limit, |_, _| false) {
            Ok(()) => Ok(true),
            Err(Error::MaxMemory) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Evicts the keys in one or more stretches of the heap, until a run of `run` bytes is free.
    /// Returns whether such a run is free.
    fn evict_by_place(
        &self,
        space: &mut Space,
        policy: EvictionPolicy,
        run: u64,
    ) -> Result<bool, Error> {
        if space.run < run || space.policy != policy {
            space.stretches.clear();
        }
        for _ in 0..STRETCHES_AT_ONCE {
            if space.stretches.is_empty() {
                (space.run, space.policy) = (run, policy);
                space.shard = (space.shard + 1) % self.shards();
                // A shard allocates entire extents, so the keys of a single shard usually contain a
                // stretch of this length.
                if run <= EXTENT {
                    space.stretches =
                        self.find_stretches(policy, run, ShardSet::one(space.shard))?;
                }
                if space.stretches.is_empty() {
                    space.stretches = self.find_stretches(policy, run, self.all_shards())?;
                }
            }
            let Some(keys) = space.stretches.pop() else {
                return Ok(false);
            };
            let mut evicted = false;
            for candidate in &keys {
                evicted |= self.evict(policy, candidate, false)? == Attempt::Evicted;
            }
            self.free_what_is_left()?;
            if evicted && self.segment.gather_run(run)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Frees the large values of evicted keys, because eviction only queues them to be freed in
    /// steps.
    fn free_what_is_left(&self) -> Result<(), Error> {
        let mut steps = 0;
        for shard in self.all_shards().iter() {
            while steps < STEPS && self.reclaim_step(shard, Locked::Skip)? {
                steps += 1;
            }
        }
        Ok(())
    }

    /// Returns the keys in several stretches of the heap. The last stretch is the best to empty,
    /// because its keys have the least value. Each stretch contains only evictable keys of these
    /// shards and has room for a run of `run` bytes. O(keys of the shards). Takes a lock only to
    /// examine objects that span several blocks.
    fn find_stretches(
        &self,
        policy: EvictionPolicy,
        run: u64,
        shards: ShardSet,
    ) -> Result<Vec<Vec<Candidate>>, Error> {
        let part = (self.used_memory() / PART).min(MOST);
        let terms = Terms {
            only_expiring: policy.only_expiring(),
            most: part.max(run),
        };
        let mut survey = self.segment.survey();
        self.for_each_holding(shards, terms, &|_, _| false, &mut |_, holdings| {
            let together = |one: &Holding, other: &Holding| one.overflow == other.overflow;
            for bucket in holdings.found.chunk_by(together) {
                // An overflow bucket is freed when its last key is removed.
                if bucket[0].overflow != 0 && bucket.iter().all(|found| found.may_go) {
                    survey.may_go(bucket[0].overflow);
                }
                for found in bucket.iter().filter(|found| found.may_go) {
                    let blocks = holdings.blocks_of(found);
                    blocks.iter().for_each(|&(block, _)| survey.may_go(block));
                }
            }
        })?;
        let length = run.next_multiple_of(EXTENT).max(EXTENT);
        let wanted = (part / length).max(1) as usize;
        let compared = if length > part { 1 } else { COMPARED };
        let stretches = survey.stretches(run, wanted * compared, self.chance.next());
        drop(survey);
        let is_wanted = |at, length| stretches.of(at, length).next().is_some();
        let mut keys: Vec<Vec<Candidate>> = (0..stretches.count()).map(|_| Vec::new()).collect();
        let mut scores = vec![0_u128; keys.len()];
        let now = self.now();
        self.for_each_holding(shards, terms, &is_wanted, &mut |root, holdings| {
            let wanted = |found: &&Holding| found.may_go && found.is_wanted;
            for found in holdings.found.iter().filter(wanted) {
                let score = match found.expiry {
                    Some(expiry) if expiry <= now => EXPIRED,
                    expiry => self.evictability(policy.measure(), &self.key(&found.key), expiry),
                };
                let overflow = (found.overflow != 0).then_some((found.overflow, 1));
                let blocks = holdings.blocks_of(found).iter().copied().chain(overflow);
                let mut numbers: Vec<usize> = blocks
                    .flat_map(|(block, length)| stretches.of(block, length))
                    .collect();
                numbers.sort_unstable();
                numbers.dedup();
                for number in numbers {
                    scores[number] += u128::from(score);
                    keys[number].push(Candidate {
                        score,
                        database: root.database,
                        shard: root.shard,
                        key: found.key.clone(),
                        at: found.at,
                    });
                }
            }
        })?;
        let mean = |number: usize| scores[number] / keys[number].len().max(1) as u128;
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|&number| mean(number));
        let best = order.split_off(order.len().saturating_sub(wanted));
        Ok(best
            .into_iter()
            .map(|number| std::mem::take(&mut keys[number]))
            .collect())
    }

    /// Visits all client-visible keys of several shards, a few buckets at a time, with the blocks
    /// that the keys occupy. Calls `is_wanted` for each block with the block's length. Skips keys
    /// whose shard stays locked by another process.
    fn for_each_holding(
        &self,
        shards: ShardSet,
        terms: Terms,
        is_wanted: &(dyn Fn(Offset, u64) -> bool + Sync),
        visit: &mut dyn FnMut(Root, &Holdings),
    ) -> Result<(), Error> {
        let mut holdings = Holdings::default();
        for shard in shards.iter() {
            for database in 0..DATABASES {
                let root = Root { shard, database };
                let mut position = 0;
                loop {
                    let read = |view: &View<'_>, out: &mut Holdings, buckets, is_locked| {
                        let next = look_at_buckets(view, root, position, buckets, out)?;
                        self.look_at_entries(view, root, terms, is_wanted, is_locked, out)?;
                        Ok::<_, Error>(next)
                    };
                    let mut next =
                        self.read_into(ShardSet::one(shard), &mut holdings, |reader, out| {
                            read(reader.view(), out, BUCKETS, false)
                        })?;
                    if holdings.is_partial {
                        // The walk over an object does not validate its reads, so it needs the
                        // shard's lock (R3).
                        let looked = self.write_to_free(shard, |writer| {
                            holdings.clear();
                            read(writer.view(), &mut holdings, 1, true)
                        });
                        match looked {
                            Err(error) if error.is_busy() => holdings.clear(),
                            looked => next = looked?,
                        }
                    }
                    position = next;
                    visit(root, &holdings);
                    if position == 0 {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Records the blocks that each entry occupies.
    fn look_at_entries(
        &self,
        view: &View<'_>,
        root: Root,
        terms: Terms,
        is_wanted: &(dyn Fn(Offset, u64) -> bool + Sync),
        is_locked: bool,
        out: &mut Holdings,
    ) -> Result<(), Error> {
        for &(at, overflow) in &out.entries {
            let entry = Entry::load(view, at)?;
            // A torn entry can contain any length, so revalidate the view (R3).
            view.recheck()?;
            let start = out.blocks.len();
            out.blocks.push((at, entry.size()));
            let mut bytes = entry.size();
            if let Some(block) = entry.block(view)? {
                out.blocks.push((block, entry.header.value_length()));
                bytes = bytes.saturating_add(entry.header.value_length());
            }
            if entry.header.form() == Some(Form::Object) {
                let pool = entry.object()?.pool(view, root.shard, &entry)?;
                let blocks = &mut out.blocks;
                if pool.arena() != 0 {
                    blocks.push((pool.arena(), 1));
                    bytes = view.arena_bytes(pool.arena())?;
                } else if is_locked {
                    for_each_block(self, view, root.shard, &entry, &mut |block| {
                        blocks.push((block, 1));
                    })?;
                } else {
                    out.is_partial = true;
                    return Ok(());
                }
            }
            let expiry = entry.expiry(view)?;
            let blocks = start..out.blocks.len();
            let is_wanted = overflow != 0 && is_wanted(overflow, 1)
                || out.blocks[start..]
                    .iter()
                    .any(|&(block, length)| is_wanted(block, length));
            let mut key = Vec::new();
            if is_wanted {
                entry.append_key(view, &mut key)?;
            }
            out.found.push(Holding {
                at,
                overflow,
                expiry,
                may_go: bytes <= terms.most && (expiry.is_some() || !terms.only_expiring),
                blocks,
                is_wanted,
                key,
            });
        }
        Ok(())
    }
}

/// Finds the entries of several buckets. Returns the position at which to resume.
fn look_at_buckets(
    view: &View<'_>,
    root: Root,
    position: u64,
    buckets: u64,
    out: &mut Holdings,
) -> Result<u64, Error> {
    let mut position = position;
    for _ in 0..buckets {
        position = scan_chain(view, root, position, |at, overflow| {
            view.prefetch(at);
            out.entries.push((at, overflow));
            Ok(())
        })?;
        view.recheck()?;
        if position == 0 {
            break;
        }
    }
    Ok(position)
}
