//! Waits until a replica has applied a position of its source's stream.

use std::thread;
use std::time::{Duration, Instant};

use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::handle::store::Store;
use crate::store::replication::position_in;

/// The pauses between the first looks and between later ones. A look costs a few loads from a shard, so
/// the wait needs no help of the process that applies the changes.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));
/// The time after which the wait looks for signals and for the store's file (M4, M7).
const TURN: Duration = Duration::from_millis(50);

impl Store {
    /// Returns whether all changes before a position of the source's stream are applied.
    ///
    /// # Errors
    /// Returns [`Error::NoReplica`] if the store is no replica, or fails if the store is damaged.
    pub fn has_applied(&self, offset: u64) -> Result<bool, Error> {
        if !self.is_replica() {
            return Err(Error::NoReplica);
        }
        if !self.has_source()? {
            return Ok(false);
        }
        // Each shard alone: its word counts once it is committed, and a read of all shards at once
        // would have to wait for the changes of any.
        for shard in self.all_shards().iter() {
            let position = self.read(ShardSet::one(shard), |reader| {
                Ok::<_, Error>(position_in(reader, shard))
            })?;
            if position.offset >= offset {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until all changes before a position of the source's stream are applied, at most for
    /// `timeout`. Returns whether they are. The runtime's own lock is released during the wait. Must not
    /// be called within a transaction.
    ///
    /// A program reads its own writes if it asks the source for its position after a write
    /// (`master_repl_offset` of `INFO replication`), and waits for that position before it reads.
    ///
    /// # Errors
    /// Returns [`Error::NoReplica`] if the store is no replica or ceases to be one, an error for which
    /// [`Error::is_wait`] is true if a signal handler of the language runtime must run, or an error if
    /// the store's file is removed.
    pub fn wait_until_applied(&self, offset: u64, timeout: Duration) -> Result<bool, Error> {
        let start = Instant::now();
        let mut pause = PAUSES.0;
        loop {
            let look = || match self.has_applied(offset) {
                // A stopped writer holds a lock, and its changes are not applied yet.
                Err(error) if error.is_busy() => Ok(false),
                found => found,
            };
            let mut found = look();
            let turn = Instant::now();
            self.run_script(&mut || {
                while matches!(found, Ok(false))
                    && turn.elapsed() < TURN
                    && start.elapsed() < timeout
                {
                    thread::sleep(pause.min(timeout.saturating_sub(start.elapsed())));
                    pause = (2 * pause).min(PAUSES.1);
                    found = look();
                }
            });
            if found? {
                return Ok(true);
            }
            if start.elapsed() >= timeout {
                return Ok(false);
            }
            if self.is_interrupted() {
                return Err(Error::interrupted());
            }
            self.segment.in_place()?;
        }
    }
}
