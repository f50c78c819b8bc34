//! Waits until a replica has applied a position of its source's stream.

use std::thread;
use std::time::{Duration, Instant};

use undercroft_memory::ShardSet;

use crate::error::Error;
use crate::handle::store::Store;
use crate::store::cluster::lane_position_in;
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
    /// Returns [`Error::NoReplica`] if the store is no replica, [`Error::ManySources`] if its source is
    /// a cluster, or fails if the store is damaged.
    pub fn has_applied(&self, offset: u64) -> Result<bool, Error> {
        self.has_applied_in(None, offset)
    }

    /// Returns whether all changes before a position are applied, of the stream of a server or of a
    /// lane of a cluster.
    ///
    /// # Errors
    /// Returns the errors of [`has_applied`](Self::has_applied).
    pub fn has_applied_in(&self, lane: Option<u8>, offset: u64) -> Result<bool, Error> {
        if !self.is_replica() {
            return Err(Error::NoReplica);
        }
        let is_complete = match lane {
            None => self.has_source()?,
            Some(_) => self.has_cluster()?,
        };
        if !is_complete {
            return match lane.is_none() && self.has_cluster()? {
                true => Err(Error::ManySources),
                false => Ok(false),
            };
        }
        // Each shard alone: its word counts once it is committed, and a read of all shards at once
        // would have to wait for the changes of any.
        for shard in self.all_shards().iter() {
            let position = self.read(ShardSet::one(shard), |reader| {
                Ok::<_, Error>(match lane {
                    None => position_in(reader, shard),
                    Some(lane) => lane_position_in(reader, shard, lane),
                })
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
    /// Returns [`Error::NoReplica`] if the store is no replica or ceases to be one,
    /// [`Error::ManySources`] if its source is a cluster, an error for which [`Error::is_wait`] is true
    /// if a signal handler of the language runtime must run, or an error if the store's file is removed.
    pub fn wait_until_applied(&self, offset: u64, timeout: Duration) -> Result<bool, Error> {
        self.wait_until_applied_in(None, offset, timeout)
    }

    /// Waits until all changes before a position are applied, like
    /// [`wait_until_applied`](Self::wait_until_applied), of the stream of a server or of a lane of a
    /// cluster.
    ///
    /// # Errors
    /// Returns the errors of [`wait_until_applied`](Self::wait_until_applied).
    pub fn wait_until_applied_in(
        &self,
        lane: Option<u8>,
        offset: u64,
        timeout: Duration,
    ) -> Result<bool, Error> {
        let start = Instant::now();
        let mut pause = PAUSES.0;
        loop {
            let look = || match self.has_applied_in(lane, offset) {
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
