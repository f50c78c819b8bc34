//! Collects the statistics of all threads for INFO.

use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_commands::session::Counters;

/// A thread's socket traffic: the bytes received and sent, and the numbers of reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// The number of reads from sockets.
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: Traffic) {
        self.input += other.input;
        self.output += other.output;
        self.reads += other.reads;
        self.writes += other.writes;
    }
}

/// The statistics for INFO. Each thread adds its counts once per round.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) connections: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) input_bytes: AtomicU64,
    pub(crate) output_bytes: AtomicU64,
    /// The number of reads from sockets.
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// The commands per second over the last samples. The first thread computes the rates.
    pub(crate) commands_per_second: AtomicU64,
    pub(crate) input_per_second: AtomicU64,
    pub(crate) output_per_second: AtomicU64,
    /// The number of commands since the server started. CONFIG RESETSTAT does not reset it.
    pub(crate) commands_ever: AtomicU64,
}

impl Totals {
    #[inline]
    pub(crate) fn add(&self, counters: Counters, traffic: Traffic) {
        let add = |total: &AtomicU64, count: u64| {
            if count > 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        };
        add(&self.commands, counters.commands);
        add(&self.commands_ever, counters.commands);
        add(&self.hits, counters.hits);
        add(&self.misses, counters.misses);
        add(&self.errors, counters.errors);
        add(&self.input_bytes, traffic.input);
        add(&self.output_bytes, traffic.output);
        add(&self.reads, traffic.reads);
        add(&self.writes, traffic.writes);
    }
}
