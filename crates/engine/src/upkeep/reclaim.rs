//! Frees memory as a last resort before a call fails for lack of memory (M8). Frees values that
//! were flushed, cut off or removed, and removes expired keys.

use std::time::Duration;

use undercroft_memory::{Marks, ShardSet, removing};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::graveyard::is_dying;
use crate::structures::roots::{DATABASES, Root, expiring};
use crate::transaction::writer::Writer;
use crate::upkeep::expiry::sweep_buckets;
use crate::upkeep::graveyard::{STEP, free_a_little};

/// The maximum number of steps in one call to [`Store::reclaim`], which free about 16 MiB of list
/// leaves.
const STEPS: usize = 64;
/// The maximum number of passes over a table in one sweep. A pass can miss buckets that are moving
/// to another table.
const ROUNDS: u64 = 4;

/// The time to wait for the heap's lock if locked shards are skipped.
const A_MOMENT: Duration = Duration::from_millis(1);

/// How to treat a shard that another process has locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// Skip the shard.
    Skip,
    /// Wait for the lock.
    Wait,
}

impl Store {
    /// Frees memory of removed keys and cut-off items in small steps, until `enough` returns true
    /// or about 16 MiB have been freed. If there is no such memory, removes expired keys. If there
    /// are no expired keys either, completes the resizing of tables. Returns whether it found
    /// anything to do. Must not be called within a transaction.
    ///
    /// # Errors
    /// Returns the errors of [`write`](Store::write).
    #[cold]
    pub fn reclaim(&self, mut enough: impl FnMut() -> bool) -> Result<bool, Error> {
        let mut found = false;
        // Skip locked shards in the first pass. Wait for their locks only if the other shards
        // contain nothing to free.
        for locked in [Locked::Skip, Locked::Wait] {
            let mut steps = 0;
            for shard in self.all_shards().iter() {
                while steps < STEPS && !enough() && self.reclaim_step(shard, locked)? {
                    (steps, found) = (steps + 1, true);
                }
            }
            found = found || self.reclaim_expired(&mut enough, locked)?;
            found = found || self.reclaim_tables(locked)?;
            if found {
                break;
            }
        }
        Ok(found)
    }

    /// Runs one step of [`reclaim`](Self::reclaim) in one shard. Returns whether there was anything
    /// to free.
    pub(crate) fn reclaim_step(&self, shard: usize, locked: Locked) -> Result<bool, Error> {
        if locked == Locked::Skip && self.segment.is_locked(shard) {
            return Ok(false);
        }
        if self.segment.has_remains(shard) {
            let patience = match locked {
                Locked::Skip => A_MOMENT,
                Locked::Wait => self.segment.patience(),
            };
            return match self.segment.free_remains(shard, patience) {
                Err(undercroft_memory::Error::Busy { .. }) if locked == Locked::Skip => Ok(false),
                freed => Ok(freed.map(|_| true)?),
            };
        }
        let dying = self.read(ShardSet::one(shard), |reader| {
            Ok::<_, Error>(is_dying(reader.view(), shard))
        })?;
        if !dying {
            return Ok(false);
        }
        let freed = self.write_to_free(shard, |writer| free_a_little(writer, shard, STEP));
        match freed {
            Err(error) if error.is_busy() && locked == Locked::Skip => Ok(false),
            freed => freed.map(|()| true),
        }
    }

    /// Removes expired keys until `enough` returns true or no expired keys are left. Returns
    /// whether any were removed.
    fn reclaim_expired(
        &self,
        enough: &mut impl FnMut() -> bool,
        locked: Locked,
    ) -> Result<bool, Error> {
        let mut found = false;
        if self.refuses_expiry() {
            return Ok(false);
        }
        for shard in self.all_shards().iter() {
            let due = self.expiry_is_due(shard)?;
            for database in expiring().filter(|database| due >> database & 1 == 1) {
                let root = Root { shard, database };
                let mut rounds = ROUNDS * self.buckets(root)?;
                while rounds > 0 && !enough() {
                    if locked == Locked::Skip && self.segment.is_locked(shard) {
                        break;
                    }
                    let swept = self.write_to_free(shard, |writer| sweep_buckets(writer, root));
                    let swept = match swept {
                        Err(error) if error.is_busy() && locked == Locked::Skip => break,
                        swept => swept?,
                    };
                    found |= swept.removed > 0;
                    if swept.buckets == 0 {
                        break;
                    }
                    if swept.moving {
                        // Resizing can fail in a full store. The sweep continues regardless.
                        let _ = self.resize_some(root);
                    }
                    rounds = rounds.saturating_sub(swept.buckets);
                }
            }
        }
        Ok(found)
    }

    /// Completes the resizing of tables, because oversized tables occupy the long free runs that a
    /// full store needs. Returns whether any table was resized.
    fn reclaim_tables(&self, locked: Locked) -> Result<bool, Error> {
        let mut found = false;
        for shard in self.all_shards().iter() {
            for database in 0..DATABASES {
                if locked == Locked::Skip && self.segment.is_locked(shard) {
                    break;
                }
                let root = Root { shard, database };
                while self.resize_some(root)? > 0 {
                    found = true;
                }
            }
        }
        Ok(found)
    }

    /// Runs one of upkeep's own transactions. Does not use [`write`](Store::write), which calls
    /// this code when it is out of memory.
    pub(crate) fn write_to_free<R>(
        &self,
        shard: usize,
        mut body: impl FnMut(&mut Writer<'_, '_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let shards = ShardSet::one(shard);
        let _removing = removing();
        let written = self
            .segment
            .write_where(shards, Marks::Ignored, |transaction| {
                let mut writer = Writer::new(self, transaction);
                let value = body(&mut writer)?;
                let mail = writer.outbox.close().map_err(|_| self.refusal())?;
                Ok::<_, Error>((value, mail))
            });
        let (value, mail) = written?;
        self.deliver(mail);
        Ok(value)
    }
}
