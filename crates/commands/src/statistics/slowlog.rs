//! The log of slow commands that SLOWLOG shows.
//!
//! Entries are kept in process memory, newest first, with their arguments truncated to a bounded
//! size.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};

use undercroft_engine::{ForkGuard, ForkMutex};

use crate::config::Config;

/// The maximum number of arguments kept of one command. If a command has more, the last one kept is
/// a note that says how many were omitted.
const MOST_ARGUMENTS: usize = 32;
/// The number of bytes kept of one argument.
const LONGEST_ARGUMENT: usize = 128;

/// A log entry for one slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// A number that counts up from zero, and is not restarted by SLOWLOG RESET.
    pub id: i64,
    /// When the command ran, in Unix seconds.
    pub time: i64,
    /// How long the command took.
    pub microseconds: i64,
    /// The arguments, truncated.
    pub arguments: Vec<Vec<u8>>,
    /// The address of the client that sent the command.
    pub address: String,
    /// The name of the client's connection.
    pub name: Vec<u8>,
}

/// The slow log. Safe to share between threads.
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
    /// Returns an empty log.
    pub fn new() -> SlowLog {
        SlowLog::default()
    }

    /// Applies `slowlog-log-slower-than` and `slowlog-max-len`.
    pub fn configure(&self, config: &Config) {
        let threshold = config.integer("slowlog-log-slower-than");
        self.threshold.store(threshold, Ordering::Relaxed);
        let limit = config.integer("slowlog-max-len");
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The duration in microseconds from which a command counts as slow; negative if the log is
    /// disabled.
    #[inline]
    pub fn threshold(&self) -> i64 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// Adds an entry for a command, and drops the oldest entries beyond the limit.
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

    /// Returns at most `count` of the newest entries. O(count).
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
        self.lock()
            .newest_first
            .iter()
            .take(count)
            .cloned()
            .collect()
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.lock().newest_first.len()
    }

    /// Whether the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all entries.
    pub fn reset(&self) {
        self.lock().newest_first.clear();
    }

    fn lock(&self) -> ForkGuard<'_, Entries> {
        // Poisoning is ignored: a panic while the lock is held loses at most one entry.
        self.entries.lock()
    }
}

/// Truncates the arguments for storage, with Redis' bounds and Redis' wording for the omitted rest.
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
    fn newest_entries_come_first_and_oldest_are_dropped() {
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
    fn long_commands_are_truncated() {
        let long = [b'x'; 130];
        let kept = cut(&[&long[..]; 40]);
        assert_eq!(kept.len(), MOST_ARGUMENTS);
        assert_eq!(kept[0], [&long[..128], b"... (2 more bytes)"].concat());
        assert_eq!(kept[31], b"... (9 more arguments)");
        assert_eq!(cut(&[&long[..128]]), [long[..128].to_vec()]);
    }
}
