//! The handle on a mapped store: the state that its threads share, and what can be asked of it without a look at the file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::mapped::fork_mutex::ForkMutex;
use crate::mapped::layout::EXTENT;
use crate::mapped::mapping::Mapping;
use crate::mapped::overlay::LoggedChanges;
use crate::processes::liveness::{FoundAlive, Suspicion};
use crate::processes::patience::{WaitHook, are_signals_deferred, is_interrupted, time_left};
use crate::processes::process::Process;
use crate::segment::shard_set::ShardSet;

/// Default for [`Segment::set_patience`].
const PATIENCE: Duration = Duration::from_secs(5);

/// Recovers what the dead owner of an entry of the process table left (L4): handed down by the floor that opens stores, as
/// it needs the undo logs, the heap and the ring.
pub(crate) type RecoverSlot = fn(&Segment, u64) -> Result<(), Error>;

/// A store file mapped into this process. Shared freely between threads;
/// survives `fork` (the child joins as a process of its own).
///
/// Its methods, by the file that has them:
///
/// - `store_file/opening.rs`: `create`, `create_so`, `open`, `open_unclean`, `open_or_create`.
/// - `segment/state.rs`: `path`, `shards`, `hash_key`, `writable`, `set_patience`, `patience`, `set_wait_hook`,
///   `is_signalled`, `run_script`, `is_interrupted`, `last_written`, `is_alone`, `all_shards`, `capacity`.
/// - `views/reading.rs`: `read`, `read_into`, `read_at_once`, `read_marked`, `try_read`, `glance`, `needs_look`,
///   `read_locked`.
/// - `writing/write.rs`: `write`, `write_where`, `prepare`, `gather_run`, `has_remains`, `free_remains`.
/// - `writing/reservation.rs`: `expect`.
/// - `writing/give_back.rs`: `give_back`.
/// - `objects/staged.rs`: `stage`, `address_of`, `bytes_of`, `append_put_down`, `is_own`, `take_up`,
///   `free_dead_staged`.
/// - `objects/pinned.rs`: `pin`, `address_of_pinned`, `bytes_of_pinned`, `read_pinned`, `append_pinned`, `unpin`,
///   `pins`.
/// - `segment/settings.rs`: `max_memory`, `set_max_memory`, `setting`, `script_seen`, `set_setting`, `count_up`.
/// - `segment/change_counters.rs`: `counts_changes`, `change_epoch`, `count_changes`, `changes`.
/// - `segment/hints.rs`: `hint`, `prefetch_hint`, `set_hint`, `hints`, `grow_hints`.
/// - `segment/marks.rs`: `is_marked`, `looked_after`.
/// - `segment/upkeep.rs`: `upkeep_is_due`, `upkeep_is_due_at`, `take_upkeep`, `end_upkeep`, `upkeep_place`,
///   `set_upkeep_place`.
/// - `segment/membership.rs`: `is_lost`, `removed`, `keep_spare_slots`, `abandon`.
/// - `segment/place.rs`: `in_place`, `look_for_file`.
/// - `segment/durability.rs`: `is_synced`.
/// - `store_file/sync.rs`: `sync`.
/// - `store_file/recovery.rs`: `recover`.
/// - `store_file/truncation.rs`: `tell_when_lost`.
/// - `locking/shard_locks.rs`: `is_locked`.
/// - `locking/log_retirement.rs`: `shrink_log`, `shrink_logs_now`.
/// - `heap/backing.rs`: `granted_bytes`.
/// - `heap/trim.rs`: `trim`.
/// - `heap/survey.rs`: `survey`.
/// - `messages/ring.rs`: `ring_size`, `ring_reserved`, `record_max`, `ring_records`, `ring_tail`.
/// - `messages/ring_writer.rs`: `append`, `append_all`, `ring_counts`.
/// - `messages/waiters.rs`: `take_seat`, `is_seated`, `leave_seat`, `seat_here`, `is_seat_here`, `seat_is_stale`,
///   `seat_lives`, `seat_lives_at`, `seat_lives_now`, `forget_who_lives`, `wake_seat`, `wake_seats`, `arm_seat`,
///   `disarm_seat`, `is_armed`, `wait_at`.
/// - `messages/bell.rs`: `bell`.
/// - `copying/image.rs`: `image`.
/// - `copying/area.rs`: `free_dead_copy`.
/// - `inspection/check.rs`: `check`.
/// - `inspection/statistics.rs`: `statistics`, `used_bytes`, `members`, `held_locks`.
/// - `inspection/users.rs`: `users`.
pub struct Segment {
    pub(crate) mapping: Mapping,
    pub(crate) process: Process,
    hash_key: [u64; 2],
    patience: AtomicU64,
    hook: Option<Box<dyn WaitHook>>,
    /// Recovers what an earlier owner of an entry left, before this process uses the entry (L4).
    pub(super) recover_slot: RecoverSlot,
    pub(super) suspicions: Vec<Suspicion>,
    /// How much of its hint table this process has copied behind it, for each
    /// shard: bytes, and above them the table's length.
    pub(crate) hints_copied: Vec<AtomicU64>,
    /// The coarse clock when this process last looked whether the path names the file.
    pub(super) place_checked: AtomicU64,
    /// The coarse clock when a reader last asked whether the writer lives whose change it met.
    pub(crate) writer_probed: AtomicU64,
    /// The coarse clock at the last write.
    pub(super) written: AtomicU64,
    /// Whether the path was found not to name the file any more.
    pub(super) removed: AtomicBool,
    /// The boot that the header names while the store is being changed.
    pub(super) boot: u64,
    /// Owners of seats that were just found alive.
    pub(crate) found_alive: FoundAlive,
    /// When somebody looked after each shard, by the coarse clock.
    pub(crate) looked_after: Vec<AtomicU64>,
    /// The extent that the next search for a run of several pages goes on with, below the lowest ones.
    pub(crate) search_from: AtomicU64,
    /// When this process last found the store full, in milliseconds of a clock since the machine's start.
    pub(crate) full_at: AtomicU64,
    /// What the logs of changes that take long have laid over each shard, for readers.
    pub(crate) logged_changes: Vec<ForkMutex<Option<LoggedChanges>>>,
    /// As whom this process is copying the store now; 0 where it does not. A forked child is somebody else.
    pub(crate) copying_as: AtomicU32,
    /// Whether nobody else sees what is written: the file is mapped privately.
    pub(crate) is_alone: bool,
}

