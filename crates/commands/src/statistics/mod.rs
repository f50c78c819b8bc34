//! What INFO tells of commands and of errors: how often, how long, how many failed.
//!
//! Each thread counts in a part of its own, which it alone locks, but for INFO and CONFIG RESETSTAT. It does so once for
//! each batch of commands ([`Context::begin_batch`](crate::Context::begin_batch)), not for each command.
//!
//! `context`, `handlers` and `execute` call it; servers note events and read figures.
//!
//! - `distribution`: how many calls took at most how long, in the steps of LATENCY HISTOGRAM.
//! - `lap`: the commands that are being timed together, and how often each was called.
//! - `latency`: what took long in this process: events, and the samples of each that LATENCY shows.
//! - `slowlog`: the log of commands that took long, as SLOWLOG shows it.
//! - `trace`: the commands of one script, for MONITOR and the slow log.

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

/// The longest time that histograms tell from longer ones, in nanoseconds; Redis' bound.
const LONGEST: u64 = 1_000_000_000;
/// Decimal digits to which histograms tell times; as many as Redis has.
const DIGITS: u8 = 2;
/// Kinds of errors that are told apart at most.
const ERRORS: usize = 128;

/// What a command, or all threads together, came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// How often it was run.
    pub calls: u64,
    /// How many of these calls were timed.
    pub timed: u64,
    /// How long the timed ones took in all, in nanoseconds.
    pub time: u64,
    /// How often it was refused before it was run.
    pub rejected: u64,
    /// How often it was run and answered an error.
    pub failed: u64,
}

impl Totals {
    /// How long each call took on average, in nanoseconds; 0 where none was timed.
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

/// A command's part in what a thread counts.
struct Tally {
    totals: Totals,
    /// How long each call took; made with the first call that is tracked.
    times: Option<Histogram<u64>>,
}

/// What one thread counts.
#[derive(Default)]
struct ThreadCounts {
    /// By the address of the command in the table.
    commands: HashMap<usize, Tally, BuildHasherDefault<AddressHasher>>,
    /// By the errors' codes.
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

/// A thread's part, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct ThreadCounter(ForkMutex<ThreadCounts>);

impl ThreadCounter {
    #[inline]
    fn lock(&self) -> ForkGuard<'_, ThreadCounts> {
        // Every change is a plain addition, so a panic elsewhere leaves nothing half done.
        self.0.lock()
    }
}

/// What a server, or a process that embeds a store, counts since its start or CONFIG RESETSTAT.
pub struct Statistics {
    parts: Box<[ThreadCounter]>,
    run: String,
    most_memory: AtomicU64,
}

impl Statistics {
    /// Nothing yet, for so many threads.
    pub fn new(threads: usize) -> Statistics {
        Statistics {
            parts: (0..threads.max(1))
                .map(|_| ThreadCounter::default())
                .collect(),
            run: run_id(),
            most_memory: AtomicU64::new(0),
        }
    }

    /// 40 hexadecimal digits that no other run of a server has.
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Takes note of the memory in use now, and says how much the most was that anybody saw.
    pub fn see_memory(&self, used: u64) -> u64 {
        self.most_memory
            .fetch_max(used, Ordering::Relaxed)
            .max(used)
    }

    /// Counts an error reply of a thread by its code, which is its first word.
    #[cold]
    pub fn count_error(&self, thread: usize, text: &str) {
        self.count_errors(thread, error_code(text), 1);
    }

    /// Counts that a command of a thread has failed which waited, and was counted as a call when it began to.
    #[cold]
    pub fn count_failed(&self, thread: usize, command: &'static Command) {
        self.part(thread).lock().tally(command).totals.failed += 1;
    }

    /// Counts error replies of a thread that have the same code.
    #[cold]
    pub(crate) fn count_errors(&self, thread: usize, code: &str, times: u64) {
        let mut counted = self.part(thread).lock();
        if let Some(count) = counted.errors.get_mut(code) {
            *count += times;
        } else if counted.errors.len() < ERRORS && times > 0 {
            counted.errors.insert(code.into(), times);
        }
    }

    /// Counts a command that was refused before it was run.
    #[cold]
    pub(crate) fn count_rejected(&self, thread: usize, command: &'static Command) {
        self.part(thread).lock().tally(command).totals.rejected += 1;
    }

    /// Counts commands that ran one behind the other and took so many nanoseconds together: each as long as the others.
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

    /// Counts commands whose time nobody took.
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

    /// What each command that was called came to, in the table's order.
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

    /// How long the calls of each command took that was tracked, at these percentiles: nanoseconds.
    pub fn latencies(&self, percentiles: &[f64]) -> Vec<(&'static str, Vec<u64>)> {
        self.each_tracked(|times| {
            let at = |percentile: &f64| times.value_at_percentile(*percentile);
            percentiles.iter().map(at).collect()
        })
    }

    /// How many calls of each command that was tracked took at most how long.
    pub fn distributions(&self) -> Vec<(&'static str, Distribution)> {
        self.each_tracked(Distribution::of)
    }

    /// What `look` makes of the times of each command that was tracked. A thread's part is locked for one command at a
    /// time.
    fn each_tracked<R>(&self, look: impl Fn(&Histogram<u64>) -> R) -> Vec<(&'static str, R)> {
        let mut found = Vec::new();
        for command in with_subcommands() {
            let mut sum = None;
            for part in &self.parts {
                let counted = part.lock();
                let tally = counted.commands.get(&ptr::from_ref(command).addr());
                if let Some(times) = tally.and_then(|tally| tally.times.as_ref()) {
                    let sum = sum.get_or_insert_with(histogram);
                    // They have the same bounds.
                    let _ = sum.add(times);
                }
            }
            if let Some(times) = sum {
                found.push((command.name, look(&times)));
            }
        }
        found
    }

    /// How often each error was answered, by its code.
    pub fn errors(&self) -> BTreeMap<Box<str>, u64> {
        let mut sum = BTreeMap::new();
        for part in &self.parts {
            for (code, count) in &part.lock().errors {
                *sum.entry(code.clone()).or_insert(0) += count;
            }
        }
        sum
    }

    /// CONFIG RESETSTAT: counts from zero again.
    pub fn reset(&self) {
        for part in &self.parts {
            *part.lock() = ThreadCounts::default();
        }
    }

    /// The part of a thread.
    fn part(&self, thread: usize) -> &ThreadCounter {
        &self.parts[thread % self.parts.len()]
    }
}

fn histogram() -> Histogram<u64> {
    // These bounds are valid.
    Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("bounds of a histogram")
}

fn run_id() -> String {
    let mut sha = Sha1::new();
    sha.update(&std::process::id().to_le_bytes());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    sha.update(&now.unwrap_or_default().as_nanos().to_le_bytes());
    // Its keys are random.
    sha.update(&RandomState::new().hash_one(0).to_le_bytes());
    sha.digest().to_string()
}

/// Hashes an address, of which the middle bits differ, by a multiplication.
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
    fn the_parts_of_all_threads_are_summed() {
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
        // Within the two digits that histograms have.
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
    fn times_beyond_the_bounds_are_kept_at_them() {
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
    fn the_most_memory_is_remembered() {
        let statistics = Statistics::new(1);
        assert_eq!([5, 9, 3].map(|used| statistics.see_memory(used)), [5, 9, 9]);
    }

    #[test]
    fn no_two_runs_have_the_same_number() {
        let ids = [run_id(), run_id()];
        assert!(
            ids[0] != ids[1] && ids.iter().all(|id| id.len() == 40),
            "{ids:?}"
        );
    }
}
