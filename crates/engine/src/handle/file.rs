//! What a handle tells of the store's file and of the processes that use it, and what it sets there.

use std::path::Path;
use std::time::Duration;

use undercroft_memory::{HeldLock, Member, Statistics, User, WaitHook, coarse_milliseconds};

use crate::error::Error;
use crate::handle::store::Store;

impl Store {
    /// Bytes in allocated blocks: keys, values, buckets.
    pub fn used_memory(&self) -> u64 {
        (0..self.shards())
            .map(|shard| self.segment.used_bytes(shard))
            .sum()
    }

    /// The limit on [`used_memory`](Self::used_memory); 0 is none.
    pub fn max_memory(&self) -> u64 {
        self.segment.max_memory()
    }

    /// Sets the limit, for all processes.
    pub fn set_max_memory(&self, bytes: u64) -> Result<(), Error> {
        Ok(self.segment.set_max_memory(bytes)?)
    }

    /// Sizes of the store.
    pub fn statistics(&self) -> Statistics {
        self.segment.statistics()
    }

    /// The living processes that have written to the store.
    pub fn members(&self) -> Vec<Member> {
        self.segment.members()
    }

    /// The other processes that have the store mapped, those that write first.
    ///
    /// # Errors
    /// Where this process may not open the store's path any more.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        Ok(self.segment.users()?)
    }

    /// The locks that are held at this moment.
    pub fn held_locks(&self) -> Vec<HeldLock> {
        self.segment.held_locks()
    }

    /// Recovers at once what dead writers left in any shard.
    pub fn recover(&self) -> Result<(), Error> {
        Ok(self.segment.recover()?)
    }

    /// Writes everything to the disk, so that the store may be opened after a
    /// power cut or on another machine, until somebody changes it again.
    ///
    /// # Errors
    /// Where others changed it all the time, too.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.segment.sync()?)
    }

    /// From now on this process ends with a line on standard error where the
    /// store's file is cut short under it, instead of being killed by SIGBUS.
    /// For programs that use one store at a time, not for libraries.
    pub fn tell_when_lost(&self) {
        self.segment.tell_when_lost();
    }

    /// Whether everything that was written is on the disk.
    pub fn is_synced(&self) -> bool {
        self.segment.is_synced()
    }

    /// Whether it is known already that the path names the store's file no longer. Makes no look itself.
    #[inline(always)]
    pub fn is_lost(&self) -> bool {
        self.segment.is_lost()
    }

    /// Looks whether the path still names the store's file, once a second at most; [`is_lost`](Self::is_lost) tells.
    /// Costs a look at the coarse clock otherwise.
    #[inline]
    pub fn look_for_file(&self) {
        self.segment.look_for_file(coarse_milliseconds());
    }

    /// Whether the store's file was removed or replaced under its users.
    pub fn removed(&self) -> bool {
        self.segment.removed()
    }

    /// The error of all writes, where the store's file was removed or replaced under its users.
    pub fn removal(&self) -> Option<Error> {
        self.removed().then(|| Error::of_removal(self.path()))
    }

    /// The path of the store's file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    /// Whether this handle may write.
    pub fn writable(&self) -> bool {
        self.segment.writable()
    }

    /// How long to wait for a lock whose owner makes no progress before
    /// [`undercroft_memory::Error::Busy`] is returned (default 5 s).
    pub fn set_patience(&self, patience: Duration) {
        self.segment.set_patience(patience);
    }

    /// What [`set_patience`](Self::set_patience) has set; less, where the thread's
    /// patience is [limited](crate::limit_patience).
    pub fn patience(&self) -> Duration {
        self.segment.patience()
    }

    /// Sets what is done while a thread waits for a lock.
    pub fn set_wait_hook(&mut self, hook: Box<dyn WaitHook>) {
        self.segment.set_wait_hook(hook);
    }

    /// Whether a signal has come that may want to end what this thread does; see [`WaitHook::is_signalled`].
    pub fn is_signalled(&self) -> bool {
        self.segment.is_signalled()
    }

    /// Runs a script, which holds locks; see [`WaitHook::script`].
    pub fn run_script(&self, run: &mut dyn FnMut()) {
        self.segment.run_script(run);
    }

    /// Has signal handlers run, and asks whether one of them ends what this thread does, which holds no lock; see
    /// [`WaitHook::interrupted`].
    pub fn is_interrupted(&self) -> bool {
        self.segment.is_interrupted()
    }

    /// Has a hook called in the midst of this handle's reads, or none any more; see [`undercroft_memory::race`].
    #[cfg(feature = "races")]
    pub fn interrupt_reads(&self, hook: Option<undercroft_memory::race::Hook>) {
        self.segment.interrupt_reads(hook);
    }

    /// Lets go of this process' place as if it had been killed; for tests.
    pub fn abandon(&self) {
        self.segment.abandon();
    }
}
