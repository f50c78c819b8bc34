//! The handle to a mapped store: the state that its threads share, and queries that do not access
//! the file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::mapped::disk::{Disk, LocalDisk};
use crate::mapped::fork_mutex::ForkMutex;
use crate::mapped::layout::EXTENT;
use crate::mapped::mapping::Mapping;
use crate::mapped::overlay::LoggedChanges;
use crate::processes::liveness::{FoundAlive, Suspicion};
use crate::processes::patience::{WaitHook, are_signals_deferred, is_interrupted, time_left};
use crate::processes::process::Process;
use crate::segment::shard_set::ShardSet;

/// The default for [`Segment::set_patience`].
const PATIENCE: Duration = Duration::from_secs(5);

/// Recovers from the death of a process table entry's owner (L4). The layer that opens stores
/// supplies this function, because recovery needs the undo logs, the heap and the ring.
pub(crate) type RecoverSlot = fn(&Segment, u64) -> Result<(), Error>;

/// Starts a thread of this process that syncs the journal. The layer that opens stores supplies this function, because the thread opens the store itself.
pub(crate) type StartSyncer = fn(&Segment) -> std::io::Result<()>;

/// A store file mapped into this process. Threads may share it freely. It survives `fork`: the
/// child joins the store as a separate process.
///
/// Methods, by the file that has them:
///
/// - `store_file/opening.rs`: `create`, `create_so`, `open`, `open_unclean`, `open_or_create`.
/// - `segment/state.rs`: `path`, `shards`, `hash_key`, `writable`, `set_patience`, `patience`,
///   `set_wait_hook`, `is_signalled`, `run_script`, `is_interrupted`, `last_written`, `is_alone`,
///   `set_disk`, `all_shards`, `capacity`.
/// - `views/reading.rs`: `read`, `read_into`, `read_at_once`, `read_marked`, `try_read`, `glance`,
///   `needs_look`, `read_locked`.
/// - `writing/write.rs`: `write`, `write_where`, `prepare`, `gather_run`, `has_remains`,
///   `free_remains`.
/// - `writing/reservation.rs`: `expect`.
/// - `writing/memory_return.rs`: `give_back`.
/// - `objects/staged.rs`: `stage`, `address_of`, `bytes_of`, `append_put_down`, `is_own`,
///   `take_up`, `free_dead_staged`.
/// - `objects/pinned.rs`: `pin`, `address_of_pinned`, `bytes_of_pinned`, `read_pinned`,
///   `append_pinned`, `unpin`, `pins`.
/// - `segment/following.rs`: `lock_following`, `lock_sending` and `has_sender`.
/// - `segment/settings.rs`: `max_memory`, `setting`, `script_seen`, `count_up`.
/// - `segment/change_counters.rs`: `counts_changes`, `change_epoch`, `count_changes`, `changes`.
/// - `segment/hints.rs`: `hint`, `prefetch_hint`, `set_hint`, `hints`, `grow_hints`.
/// - `segment/marks.rs`: `is_marked`, `looked_after`.
/// - `segment/upkeep.rs`: `upkeep_is_due`, `upkeep_is_due_at`, `take_upkeep`, `end_upkeep`,
///   `upkeep_place`, `set_upkeep_place`.
/// - `segment/membership.rs`: `is_lost`, `removed`, `keep_spare_slots`, `abandon`.
/// - `segment/place.rs`: `in_place`, `look_for_file`.
/// - `segment/durability.rs`: `is_synced`.
/// - `store_file/sync.rs`: `sync`.
/// - `store_file/recovery.rs`: `recover`.
/// - `recovering/journal_recovery.rs`: `recover_from`.
/// - `recovering/point_in_time.rs`: `recover_until`.
/// - `recovering/durable_opening.rs`: `open_with_journal`, `open_watched`.
/// - `store_file/syncer.rs`: `checkpoint_rate`, `checkpoint_growth`, `begin_checkpoint`.
/// - `store_file/truncation.rs`: `tell_when_lost`.
/// - `locking/shard_locks.rs`: `is_locked`.
/// - `locking/log_retirement.rs`: `shrink_log`, `shrink_logs_now`.
/// - `journal/keeping.rs`: `keep_journal`.
/// - `writing/changed_settings.rs`: `set_max_memory`, `set_setting`, `change_setting`.
/// - `heap/backing.rs`: `granted_bytes`.
/// - `heap/trim.rs`: `trim`.
/// - `heap/survey.rs`: `survey`.
/// - `messages/ring.rs`: `ring_size`, `ring_reserved`, `record_max`, `ring_records`, `ring_tail`.
/// - `messages/ring_writer.rs`: `append`, `append_all`, `ring_counts`.
/// - `messages/waiters.rs`: `take_seat`, `is_seated`, `leave_seat`, `seat_here`, `is_seat_here`,
///   `seat_is_stale`, `seat_lives`, `seat_lives_at`, `seat_lives_now`, `forget_who_lives`,
///   `wake_seat`, `wake_seats`, `arm_seat`, `disarm_seat`, `is_armed`, `wait_at`.
/// - `messages/bell.rs`: `bell`.
/// - `messages/changed_keys_reader.rs`: `read_changed_keys`.
/// - `messages/tracked_keys.rs`: `is_key_tracked`, `track_key`, `tracked_slot`, `untrack_keys`,
///   `track_all_keys`.
/// - `messages/trackers.rs`: `is_tracked`, `begin_tracking`, `end_tracking`, `wake_trackers`,
///   `forget_dead_trackers`.
/// - `copying/image.rs`: `image`.
/// - `copying/area.rs`: `free_dead_copy`.
/// - `checkpoints/checkpoint.rs`: `checkpoint`.
/// - `checkpoints/durability.rs`: `durability`, `begin_journal`, `set_durability`, `end_journal`,
///   `make_durable`, `first_difference`, `journal_is_in_memory`, `journal`.
/// - `journal/deferral.rs`: `deferring`, `defer_until`, `end_deferral`, `wait_until_durable`,
///   `is_durable`, `journal_head`.
/// - `inspection/check.rs`: `check`.
/// - `inspection/statistics.rs`: `statistics`, `used_bytes`, `members`, `held_locks`.
/// - `inspection/users.rs`: `users`.
pub struct Segment {
    pub(crate) mapping: Mapping,
    pub(crate) process: Process,
    hash_key: [u64; 2],
    patience: AtomicU64,
    hook: Option<Box<dyn WaitHook>>,
    /// Recovers from the death of a process table entry's earlier owner, before this process uses
    /// the entry (L4).
    pub(super) recover_slot: RecoverSlot,
    pub(crate) start_syncer: StartSyncer,
    pub(super) suspicions: Vec<Suspicion>,
    /// For each shard, this process's progress in growing the hint table: the number of bytes
    /// copied in the lower half, and the logarithm of the table's length in the upper half.
    pub(crate) hints_copied: Vec<AtomicU64>,
    /// When this process last checked that the mapped file is at its path, by the coarse clock.
    pub(super) place_checked: AtomicU64,
    /// When a reader last checked whether the writer of an unfinished change is alive, by the
    /// coarse clock.
    pub(crate) writer_probed: AtomicU64,
    /// When this process last wrote, by the coarse clock.
    pub(super) written: AtomicU64,
    /// Whether the mapped file is known to be no longer at its path.
    pub(super) removed: AtomicBool,
    /// The identifier of this boot, which is stored in the header while the store is being changed.
    pub(super) boot: u64,
    /// The cache of seat owners that were recently found alive.
    pub(crate) found_alive: FoundAlive,
    /// For each shard, the coarse time until which this process may ignore the shard's mark,
    /// because the process has just cleaned up the shard.
    pub(crate) looked_after: Vec<AtomicU64>,
    /// The extent at which the next search for a multi-page run resumes, after trying the lowest
    /// extents.
    pub(crate) search_from: AtomicU64,
    /// When this process last found the store full, in milliseconds since boot.
    pub(crate) full_at: AtomicU64,
    /// For each shard, an overlay that is built from the log of a long-running change and cached
    /// for readers.
    pub(crate) logged_changes: Vec<ForkMutex<Option<LoggedChanges>>>,
    /// The owner value under which this process is copying the store, or 0. A forked child has a
    /// different owner value.
    pub(crate) copying_as: AtomicU32,
    /// Whether the file is mapped privately, which hides all writes from other processes.
    pub(crate) is_alone: bool,
    /// The disk on which the journal is kept.
    disk: Box<dyn Disk>,
    /// The sign of life of this process's thread that syncs the journal.
    pub(crate) syncer: Arc<AtomicU64>,
}

