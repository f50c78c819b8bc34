//! Implements CLIENT PAUSE, which temporarily suspends commands.
//!
//! The server has a single [`Pause`] for all its connections, and checks it before each command. A
//! suspended command waits like a command that needs a lock. Meanwhile, the server stops reading
//! from that command's connection.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::Session;
use crate::table::{Command, Flag, resolve};

/// The scope and the end of a pause, during which commands are suspended. Threads can share a
/// `Pause`.
#[derive(Debug, Default)]
pub struct Pause(AtomicU64);

/// The lowest bit, which is set if all commands are suspended, not only writes.
const ALL: u64 = 1;

impl Pause {
    /// Begins a pause that ends at a time in Unix milliseconds. If a pause is already in progress,
    /// the new scope replaces its scope, and the later of the two ends applies, as in Redis.
    pub fn begin(&self, until: i64, all: bool) {
        let until = until.max(0).unsigned_abs() << 1;
        let longer = |pause: u64| Some(until.max(pause & !ALL) | u64::from(all));
        // The update cannot fail, because `longer` always returns a value.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
    }

    /// Ends the pause immediately.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether a pause is set, even if it has expired but has not been cleared yet. Takes
    /// one atomic load.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns the end of the pause in Unix milliseconds, or 0 if commands are not paused. As in
    /// Redis, no key expires or is evicted during a pause.
    pub fn until(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> 1
    }

    /// Returns whether a command must wait at the given time, in Unix milliseconds. A command that
    /// will be refused anyway does not wait.
    #[cold]
    pub fn holds(&self, session: &Session, arguments: &[&[u8]], now: i64) -> bool {
        let pause = self.0.load(Ordering::Relaxed);
        if pause >> 1 <= now.max(0).unsigned_abs() {
            // Clear the expired pause, unless a new pause has already begun.
            let _ = self
                .0
                .compare_exchange(pause, 0, Ordering::Relaxed, Ordering::Relaxed);
            return false;
        }
        let Ok(command) = resolve(arguments) else {
            return false;
        };
        if !session.login.is_admitted() && !command.flags.has(Flag::NoAuth) {
            return false;
        }
        pause & ALL != 0
            || command.may_replicate()
            || command.name == "exec" && session.has_queued(Command::may_replicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Login;

    #[test]
    fn pause_suspends_writes_or_all_commands() {
        let pause = Pause::default();
        let session = Session::new(1, Login::trusted(), 0);
        let holds = |line: &str, now| {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            pause.holds(&session, &words, now)
        };
        assert!(!pause.is_set() && !holds("SET k v", 5));
        pause.begin(100, false);
        for line in ["SET k v", "del k", "PFCOUNT h"] {
            assert!(holds(line, 99), "{line}");
        }
        for line in [
            "GET k",
            "CLIENT UNPAUSE",
            "PING",
            "SET k",
            "NOSUCH k",
            "EXEC",
        ] {
            assert!(!holds(line, 99), "{line}");
        }
        pause.begin(200, true);
        assert!(holds("GET k", 199) && holds("PING", 199) && !holds("NOSUCH", 199));
        assert!(pause.is_set() && !holds("GET k", 200) && !pause.is_set());
        pause.begin(300, true);
        pause.end();
        assert!(!holds("GET k", 250));
        // Redis 7.0.15 behaves the same way.
        pause.begin(300, false);
        pause.begin(270, true);
        assert_eq!(pause.until(), 300);
        assert!(holds("GET k", 299) && !holds("GET k", 300));
        pause.begin(500, true);
        pause.begin(400, false);
        assert!(!holds("GET k", 399) && holds("SET k v", 499));
        pause.end();
        pause.begin(300, true);
        let stranger = Session::new(2, Login::unknown(), 0);
        assert!(!pause.holds(&stranger, &[b"GET", b"k"], 250));
        assert!(pause.holds(&stranger, &[b"AUTH", b"x"], 250));
    }
}
