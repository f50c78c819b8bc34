//! Reads that do not succeed at once: of several shards, of shards in the midst of changes, and under a lock in the end
//! (R1, R4, R5, R9, R10).

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
use crate::segment::waiting::{Waiter, Which};
use crate::segment::{Segment, counter, membership};
use crate::views::scratch::Scratch;
use crate::views::through_log::{Interference, LookBack};
use crate::views::view::{Notes, View};

/// Attempts of an optimistic read before it takes the lock (R1).
pub(crate) const READ_ATTEMPTS: u32 = 64;
/// Looks at an odd counter before the shard is read through its log (R9). A short change is over before.
const ODD_SPINS: u32 = 64;
/// Bytes of a try that is long, of which so many may be thrown away before the read takes the lock (R10);
const LONG_TRY: u64 = 1 << 20;
const LONG_TRIES: u32 = 2;
/// and bytes of all tries together.
const WASTE_MOST: u64 = 8 << 20;
/// How long a reader waits for a lock before it tries again without.
const LOCK_WAIT: Duration = Duration::from_millis(10);
/// Milliseconds after which the readers of this process ask again whether a writer is alive, which is a system call.
const WRITER_PROBE: u64 = 10;

/// What tries came to that were thrown away (R10).
#[derive(Default)]
pub(crate) struct Wasted {
    bytes: u64,
    long: u32,
}

impl Wasted {
    /// Whether a try of so many bytes is one too many.
    #[cold]
    pub(crate) fn is_much(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.long += u32::from(bytes > LONG_TRY);
        self.long >= LONG_TRIES || self.bytes > WASTE_MOST
    }
}

/// How shards may be read whose counters were noted.
enum CounterState {
    /// At once.
    Plain,
    /// Somebody has to look after one of them first.
    Marked,
    /// One was being changed, and is in another state by now.
    Changing,
    /// This one is in the midst of a change that takes longer.
    Unfinished(usize),
}

/// Whether the counter of a shard that is being changed has another value within a moment.
#[cold]
pub(crate) fn has_changed_soon(segment: &Segment, index: usize, noted: u64) -> bool {
    let at = segment.mapping.layout().shard(index) + shard::COUNTER;
    (0..ODD_SPINS).any(|_| {
        std::hint::spin_loop();
        segment.mapping.load(at) != noted
    })
}

/// Notes the counters of shards, and says how they may be read.
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

/// Recovers a shard whose writer died in the middle of a change, if this process writes as well: later reads are plain
/// ones then. It never waits, and leaves alone a shard that cannot be recovered.
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
    let mut waiter = Waiter::new(segment, Which::Shard(index), Duration::ZERO).probe_first();
    if lock::acquire(word, segment.process.owner(), &mut waiter).is_err() {
        return false;
    }
    let _unlock = Unlock {
        segment,
        shards: ShardSet::one(index),
    };
    recovery::settle(segment, index, Marks::Ignored).is_ok()
}

/// Whether a shard had a mark, before the changes that are read back, which keeps the reader out (L5).
#[cold]
fn is_kept_out(segment: &Segment, view: &View<'_>, shards: ShardSet) -> bool {
    let mut marked = shards.iter().filter(|&index| view.mark(index) != 0);
    marked.any(|index| !marks::was_looked_after(segment, index))
}

/// Tries to read shards as they were at one moment; none where others keep changing them.
pub(crate) fn read_many<S: Scratch, R, E: From<Error>>(
    segment: &Segment,
    shards: ShardSet,
    marks: Marks,
    scratch: &mut S,
    body: &impl Fn(&View<'_>, &mut S) -> Result<R, E>,
) -> Option<Result<R, E>> {
    let mut counters = [0; SHARDS_MAX];
    let counters = &mut counters[..shards.len()];
    let mut back: Option<LookBack<'_>> = None;
    let mut wasted = Wasted::default();
    for _ in 0..READ_ATTEMPTS {
        if back.is_none() {
            match note_all(segment, shards, marks, counters) {
                CounterState::Plain => {}
                CounterState::Marked => return Some(Err(Error::Marked.into())),
                // Who looks after marks writes next, for which it waits anyway.
                CounterState::Unfinished(index) if marks == Marks::Respected => {
                    if has_recovered(segment, index) {
                        continue;
                    }
                    back = LookBack::new(segment, shards, counters);
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

/// Reads shards under their locks or, where these are not free, without: until the patience is used up.
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
    // Who cannot join (the file was removed, the process table is full) reads
    // on without a lock, as a read-only handle does.
    let locks = segment.writable() && membership::join(segment).is_ok();
    loop {
        let patience = segment.patience();
        let busy = match locks {
            true => {
                // While the lock is not free the shard may come to be read through its log.
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
        // R5: the patience is used up, without any progress where locks are waited for.
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

/// A moment in which others may end what they do.
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

/// Who keeps the shards from being read.
fn explain_odd(segment: &Segment, shards: ShardSet) -> Error {
    for index in shards.iter() {
        let base = segment.mapping.layout().shard(index);
        let word = segment
            .mapping
            .half(base + shard::LOCK)
            .load(Ordering::Relaxed);
        if segment.mapping.load(base + shard::COUNTER) & counter::ODD != 0 {
            if word == lock::FREE {
                // Left by a process whose rollback could not be finished.
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
