//! Making room where the store itself is full, by its capacity or its file system (M1).
//!
//! A writer then needs pages, most often several in one piece. Keys go by age at first, as at `maxmemory`: that serves a
//! writer whose keys are like those that went. Keys of one age lie anywhere, though, so that most of a store could go before
//! two pages side by side are free. Where a round by age did not help, keys go by place: all keys are looked at for the
//! stretches of the heap that hold nothing else, and of some of these, chosen by chance, those go whose keys are worth
//! least. What one look finds serves the next shortages, too.

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

/// Bytes evicted at least.
const AT_ONCE: u64 = 64 << 10;
/// One look at all keys finds room for this part of the bytes in use, but for no more bytes than these; or for the run that
/// is wanted.
const PART: u64 = 64;
const MOST: u64 = 16 << 20;
/// Stretches that are compared for each that goes, where they are no longer than that.
const COMPARED: usize = 4;
/// Stretches that one command empties at most.
const STRETCHES_AT_ONCE: usize = 4;
/// Buckets looked at in one read.
const BUCKETS: u64 = 32;
/// Steps of freeing what a stretch has left.
const STEPS: usize = 256;

/// The places where room could be made, as far as they are known.
#[derive(Debug, Default)]
struct Space {
    /// Bytes that the last round freed, and the bytes in use after it: if they are used by now, it helped.
    freed: u64,
    used_then: u64,
    /// The policy by which these stretches were found, and the bytes of a run that each has room for.
    policy: EvictionPolicy,
    run: u64,
    /// The shard to look at next.
    shard: usize,
    /// The keys of each stretch that may go, the best stretch last.
    stretches: Vec<Vec<Candidate>>,
}

/// The places of a handle's threads: a part of the handle.
#[derive(Default)]
pub(crate) struct Places(ForkMutex<Space>);

/// Which keys may go.
#[derive(Clone, Copy, Debug)]
struct Terms {
    only_expiring: bool,
    /// Bytes that one of them takes at most: what is larger goes by age alone.
    most: u64,
}

/// A key with the blocks that it takes.
#[derive(Debug)]
struct Holding {
    at: Offset,
    /// The bucket of a chain that its entry is in, or 0.
    overflow: Offset,
    expiry: Option<u64>,
    may_go: bool,
    /// Its blocks, among those of all.
    blocks: Range<usize>,
    /// Whether one of its blocks, or that bucket, is asked for; its key was read then only.
    is_wanted: bool,
    key: Vec<u8>,
}

/// Keys of some buckets, with their blocks.
#[derive(Debug, Default)]
struct Holdings {
    entries: Vec<(Offset, Offset)>,
    found: Vec<Holding>,
    /// Each with its length; an arena counts as its first page.
    blocks: Vec<(Offset, u64)>,
    /// An object of several blocks was met, which is looked at under the lock of its shard only.
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
    /// Evicts some keys where a change of this thread has just found no room in the store itself and the policy lets keys
    /// go: some 64 KiB, or as much as it wanted, by age or by place. Returns whether there was anything. Must not be called
    /// within a transaction.
    ///
    /// # Errors
    /// Those of [`write`](Store::write).
    #[cold]
    pub(crate) fn evict_for_space(&self) -> Result<bool, Error> {
        let wanted = shortfall();
        let policy = self.eviction().policy;
        if wanted.bytes == 0 || is_removing() || policy == EvictionPolicy::NoEviction {
            return Ok(false);
        }
        // A thread that finds it in use does without.
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

    /// Evicts the keys of a stretch of the heap, or of some, until a run of so many bytes is free. Returns whether one is.
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
                // Shards take extents whole: what is no longer than one is mostly found among the keys of any shard.
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

    /// Frees what evicted keys have left to be freed in steps.
    fn free_what_is_left(&self) -> Result<(), Error> {
        let mut steps = 0;
        for shard in self.all_shards().iter() {
            while steps < STEPS && self.reclaim_step(shard, Locked::Skip)? {
                steps += 1;
            }
        }
        Ok(())
    }

    /// The keys of stretches of the heap that hold nothing else than keys of these shards and have room for a run of so many
    /// bytes each: some, the one whose keys are worth least last. O(keys of the shards), without a lock but for objects.
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
                // An overflow bucket goes with the last of its keys.
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

    /// Visits all keys of some shards that clients see, some buckets at a time, with the blocks that they take. `is_wanted`
    /// is asked of each block with its length. Keys whose shard stays locked by another process are left out.
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
                        // The walk over an object trusts what it reads, so nothing may change meanwhile (R3).
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

    /// Looks at what the entries that were found take.
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
            // R3: lengths of a torn entry may be of any size.
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

/// Finds the entries of some buckets. Returns where to go on.
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
