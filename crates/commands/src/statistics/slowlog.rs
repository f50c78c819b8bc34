//! The log of commands that took long, as SLOWLOG shows it.
//!
//! Entries are kept in memory, the newest first, with their arguments cut to a bounded size.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};

use undercroft_engine::{ForkGuard, ForkMutex};

use crate::config::Config;

/// Arguments kept of one command; the last one then says how many more there were.
const MOST_ARGUMENTS: usize = 32;
/// Bytes kept of one argument.
const LONGEST_ARGUMENT: usize = 128;

/// One command that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// Counts up from zero, across resets.
    pub id: i64,
    /// When it ran, in Unix seconds.
    pub time: i64,
    /// How long it took.
    pub microseconds: i64,
    /// Its arguments, cut.
    pub arguments: Vec<Vec<u8>>,
    /// Who sent it.
    pub address: String,
    /// That connection's name.
    pub name: Vec<u8>,
}

/// The log. Safe to share between threads.
#[derive(Debug)]
pub struct SlowLog {
    entries: ForkMutex<Entries>,
    threshold: AtomicI64,
    limit: AtomicI64,
}

impl Default for SlowLog {
    fn default() -> SlowLog {
        SlowLog {
            entries: ForkMutex::default(),
            threshold: AtomicI64::new(10_000),
            limit: AtomicI64::new(128),
        }
    }
}

#[derive(Debug, Default)]
struct Entries {
    next: i64,
    newest_first: VecDeque<SlowEntry>,
}

impl SlowLog {
    /// An empty log.
    pub fn new() -> SlowLog {
        SlowLog::default()
    }

    /// Takes over `slowlog-log-slower-than` and `slowlog-max-len`.
    pub fn configure(&self, config: &Config) {
        let threshold = config.integer("slowlog-log-slower-than");
        self.threshold.store(threshold, Ordering::Relaxed);
        let limit = config.integer("slowlog-max-len");
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Microseconds from which on a command is slow; negative where none is.
    #[inline]
    pub fn threshold(&self) -> i64 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// Adds a command, and drops the oldest ones beyond the limit.
    pub fn record(
        &self,
        arguments: &[&[u8]],
        time: i64,
        microseconds: i64,
        address: &str,
        name: &[u8],
    ) {
        let limit = usize::try_from(self.limit.load(Ordering::Relaxed)).unwrap_or(0);
        let arguments = cut(arguments);
        let (address, name) = (address.to_owned(), name.to_vec());
        let mut entries = self.lock();
        let id = entries.next;
        entries.next += 1;
        entries.newest_first.push_front(SlowEntry {
            id,
            time,
            microseconds,
            arguments,
            address,
            name,
        });
        entries.newest_first.truncate(limit);
    }

    /// The newest entries, at most so many. O(count).
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
        self.lock()
            .newest_first
            .iter()
            .take(count)
            .cloned()
            .collect()
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.lock().newest_first.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all entries.
    pub fn reset(&self) {
        self.lock().newest_first.clear();
    }

    fn lock(&self) -> ForkGuard<'_, Entries> {
        // A panic elsewhere leaves at worst an entry too few.
        self.entries.lock()
    }
}

/// The arguments as they are kept: Redis' bounds and its words for what is left out.
fn cut(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let shown = if arguments.len() > MOST_ARGUMENTS {
        MOST_ARGUMENTS - 1
    } else {
        arguments.len()
    };
    let mut kept: Vec<Vec<u8>> = arguments[..shown]
        .iter()
        .map(
            |argument| match argument.split_at_checked(LONGEST_ARGUMENT) {
                Some((start, rest)) if !rest.is_empty() => {
                    [start, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
                }
                _ => argument.to_vec(),
            },
        )
        .collect();
    if shown < arguments.len() {
        kept.push(format!("... ({} more arguments)", arguments.len() - shown).into_bytes());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_come_first_and_the_oldest_go() {
        let log = SlowLog::new();
        let config = Config::new();
        assert_eq!(config.set_at_start("slowlog-max-len", "3"), Ok(None));
        log.configure(&config);
        for microseconds in 0..5 {
            log.record(&[b"GET"], 1, microseconds, "", b"");
        }
        let ids = |count| {
            log.newest(count)
                .iter()
                .map(|entry| entry.id)
                .collect::<Vec<i64>>()
        };
        assert_eq!((ids(10), ids(2), log.len()), (vec![4, 3, 2], vec![4, 3], 3));
        log.reset();
        log.record(&[b"GET"], 1, 1, "", b"");
        assert_eq!(ids(10), [5]);
    }

    #[test]
    fn long_commands_are_cut() {
        let long = [b'x'; 130];
        let kept = cut(&[&long[..]; 40]);
        assert_eq!(kept.len(), MOST_ARGUMENTS);
        assert_eq!(kept[0], [&long[..128], b"... (2 more bytes)"].concat());
        assert_eq!(kept[31], b"... (9 more arguments)");
        assert_eq!(cut(&[&long[..128]]), [long[..128].to_vec()]);
    }
}
