//! Memory that is found before anybody is told that there is none: what was
//! flushed, cut off or removed and is not freed yet, and keys that have expired
//! (M8).

use std::time::Duration;

use undercroft_memory::{Marks, ShardSet, removing};

use crate::error::Error;
use crate::handle::store::Store;
use crate::structures::graveyard::is_dying;
use crate::structures::roots::{DATABASES, Root, expiring};
use crate::transaction::writer::Writer;
use crate::upkeep::expiry::sweep_buckets;
use crate::upkeep::graveyard::{STEP, free_a_little};

/// Steps of one [`Store::reclaim`] at most: some 16 MiB of a list's leaves.
const STEPS: usize = 64;
/// Times that a table is swept before a sweep gives up: while its buckets move
/// to another table, some are missed.
const ROUNDS: u64 = 4;

/// How long is waited for the heap by who passes over what is locked.
const A_MOMENT: Duration = Duration::from_millis(1);

/// What is to be done about a shard that somebody else has locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// It is left out.
    Skip,
    /// It is waited for.
    Wait,
}

impl Store {
    /// Frees some of what removed keys and cut off items have left, in small
    /// steps, until `enough` says so or some 16 MiB are looked through; where
    /// there is nothing of the kind, removes keys that have expired, and then ends the resizing of tables. Returns
    /// whether there was anything. Must not be called within a transaction.
    ///
    /// # Errors
    /// Those of [`write`](Store::write).
    #[cold]
    pub fn reclaim(&self, mut enough: impl FnMut() -> bool) -> Result<bool, Error> {
        let mut found = false;
        // Whoever holds the last shard there is has to be waited for.
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

    /// One step of it in one shard. Returns whether there was anything.
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

    /// Removes expired keys until `enough` says so or there are no more.
    /// Returns whether there were any.
    fn reclaim_expired(
        &self,
        enough: &mut impl FnMut() -> bool,
        locked: Locked,
    ) -> Result<bool, Error> {
        let mut found = false;
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
                        // A store may be too full for that.
                        let _ = self.resize_some(root);
                    }
                    rounds = rounds.saturating_sub(swept.buckets);
                }
            }
        }
        Ok(found)
    }

    /// Ends the resizing of tables: those that have become too large are in the way of every long run. Returns whether there
    /// were any.
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

    /// A transaction of the store's own housekeeping: not by
    /// [`write`](Store::write), which comes here where memory is short.
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
                Ok::<_, Error>((value, writer.outbox.close()))
            });
        let (value, mail) = written?;
        self.deliver(mail);
        Ok(value)
    }
}
