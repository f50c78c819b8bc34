//! Collects the statistics that INFO shows about commands and errors: calls, durations and
//! failures.
//!
//! Each thread updates its own counters once per batch of commands
//! ([`Context::begin_batch`](crate::Context::begin_batch)) instead of once per command. Only INFO,
//! LATENCY and CONFIG RESETSTAT lock the counters of other threads.
//!
//! `context`, `handlers` and `execute` call this module. Servers record events and read statistics.
//!
//! - `checkpoints`: counts the checkpoints that this process has written on request.
//! - `distribution`: computes cumulative call counts by duration, for LATENCY HISTOGRAM.
//! - `lap`: counts the calls of commands that are timed together.
//! - `latency`: records the slow events of this process, which LATENCY shows.
//! - `slowlog`: stores the log of slow commands that SLOWLOG shows.
//! - `trace`: records the commands of one script, for MONITOR and the slow log.

pub(crate) mod checkpoints;
mod distribution;
mod lap;
pub mod latency;
pub mod slowlog;
mod trace;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use hdrhistogram::Histogram;
use sha1_smol::Sha1;
use undercroft_engine::{ForkGuard, ForkMutex};

use crate::table::{Command, with_subcommands};

pub use distribution::Distribution;
use lap::error_code;
pub(crate) use lap::{CallCount, Lap};
pub(crate) use trace::Trace;

/// The longest duration that histograms can represent, in nanoseconds. Redis has the same limit.
const LONGEST: u64 = 1_000_000_000;
/// The number of significant decimal digits in histograms, as in Redis.
const DIGITS: u8 = 2;
/// The maximum number of distinct error codes that a thread counts.
const ERRORS: usize = 128;

/// The totals for one command, in a single thread or over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of calls that ran.
    pub calls: u64,
    /// The number of calls that were timed.
    pub timed: u64,
    /// The total duration of the timed calls, in nanoseconds.
    pub time: u64,
    /// The number of calls that were refused before they ran.
    pub rejected: u64,
    /// The number of calls that ran and replied with an error.
    pub failed: u64,
}

impl Totals {
    /// Returns the average duration of a timed call in nanoseconds, or 0 if no call was timed.
    pub fn mean(&self) -> f64 {
        self.time as f64 / self.timed.max(1) as f64
    }

    fn add(&mut self, other: &Totals) {
        self.calls += other.calls;
        self.timed += other.timed;
        self.time += other.time;
        self.rejected += other.rejected;
        self.failed += other.failed;
    }
}

/// The counters of one command in one thread.
struct Tally {
    totals: Totals,
    /// A histogram of call durations, which is created when the first call is tracked.
    times: Option<Histogram<u64>>,
}

/// The counters of one thread.
#[derive(Default)]
struct ThreadCounts {
    /// The counters of each command, keyed by the command's address in the table.
    commands: HashMap<usize, Tally, BuildHasherDefault<AddressHasher>>,
    /// The number of errors, keyed by error code.
    errors: BTreeMap<Box<str>, u64>,
}

impl ThreadCounts {
    #[inline]
    fn tally(&mut self, command: &'static Command) -> &mut Tally {
        let tally = self.commands.entry(ptr::from_ref(command).addr());
        tally.or_insert_with(|| Tally {
            totals: Totals::default(),
            times: None,
        })
    }
}

/// The counters of one thread, aligned so that threads do not share cache lines.
#[derive(Default)]
#[repr(align(128))]
struct ThreadCounter(ForkMutex<ThreadCounts>);

impl ThreadCounter {
    #[inline]
    fn lock(&self) -> ForkGuard<'_, ThreadCounts> {
        // Ignore poisoning: every update is a plain addition, so a panic leaves no inconsistent
        // state.
        self.0.lock()
    }
}

/// The counters of a server, or of a process that embeds a store, since it started or since the
/// last CONFIG RESETSTAT.
pub struct Statistics {
    parts: Box<[ThreadCounter]>,
    run: String,
    most_memory: AtomicU64,
}

impl Statistics {
    /// Returns counters for the given number of threads, all set to zero.
    pub fn new(threads: usize) -> Statistics {
        Statistics {
            parts: (0..threads.max(1))
                .map(|_| ThreadCounter::default())
                .collect(),
            run: run_id(),
            most_memory: AtomicU64::new(0),
        }
    }

