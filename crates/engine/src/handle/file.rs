//! Information about the store's file and the processes that use it, and the related settings.

use std::path::Path;
use std::time::Duration;

use undercroft_memory::{HeldLock, Member, Statistics, User, WaitHook, coarse_milliseconds};

use crate::error::Error;
use crate::handle::store::Store;

impl Store {
    /// Returns the number of bytes in allocated blocks, which contain keys, values and buckets.
    pub fn used_memory(&self) -> u64 {
        (0..self.shards())
            .map(|shard| self.segment.used_bytes(shard))
            .sum()
    }

    /// Returns the memory limit in bytes, which applies to [`used_memory`](Self::used_memory). 0
    /// means no limit.
    pub fn max_memory(&self) -> u64 {
        self.segment.max_memory()
    }

    /// Sets the memory limit in bytes for all processes.
    pub fn set_max_memory(&self, bytes: u64) -> Result<(), Error> {
        Ok(self.segment.set_max_memory(bytes)?)
    }

    /// Returns statistics about the store's memory.
    pub fn statistics(&self) -> Statistics {
        self.segment.statistics()
    }

    /// Returns the live processes that have joined the store to write.
    pub fn members(&self) -> Vec<Member> {
        self.segment.members()
    }

    /// Returns the other processes that have the store mapped, starting with the writers.
    ///
    /// # Errors
    /// Fails if this process no longer has permission to open the store's path.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        Ok(self.segment.users()?)
    }

    /// Returns the locks that processes hold right now.
    pub fn held_locks(&self) -> Vec<HeldLock> {
        self.segment.held_locks()
    }

    /// Immediately recovers all shards that dead writers left inconsistent, rather than waiting for
    /// each shard's next use.
    pub fn recover(&self) -> Result<(), Error> {
        Ok(self.segment.recover()?)
    }

    /// Writes the entire store to disk. Until the next change, the store can then be opened after a
    /// power failure or on another machine.
    ///
    /// # Errors
    /// Fails if other processes keep changing the store during the sync.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.segment.sync()?)
    }

    /// If the store's file is truncated while it is mapped, makes this process print a message to
    /// standard error and exit, rather than be killed by SIGBUS. This is meant for programs that
    /// use a single store, not for libraries.
    pub fn tell_when_lost(&self) {
        self.segment.tell_when_lost();
    }

    /// Returns whether all changes to the store have been synced to disk.
    pub fn is_synced(&self) -> bool {
        self.segment.is_synced()
    }

    /// Returns whether the path was found to name a different file or no file. Uses the result of
    /// the last check rather than checking the path.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.segment.is_lost()
    }

    /// Checks at most once a second whether the path still names the store's file.
    /// [`is_lost`](Self::is_lost) returns the result. Calls in between only read the coarse clock.
    #[inline]
    pub fn look_for_file(&self) {
        self.segment.look_for_file(coarse_milliseconds());
    }

    /// Returns whether the store's file was removed or replaced while mapped.
    pub fn removed(&self) -> bool {
        self.segment.removed()
    }

    /// If the store's file was removed or replaced while mapped, returns the error with which all
    /// writes fail.
    pub fn removal(&self) -> Option<Error> {
        self.removed().then(|| Error::of_removal(self.path()))
    }

    /// Returns the path of the store's file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    /// Returns whether this handle can write to the store.
    pub fn writable(&self) -> bool {
        self.segment.writable()
    }

    /// Sets how long to wait for a lock whose owner makes no progress (default 5 s). After this
    /// time, the call returns [`undercroft_memory::Error::Busy`].
    pub fn set_patience(&self, patience: Duration) {
        self.segment.set_patience(patience);
    }

    /// Returns the lock timeout set by [`set_patience`](Self::set_patience), or less if this
    /// thread's timeout is [limited](crate::limit_patience).
    pub fn patience(&self) -> Duration {
        self.segment.patience()
    }

    /// Sets the hook that is called while a thread waits for a lock.
    pub fn set_wait_hook(&mut self, hook: Box<dyn WaitHook>) {
        self.segment.set_wait_hook(hook);
    }

    /// Returns whether a signal has arrived that may interrupt this thread's operation; see
    /// [`WaitHook::is_signalled`].
    pub fn is_signalled(&self) -> bool {
        self.segment.is_signalled()
    }

    /// Runs a script while the thread holds locks; see [`WaitHook::script`].
    pub fn run_script(&self, run: &mut dyn FnMut()) {
        self.segment.run_script(run);
    }

    /// Runs pending signal handlers. Returns whether a handler interrupts this thread's operation.
    /// The thread must not hold a lock; see [`WaitHook::interrupted`].
    pub fn is_interrupted(&self) -> bool {
        self.segment.is_interrupted()
    }

    /// Sets or removes a hook that is called in the middle of this handle's reads; see
    /// [`undercroft_memory::race`].
    #[cfg(feature = "races")]
    pub fn interrupt_reads(&self, hook: Option<undercroft_memory::race::Hook>) {
        self.segment.interrupt_reads(hook);
    }

    /// Abandons this process's entry in the process table, as if the process had been killed. Only
    /// for tests.
    pub fn abandon(&self) {
        self.segment.abandon();
    }
}