impl Segment {
    pub(crate) fn new(
        mapping: Mapping,
        process: Process,
        hash_key: [u64; 2],
        boot: u64,
        recover_slot: RecoverSlot,
    ) -> Segment {
        let shards = 0..mapping.layout().shards;
        let hints_copied = shards.clone().map(|_| AtomicU64::new(0)).collect();
        let looked_after = shards.clone().map(|_| AtomicU64::new(0)).collect();
        let logged_changes = shards.map(|_| ForkMutex::default()).collect();
        let suspicions = (0..mapping.layout().shards + 2)
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
        }
    }

    /// The path by which the store was opened, made absolute.
    pub fn path(&self) -> &Path {
        self.process.path()
    }

    /// Number of shards.
    #[inline(always)]
    pub fn shards(&self) -> usize {
        self.mapping.layout().shards
    }

    /// The store's secret key for hashing keys of the key space.
    #[inline(always)]
    pub fn hash_key(&self) -> [u64; 2] {
        self.hash_key
    }

    /// Whether this handle may write.
    pub fn writable(&self) -> bool {
        self.mapping.writable()
    }

    /// How long to wait for a lock whose owner makes no progress before
    /// [`Error::Busy`] is returned (default 5 s).
    pub fn set_patience(&self, patience: Duration) {
        let milliseconds = patience.as_millis().min(u128::from(u64::MAX)) as u64;
        self.patience.store(milliseconds, Ordering::Relaxed);
    }

    /// What [`set_patience`](Self::set_patience) has set; less, where the thread's
    /// patience is [limited](crate::limit_patience).
    pub fn patience(&self) -> Duration {
        let set = Duration::from_millis(self.patience.load(Ordering::Relaxed));
        time_left().map_or(set, |left| left.min(set))
    }

    /// Sets what is done while a thread waits for a lock.
    pub fn set_wait_hook(&mut self, hook: Box<dyn WaitHook>) {
        self.hook = Some(hook);
    }

    /// Has a hook called in the midst of this handle's reads, or none any more; see [`race`](crate::probes::race).
    #[cfg(feature = "races")]
    pub fn interrupt_reads(&self, hook: Option<crate::probes::race::Hook>) {
        self.mapping.race().set(hook);
    }

    /// Whether a signal has come that may want to end what this thread does; see [`WaitHook::is_signalled`].
    pub fn is_signalled(&self) -> bool {
        !are_signals_deferred() && self.hook().is_some_and(WaitHook::is_signalled)
    }

    /// Runs a script; see [`WaitHook::script`].
    pub fn run_script(&self, run: &mut dyn FnMut()) {
        match self.hook() {
            Some(hook) => hook.script(run),
            None => run(),
        }
    }

    /// Has signal handlers run, and asks whether one of them ends what this thread does, which holds no lock; see
    /// [`WaitHook::interrupted`].
    pub fn is_interrupted(&self) -> bool {
        self.hook().is_some_and(is_interrupted)
    }

    pub(crate) fn hook(&self) -> Option<&dyn WaitHook> {
        self.hook.as_deref()
    }

    /// When this process last began to write: milliseconds since boot, as
    /// [`coarse_milliseconds`](crate::coarse_milliseconds). Spares a writer a
    /// second look at the clock.
    #[inline]
    pub fn last_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether nobody but this handle sees the store as it does.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// All shards of the store.
    pub fn all_shards(&self) -> ShardSet {
        ShardSet::first(self.shards())
    }

    /// Address space for the heap in bytes, of which the mapped layout tells without a look at the file.
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