    /// Returns the ID of this server run, which consists of 40 random hexadecimal digits.
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Records the current memory usage, and returns the peak usage recorded so far.
    pub fn see_memory(&self, used: u64) -> u64 {
        self.most_memory
            .fetch_max(used, Ordering::Relaxed)
            .max(used)
    }

    /// Counts an error reply in a thread's counters, by its error code, which is the first word.
    #[cold]
    pub fn count_error(&self, thread: usize, text: &str) {
        self.count_errors(thread, error_code(text), 1);
    }

    /// Counts the failure of a command that had to wait. The call itself was counted when the wait
    /// started.
    #[cold]
    pub fn count_failed(&self, thread: usize, command: &'static Command) {
        self.part(thread).lock().tally(command).totals.failed += 1;
    }

    /// Counts several error replies with the same error code in a thread's counters.
    #[cold]
    pub(crate) fn count_errors(&self, thread: usize, code: &str, times: u64) {
        let mut counted = self.part(thread).lock();
        if let Some(count) = counted.errors.get_mut(code) {
            *count += times;
        } else if counted.errors.len() < ERRORS && times > 0 {
            counted.errors.insert(code.into(), times);
        }
    }

    /// Counts a command that was refused before it could run.
    #[cold]
    pub(crate) fn count_rejected(&self, thread: usize, command: &'static Command) {
        self.part(thread).lock().tally(command).totals.rejected += 1;
    }

    /// Counts commands that ran consecutively and took `time` nanoseconds in total. The time is
    /// divided evenly among the calls.
    #[inline]
    pub(crate) fn count(&self, thread: usize, counts: &[CallCount], time: u64, tracks: bool) {
        let calls: u64 = counts.iter().map(|count| count.calls).sum();
        let each = time / calls.max(1);
        let mut counted = self.part(thread).lock();
        for count in counts {
            let tally = counted.tally(count.command);
            tally.totals.calls += count.calls;
            tally.totals.timed += count.calls;
            tally.totals.failed += count.failed;
            tally.totals.time += each * count.calls;
            if tracks {
                let times = tally.times.get_or_insert_with(histogram);
                times.saturating_record_n(each.max(1), count.calls);
            }
        }
    }

    /// Counts commands that were not timed.
    #[inline]
    pub(crate) fn count_untimed(&self, thread: usize, counts: &[CallCount]) {
        let mut counted = self.part(thread).lock();
        for count in counts {
            let totals = &mut counted.tally(count.command).totals;
            totals.calls += count.calls;
            totals.failed += count.failed;
            totals.rejected += count.rejected;
        }
    }

    /// Returns the totals of each command that was called or refused, or that failed, in table
    /// order.
    pub fn commands(&self) -> Vec<(&'static str, Totals)> {
        let totals = with_subcommands().map(|command| {
            let mut sum = Totals::default();
            for part in &self.parts {
                if let Some(tally) = part.lock().commands.get(&ptr::from_ref(command).addr()) {
                    sum.add(&tally.totals);
                }
            }
            (command.name, sum)
        });
        totals
            .filter(|(_, totals)| *totals != Totals::default())
            .collect()
    }

    /// Returns the latency of each tracked command at the given percentiles, in nanoseconds.
    pub fn latencies(&self, percentiles: &[f64]) -> Vec<(&'static str, Vec<u64>)> {
        self.each_tracked(|times| {
            let at = |percentile: &f64| times.value_at_percentile(*percentile);
            percentiles.iter().map(at).collect()
        })
    }

    /// Returns the latency distribution of each tracked command.
    pub fn distributions(&self) -> Vec<(&'static str, Distribution)> {
        self.each_tracked(Distribution::of)
    }

    /// Applies `look` to the merged histogram of each tracked command. Locks each thread's counters
    /// only for one command at a time.
    fn each_tracked<R>(&self, look: impl Fn(&Histogram<u64>) -> R) -> Vec<(&'static str, R)> {
        let mut found = Vec::new();
        for command in with_subcommands() {
            let mut sum = None;
            for part in &self.parts {
                let counted = part.lock();
                let tally = counted.commands.get(&ptr::from_ref(command).addr());
                if let Some(times) = tally.and_then(|tally| tally.times.as_ref()) {
                    let sum = sum.get_or_insert_with(histogram);
                    // The addition cannot fail, because all histograms have the same bounds.
                    let _ = sum.add(times);
                }
            }
            if let Some(times) = sum {
                found.push((command.name, look(&times)));
            }
        }
        found
    }

