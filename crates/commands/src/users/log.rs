//! Records what was denied, for ACL LOG, and counts it for INFO.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use undercroft_engine::ForkMutex;

use crate::audit::AuditEvent;

/// Equal events within this many milliseconds share one entry, as in Redis.
const GROUPED: i64 = 60_000;
/// The number of latest entries that are searched for an equal one, as in Redis.
const SEARCHED: usize = 10;

/// Why something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    Auth,
    Certificate,
}

impl Reason {
    /// All reasons.
    pub(crate) const ALL: [Reason; 5] = [
        Reason::Auth,
        Reason::Command,
        Reason::Key,
        Reason::Channel,
        Reason::Certificate,
    ];

    /// Returns the name that ACL LOG shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
            Reason::Certificate => "tls-cert",
        }
    }

    /// Returns the name of the field of INFO that counts this reason.
    pub(crate) fn counter_name(self) -> &'static str {
        match self {
            Reason::Command => "acl_access_denied_cmd",
            Reason::Key => "acl_access_denied_key",
            Reason::Channel => "acl_access_denied_channel",
            Reason::Auth => "acl_access_denied_auth",
            Reason::Certificate => "acl_access_denied_tls_cert",
        }
    }
}

/// A call that was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeniedCall {
    pub(crate) reason: Reason,
    /// Where the call was made: `toplevel`, `multi` or `lua`.
    pub(crate) context: &'static str,
    /// The command, key or channel that was denied, or the command that failed to log in.
    pub(crate) object: Vec<u8>,
    /// The name of the user.
    pub(crate) user: Vec<u8>,
    /// The description of the connection, as in CLIENT LIST.
    pub(crate) client: String,
    /// The event for the audit log, until it is reported.
    pub(crate) event: Option<Box<AuditEvent>>,
}

impl DeniedCall {
    fn is_like(&self, other: &DeniedCall) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.object == other.object
            && self.user == other.user
    }
}

/// An entry of the log. Times are in Unix milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) count: u64,
    pub(crate) call: DeniedCall,
    pub(crate) created: i64,
    pub(crate) updated: i64,
}

/// The log of a process. Threads can share it.
#[derive(Debug, Default)]
pub(crate) struct AclLog {
    /// The entries, latest first, and the id of the next entry.
    state: ForkMutex<(VecDeque<Entry>, u64)>,
    counts: [AtomicU64; Reason::ALL.len()],
}

impl AclLog {
    /// Records a call. Keeps at most `length` entries (`acllog-max-len`). O(1).
    pub(crate) fn add(&self, call: DeniedCall, now: i64, length: usize) {
        self.counts[call.reason as usize].fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let (entries, next) = &mut *state;
        let like = entries.iter().take(SEARCHED).position(|entry| {
            entry.call.is_like(&call) && now.abs_diff(entry.updated) <= GROUPED.unsigned_abs()
        });
        let entry = match like.and_then(|place| entries.remove(place)) {
            Some(entry) => Entry {
                count: entry.count + 1,
                updated: now,
                call,
                ..entry
            },
            None => {
                *next += 1;
                Entry {
                    id: *next - 1,
                    count: 1,
                    call,
                    created: now,
                    updated: now,
                }
            }
        };
        entries.push_front(entry);
        entries.truncate(length);
    }

    /// Returns up to `count` entries, latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<Entry> {
        self.state.lock().0.iter().take(count).cloned().collect()
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        self.state.lock().0.clear();
    }

    /// Returns how often something was denied for a reason.
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// Resets the counts, for CONFIG RESETSTAT.
    pub(crate) fn reset_counts(&self) {
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_events_within_a_minute_share_an_entry() {
        let log = AclLog::default();
        let call = |object: &str| DeniedCall {
            reason: Reason::Key,
            context: "toplevel",
            object: object.into(),
            user: b"u".to_vec(),
            client: String::new(),
            event: None,
        };
        let counts = |log: &AclLog| {
            let entries = log.latest(9);
            let counts = entries.iter().map(|entry| (entry.id, entry.count));
            counts.collect::<Vec<_>>()
        };
        log.add(call("a"), 0, 3);
        log.add(call("b"), 1, 3);
        log.add(call("a"), 60_000, 3);
        assert_eq!(counts(&log), [(0, 2), (1, 1)]);
        log.add(call("b"), 60_002, 3);
        assert_eq!(counts(&log), [(2, 1), (0, 2), (1, 1)]);
        log.add(call("c"), 60_003, 3);
        assert_eq!(counts(&log), [(3, 1), (2, 1), (0, 2)]);
        assert_eq!(log.count(Reason::Key), 5);
        log.clear();
        assert_eq!(counts(&log), []);
    }
}