impl Segment {
    pub(crate) fn new(
        mapping: Mapping,
        process: Process,
        hash_key: [u64; 2],
        boot: u64,
        recover_slot: RecoverSlot,
        start_syncer: StartSyncer,
    ) -> Segment {
        let shards = 0..mapping.layout().shards;
        let hints_copied = shards.clone().map(|_| AtomicU64::new(0)).collect();
        let looked_after = shards.clone().map(|_| AtomicU64::new(0)).collect();
        let logged_changes = shards.map(|_| ForkMutex::default()).collect();
        let suspicions = (0..mapping.layout().shards + 3)
            .map(|_| Suspicion::default())
            .collect();
        Segment {
            hints_copied,
            mapping,
            process,
            hash_key,
            patience: AtomicU64::new(PATIENCE.as_millis() as u64),
            hook: None,
            recover_slot,
            start_syncer,
            suspicions,
            place_checked: AtomicU64::new(0),
            writer_probed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            removed: AtomicBool::new(false),
            boot,
            found_alive: FoundAlive::default(),
            looked_after,
            logged_changes,
            search_from: AtomicU64::new(0),
            full_at: AtomicU64::new(u64::MAX / 2),
            copying_as: AtomicU32::new(0),
            is_alone: false,
            disk: Box::new(LocalDisk),
            syncer: Arc::default(),
        }
    }