    /// Returns the number of error replies for each error code.
    pub fn errors(&self) -> BTreeMap<Box<str>, u64> {
        let mut sum = BTreeMap::new();
        for part in &self.parts {
            for (code, count) in &part.lock().errors {
                *sum.entry(code.clone()).or_insert(0) += count;
            }
        }
        sum
    }

    /// Implements CONFIG RESETSTAT: resets all counters to zero.
    pub fn reset(&self) {
        for part in &self.parts {
            *part.lock() = ThreadCounts::default();
        }
    }

    /// Returns the counters of the given thread.
    fn part(&self, thread: usize) -> &ThreadCounter {
        &self.parts[thread % self.parts.len()]
    }
}

fn histogram() -> Histogram<u64> {
    // This cannot fail, because the bounds are valid constants.
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds of a histogram")
}

/// Returns a random text of 40 hexadecimal digits, which identifies a run of a process or a stream
/// of changes.
pub fn run_id() -> String {
    let mut sha = Sha1::new();
    sha.update(&std::process::id().to_le_bytes());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    sha.update(&now.unwrap_or_default().as_nanos().to_le_bytes());
    // `RandomState` contributes random keys.
    sha.update(&RandomState::new().hash_one(0).to_le_bytes());
    sha.digest().to_string()
}

/// Hashes the address of a command with a single multiplication. Command addresses differ only in
/// their middle bits.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    #[inline]
    fn write_usize(&mut self, address: usize) {
        let mixed = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{GET, SET};

    fn runs(calls: &[(&'static Command, u64, u64)]) -> Vec<CallCount> {
        let run = |&(command, calls, failed)| CallCount {
            command,
            calls,
            failed,
            rejected: 0,
        };
        calls.iter().map(run).collect()
    }

    #[test]
    fn counters_of_all_threads_are_summed() {
        let statistics = Statistics::new(2);
        let batch = runs(&[(GET, 3, 0), (SET, 1, 1)]);
        statistics.count(0, &batch, 40_000, true);
        statistics.count(1, &runs(&[(GET, 1, 0)]), 100_000, false);
        statistics.count_rejected(1, SET);
        statistics.count_untimed(1, &[CallCount::one(GET, false)]);
        let totals = |name| {
            let commands = statistics.commands();
            let found = commands.iter().find(|(other, _)| *other == name);
            found.map(|(_, totals)| (totals.calls, totals.mean(), totals.failed, totals.rejected))
        };
        assert_eq!(totals("get"), Some((5, 32_500.0, 0, 0)));
        assert_eq!(totals("set"), Some((1, 10_000.0, 1, 1)));
        assert_eq!(totals("del"), None);
        let latencies = statistics.latencies(&[50.0]);
        assert_eq!(
            latencies.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["get", "set"]
        );
        // Histograms are accurate only to two significant digits.
        assert!(
            latencies
                .iter()
                .all(|(_, times)| times[0].abs_diff(10_000) < 100),
            "{latencies:?}"
        );
    }

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let statistics = Statistics::new(1);
        statistics.count_error(0, "ERR one");
        statistics.count_error(0, "ERR another");
        statistics.count_error(0, "OOM");
        let errors: Vec<(Box<str>, u64)> = statistics.errors().into_iter().collect();
        assert_eq!(errors, [("ERR".into(), 2), ("OOM".into(), 1)]);
        statistics.reset();
        assert!(statistics.errors().is_empty());
    }

    #[test]
    fn durations_beyond_the_bounds_saturate() {
        let statistics = Statistics::new(1);
        statistics.count(0, &runs(&[(GET, 1, 0)]), 0, true);
        statistics.count(0, &runs(&[(GET, 1, 0)]), 100 * LONGEST, true);
        let [(_, times)] = &statistics.latencies(&[0.0, 100.0])[..] else {
            panic!("one command");
        };
        assert!(
            times[0] == 1 && times[1].abs_diff(LONGEST) <= LONGEST / 100,
            "{times:?}"
        );
    }

    #[test]
    fn peak_memory_is_remembered() {
        let statistics = Statistics::new(1);
        assert_eq!([5, 9, 3].map(|used| statistics.see_memory(used)), [5, 9, 9]);
    }

    #[test]
    fn run_ids_are_unique() {
        let ids = [run_id(), run_id()];
        assert!(
            ids[0] != ids[1] && ids.iter().all(|id| id.len() == 40),
            "{ids:?}"
        );
    }
}
