//! Reads that do not succeed on the first attempt: reads of several shards, reads of shards that
//! are being changed, and finally reads under a lock (R1, R4, R5, R9, R10).

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::{Error, Holder};
use crate::locking::recovery;
use crate::locking::shard_locks::{self, Unlock};
use crate::mapped::layout::{SHARDS_MAX, shard};
use crate::mapped::platform;
use crate::probes::race::Moment;
use crate::processes::lock::{self, Owner};
use crate::processes::patience::{self, limit_patience};
use crate::segment::marks::{self, Marks};
use crate::segment::shard_set::ShardSet;
use crate::segment::waiting::{WaitedLock, Waiter};
use crate::segment::{Segment, counter, membership};
use crate::views::scratch::Scratch;
use crate::views::through_log::{Interference, OldStateView};
use crate::views::view::{Notes, View};

/// The number of attempts that an optimistic read makes before acquiring the lock (R1).
pub(crate) const READ_ATTEMPTS: u32 = 64;
/// The number of spins on an odd counter before the shard is read through its log (R9). A short
/// change finishes within that time.
const ODD_SPINS: u32 = 64;
/// The number of bytes above which an attempt counts as long. After `LONG_TRIES` discarded long
/// attempts, the read acquires the lock (R10).
const LONG_TRY: u64 = 1 << 20;
const LONG_TRIES: u32 = 2;
/// The maximum total number of bytes that the discarded attempts of a read may have read.
const WASTE_MOST: u64 = 8 << 20;
/// How long a reader waits for a lock before it retries without a lock.
const LOCK_WAIT: Duration = Duration::from_millis(10);
/// The minimum interval in milliseconds between this process's checks whether a writer is alive. A
/// check costs a system call.
const WRITER_PROBE: u64 = 10;

/// The amount of work wasted in discarded attempts (R10).
#[derive(Default)]
pub(crate) struct WastedWork {
    bytes: u64,
    long: u32,
}

impl WastedWork {
    /// Records a discarded attempt that read `bytes` bytes. Returns true if too much work has been
    /// wasted.
    #[cold]
    pub(crate) fn is_much(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.long += u32::from(bytes > LONG_TRY);
        self.long >= LONG_TRIES || self.bytes > WASTE_MOST
    }
}

/// How shards may be read, according to their recorded counters.
enum CounterState {
    /// All shards can be read directly.
    Plain,
    /// At least one of the shards must be cleaned up first.
    Marked,
    /// A shard was being changed, but its counter has advanced since.
    Changing,
    /// The shard with this index is in the middle of a long change.
    Unfinished(usize),
}

/// Returns true if the counter of a shard that is being changed advances within a short spin.
#[cold]
pub(crate) fn has_changed_soon(segment: &Segment, index: usize, noted: u64) -> bool {
    let at = segment.mapping.layout().shard(index) + shard::COUNTER;
    (0..ODD_SPINS).any(|_| {
        std::hint::spin_loop();
        segment.mapping.load(at) != noted
    })
}

/// Records the counters of shards and returns how the shards may be read.
fn note_all(
    segment: &Segment,
    shards: ShardSet,
    marks: Marks,
    counters: &mut [u64],
) -> CounterState {
    let (mut odd, mut marked) = (None, false);
    for (place, index) in counters.iter_mut().zip(shards.iter()) {
        let at = segment.mapping.layout().shard(index) + shard::COUNTER;
        *place = counter::note(segment.mapping.word(at));
        if !counter::is_plain(*place) {
            marked |= *place & counter::MARK != 0
                && marks == Marks::Respected
                && !marks::was_looked_after(segment, index);
            odd = (*place & counter::ODD != 0)
                .then_some((index, *place))
                .or(odd);
        }
    }
    match odd {
        Some((index, noted)) if has_changed_soon(segment, index, noted) => CounterState::Changing,
        Some((index, _)) => CounterState::Unfinished(index),
        None if marked => CounterState::Marked,
        None => CounterState::Plain,
    }
}

