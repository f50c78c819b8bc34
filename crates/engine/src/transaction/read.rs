//! Reading the keys of several shards in one consistent state.

use undercroft_memory::{Image, Scratch, ShardSet, View, defer_signals};

use crate::error::Error;
use crate::handle::reader::Reader;
use crate::handle::store::Store;
use crate::structures::roots::{EXPIRES, KEYS, Root};
use crate::transaction::retry::FailedTry;

impl Store {
    /// Reads keys of several shards in one consistent state. `body` may run several times, and its
    /// result counts only if nothing changed during the run. `body` is [`Fn`] and [`Sync`], so that
    /// it cannot carry state from one run to the next (R8).
    #[inline(always)]
    pub fn read<R, E: From<Error>>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Reader<'_, '_>) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        self.read_into(shards, &mut (), |reader, ()| body(reader))
    }

    /// Like [`read`](Self::read), but fills a caller's buffer. The buffer is cleared before each
    /// run of `body` and if the read fails (R8).
    #[inline(always)]
    pub fn read_into<S: Scratch, R, E: From<Error>>(
        &self,
        shards: ShardSet,
        scratch: &mut S,
        body: impl Fn(&Reader<'_, '_>, &mut S) -> Result<R, E> + Sync,
    ) -> Result<R, E> {
        loop {
            let result = self.segment.read_into(shards, scratch, |view, scratch| {
                body(&Reader { store: self, view }, scratch).map_err(FailedTry::of)
            });
            match result {
                Ok(value) => return Ok(value),
                Err(failed) => self.try_again(failed)?,
            }
        }
    }

    /// Like [`read`](Self::read), but also reads marked shards. For code that returns the items of
    /// dead clients to their keys (L5).
    pub(crate) fn read_marked<R>(
        &self,
        shards: ShardSet,
        body: impl Fn(&Reader<'_, '_>) -> Result<R, Error> + Sync,
    ) -> Result<R, Error> {
        let read = |view: &View<'_>| body(&Reader { store: self, view });
        self.segment.read_marked(shards, read)
    }

    /// Holds the locks of several shards while `body` runs once. Only for tests.
    #[doc(hidden)]
    pub fn hold<R>(&self, shards: ShardSet, mut body: impl FnMut() -> R) -> Result<R, Error> {
        self.read_locked(shards, |_| body())
    }

    /// Reads several shards under their locks. `body` runs exactly once, so it can have side
    /// effects.
    pub(crate) fn read_locked<R>(
        &self,
        shards: ShardSet,
        mut body: impl FnMut(&View<'_>) -> R,
    ) -> Result<R, Error> {
        if self.has_backlog() {
            self.settle_first();
        }
        loop {
            match self.segment.read_locked(shards, &mut body) {
                Ok(value) => return Ok(value),
                Err(error) => self.try_again(FailedTry::<Error>::from(error))?,
            }
        }
    }

    /// Copies a consistent state of the store while other processes keep working. Calls `moment` at
    /// the moment of that state, and `between`, which tests use, after every page.
    pub(crate) fn image<T>(
        &self,
        mut moment: impl FnMut() -> T,
        between: &mut dyn FnMut(),
    ) -> Result<(Image, T), Error> {
        if self.has_backlog() {
            self.settle_first();
        }
        loop {
            match self.segment.image(&mut moment, between) {
                Ok(made) => return Ok(made),
                Err(error) => self.try_again(FailedTry::<Error>::from(error))?,
            }
        }
    }

    /// Returns the number of keys in a database, including expired keys that have not been removed
    /// yet. O(number of shards).
    pub fn keys(&self, database: usize) -> u64 {
        self.sum(database, KEYS)
    }

    /// Returns the number of keys in a database that have an expiry.
    pub fn expiring_keys(&self, database: usize) -> u64 {
        self.sum(database, EXPIRES)
    }

    fn sum(&self, database: usize, word: usize) -> u64 {
        // This function cannot return an interruption as an error, so defer signals.
        let _deferred = defer_signals();
        (0..self.shards())
            .map(|shard| {
                let read = self.read(ShardSet::one(shard), |reader| {
                    Ok::<_, Error>(Root { shard, database }.get(reader.view(), word))
                });
                read.unwrap_or(0)
            })
            .sum()
    }
}
