//! Stores the log of slow commands that SLOWLOG shows.
//!
//! Entries are stored in process memory, newest first, and their arguments are truncated to a
//! limited size.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};

use undercroft_engine::{ForkGuard, ForkMutex};

use crate::config::Config;

/// The maximum number of arguments to store for a command. If a command has more arguments, the
/// last stored one is replaced by a note on how many were omitted.
const MOST_ARGUMENTS: usize = 32;
/// The maximum number of bytes to store of each argument.
const LONGEST_ARGUMENT: usize = 128;

/// A log entry for one slow command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// The entry's ID, which counts up from zero. SLOWLOG RESET does not restart the count.
    pub id: i64,
    /// The time when the command ran, in Unix seconds.
    pub time: i64,
    /// The running time of the command in microseconds.
    pub microseconds: i64,
    /// The command's name and arguments, truncated.
    pub arguments: Vec<Vec<u8>>,
    /// The address of the client that sent the command.
    pub address: String,
    /// The name of the client's connection, set by CLIENT SETNAME.
    pub name: Vec<u8>,
}

/// The log of slow commands. Threads can share it.
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

    /// Applies the `slowlog-log-slower-than` and `slowlog-max-len` parameters.
    pub fn configure(&self, config: &Config) {
        let threshold = config.integer("slowlog-log-slower-than");
        self.threshold.store(threshold, Ordering::Relaxed);
        let limit = config.integer("slowlog-max-len");
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the running time in microseconds from which a command counts as slow. The threshold
    /// is negative if the log is disabled.
    #[inline]
    pub fn threshold(&self) -> i64 {
        self.threshold.load(Ordering::Relaxed)
    }

    /// Adds an entry for a command, and removes the oldest entries that exceed the limit.
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

    /// Returns up to `count` entries, newest first. Takes O(count) time.
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
        self.lock()
            .newest_first
            .iter()
            .take(count)
            .cloned()
            .collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.lock().newest_first.len()
    }

    /// Returns whether the log has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries.
    pub fn reset(&self) {
        self.lock().newest_first.clear();
    }

    fn lock(&self) -> ForkGuard<'_, Entries> {
        // Ignore poisoning: a panic while the lock is held loses at most one entry.
        self.entries.lock()
    }
}

/// Truncates the arguments for storage, with the same limits as Redis and the same wording for
/// omitted arguments.
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