/// Recovers a shard whose writer died in the middle of a change, so that later reads are direct.
/// Only a process that has joined the store can do this. It never waits, and it skips a shard that
/// cannot be recovered.
#[cold]
fn has_recovered(segment: &Segment, index: usize) -> bool {
    if !segment.process.claimed() {
        return false;
    }
    let now = platform::coarse_milliseconds();
    let probed = segment.writer_probed.load(Ordering::Relaxed);
    if now.wrapping_sub(probed) < WRITER_PROBE
        || segment
            .writer_probed
            .compare_exchange(probed, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
    {
        return false;
    }
    let word = segment.mapping.shard_words(index).lock();
    let mut waiter = Waiter::new(segment, WaitedLock::Shard(index), Duration::ZERO).probe_first();
    if lock::acquire(word, segment.process.owner(), &mut waiter).is_err() {
        return false;
    }
    let _unlock = Unlock {
        segment,
        shards: ShardSet::one(index),
    };
    recovery::settle(segment, index, Marks::Ignored).is_ok()
}

/// Returns true if the reader is blocked because a shard was marked before the unfinished changes
/// (L5).
#[cold]
fn is_kept_out(segment: &Segment, view: &View<'_>, shards: ShardSet) -> bool {
    let mut marked = shards.iter().filter(|&index| view.mark(index) != 0);
    marked.any(|index| !marks::was_looked_after(segment, index))
}

/// Tries to read a consistent state of several shards. Returns `None` if other processes keep
/// changing them.
pub(crate) fn read_many<S: Scratch, R, E: From<Error>>(
    segment: &Segment,
    shards: ShardSet,
    marks: Marks,
    scratch: &mut S,
    body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
) -> Option<Result<R, E>> {
    let mut counters = [0; SHARDS_MAX];
    let counters = &mut counters[..shards.len()];
    let mut back: Option<OldStateView<'_>> = None;
    let mut wasted = WastedWork::default();
    for _ in 0..READ_ATTEMPTS {
        if back.is_none() {
            match note_all(segment, shards, marks, counters) {
                CounterState::Plain => {}
                CounterState::Marked => return Some(Err(Error::Marked.into())),
                // A caller that ignores marks will next write in order to clean up the shards, and
                // must wait for the writer anyway.
                CounterState::Unfinished(index) if marks == Marks::Respected => {
                    if has_recovered(segment, index) {
                        continue;
                    }
                    back = OldStateView::new(segment, shards, counters);
                    if back.is_none() {
                        continue;
                    }
                }
                CounterState::Unfinished(_) | CounterState::Changing => continue,
            }
        }
        let view = match &back {
            None => View::new(&segment.mapping, Notes::Many(shards, counters)),
            Some(back) => {
                back.begin();
                View::new(&back.before, Notes::Back(back))
            }
        };
        if back.is_some() && is_kept_out(segment, &view, shards) {
            return Some(Err(Error::Marked.into()));
        }
        scratch.clear();
        let result = body(&view, scratch);
        segment.mapping.race().at(Moment::Tried);
        let meanwhile = match &back {
            Some(back) => back.interference(),
            None if view.unchanged() => Interference::Nothing,
            None => Interference::Ended,
        };
        match meanwhile {
            Interference::Nothing => return Some(result),
            Interference::Torn => {}
            Interference::Ended => {
                let done = view.done();
                back = None;
                if wasted.is_much(done) {
                    break;
                }
            }
        }
    }
    None
}

/// Reads shards under their locks, or without them if another process holds the locks, until the
/// timeout.
#[cold]
pub(crate) fn read_slowly<S: Scratch, R, E: From<Error>>(
    segment: &Segment,
    shards: ShardSet,
    marks: Marks,
    scratch: &mut S,
    body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
) -> Result<R, E> {
    let mut since = Instant::now();
    let mut seen = 0;
    // A process that cannot join the store (file removed, process table full) keeps reading without
    // a lock, like a read-only handle.
    let locks = segment.writable() && membership::join(segment).is_ok();
    loop {
        let patience = segment.patience();
        let busy = match locks {
            true => {
                // Wait only briefly: even if the lock stays held, the shard may become readable
                // through its log.
                let limited = limit_patience(LOCK_WAIT);
                match shard_locks::lock(segment, shards, marks) {
                    Ok(_) => {
                        let _unlock = Unlock { segment, shards };
                        drop(limited);
                        scratch.clear();
                        let view = View::new(&segment.mapping, Notes::Locked);
                        return body(&view, scratch);
                    }
                    Err(error @ Error::Busy { .. }) => Some(error),
                    Err(error) => return Err(error.into()),
                }
            }
            false => None,
        };
        if let Some(result) = read_many(segment, shards, marks, scratch, body) {
            return result;
        }
        // Give up at the timeout. If this process can acquire locks, only time without progress
        // counts (R5).
        let counters = shards.iter().map(|index| {
            let at = segment.mapping.layout().shard(index) + shard::COUNTER;
            segment.mapping.load(at)
        });
        let now = counters.fold(0_u64, u64::wrapping_add);
        if locks && std::mem::replace(&mut seen, now) != now {
            since = Instant::now();
        }
        if since.elapsed() >= patience {
            return Err(busy.unwrap_or_else(|| explain_odd(segment, shards)).into());
        }
        if !locks {
            pause(segment)?;
        }
    }
}

/// Pauses briefly, so that other processes can complete their changes.
fn pause(segment: &Segment) -> Result<(), Error> {
    let pause = || std::thread::sleep(Duration::from_millis(1));
    let Some(hook) = segment.hook() else {
        pause();
        return Ok(());
    };
    hook.blocked(&mut || pause());
    match patience::is_interrupted(hook) {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// Returns an error with the ID of the process that prevents reading the shards.
fn explain_odd(segment: &Segment, shards: ShardSet) -> Error {
    for index in shards.iter() {
        let base = segment.mapping.layout().shard(index);
        let word = segment
            .mapping
            .half(base + shard::LOCK)
            .load(Ordering::Relaxed);
        if segment.mapping.load(base + shard::COUNTER) & counter::ODD != 0 {
            if word == lock::FREE {
                // The lock is free, so its last owner died and its change was not completely rolled
                // back.
                return Error::Busy {
                    holder: Holder::Dead,
                    pid: 0,
                };
            }
            return segment.process.describe(&segment.mapping, Owner::of(word));
        }
    }
    Error::Busy {
        holder: Holder::Active,
        pid: 0,
    }
}