    /// Returns the absolute path of the store, as passed when the store was opened.
    pub fn path(&self) -> &Path {
        self.process.path()
    }

    /// Returns the number of shards.
    #[inline(always)]
    pub fn shards(&self) -> usize {
        self.mapping.layout().shards
    }

    /// Returns the store's secret key for hashing the keys of the key space.
    #[inline(always)]
    pub fn hash_key(&self) -> [u64; 2] {
        self.hash_key
    }

    /// Returns true if this handle may write.
    pub fn writable(&self) -> bool {
        self.mapping.writable()
    }

    /// Sets how long to wait for a lock whose owner makes no progress. After that time, the wait
    /// fails with [`Error::Busy`]. The default is 5 s.
    pub fn set_patience(&self, patience: Duration) {
        let milliseconds = patience.as_millis().min(u128::from(u64::MAX)) as u64;
        self.patience.store(milliseconds, Ordering::Relaxed);
    }

    /// Returns the timeout set by [`set_patience`](Self::set_patience), or less if the thread's
    /// patience is [limited](crate::limit_patience).
    pub fn patience(&self) -> Duration {
        let set = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        time_left().map_or(set, |left| left.min(set))
    }

    /// Sets a hook that runs while a thread waits for a lock.
    pub fn set_wait_hook(&mut self, hook: Box<dyn WaitHook>) {
        self.hook = Some(hook);
    }

    /// Sets or removes a hook that is called during this handle's reads. See
    /// [`race`](crate::probes::race).
    #[cfg(feature = "races")]
    pub fn interrupt_reads(&self, hook: Option<crate::probes::race::Hook>) {
        self.mapping.race().set(hook);
    }

    /// Returns true if a signal has arrived that may interrupt this thread's operation. See
    /// [`WaitHook::is_signalled`].
    pub fn is_signalled(&self) -> bool {
        !are_signals_deferred() && self.hook().is_some_and(WaitHook::is_signalled)
    }

    /// Runs a script through the wait hook, if a hook is set. See [`WaitHook::script`].
    pub fn run_script(&self, run: &mut dyn FnMut()) {
        match self.hook() {
            Some(hook) => hook.script(run),
            None => run(),
        }
    }

    /// Runs signal handlers and returns true if one of them interrupts this thread's operation. The
    /// thread must hold no lock. See [`WaitHook::interrupted`].
    pub fn is_interrupted(&self) -> bool {
        self.hook().is_some_and(is_interrupted)
    }

    pub(crate) fn hook(&self) -> Option<&dyn WaitHook> {
        self.hook.as_deref()
    }

    /// Returns when this process last started to write, as a
    /// [`coarse_milliseconds`](crate::coarse_milliseconds) time. Saves a writer a second clock
    /// reading.
    #[inline]
    pub fn last_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns true if writes through this handle are hidden from all other processes.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Replaces the disk on which the journal is kept, for tests.
    pub fn set_disk(&mut self, disk: Box<dyn Disk>) {
        self.disk = disk;
    }

    /// Returns the disk on which the journal is kept.
    pub(crate) fn disk(&self) -> &dyn Disk {
        self.disk.as_ref()
    }

    /// Returns the set of all shards in the store.
    pub fn all_shards(&self) -> ShardSet {
        ShardSet::first(self.shards())
    }

    /// Returns the size of the heap's address space in bytes, computed from the layout without
    /// reading the file.
    #[inline]
    pub fn capacity(&self) -> u64 {
        self.mapping.layout().extents * EXTENT
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.process.end(&self.mapping);
    }
}
