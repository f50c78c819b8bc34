//! CLIENT PAUSE: commands that are held back for a while.
//!
//! The server keeps one [`Pause`] for all its connections and asks it before each command. A command that is held back
//! waits like one that needs a lock; its connection reads no further meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::session::Session;
use crate::table::{Command, Flag, resolve};

/// Which commands a pause holds back, and until when. Safe to share between threads.
#[derive(Debug, Default)]
pub struct Pause(AtomicU64);

/// In the lowest bit: all commands, not only those that write.
const ALL: u64 = 1;

impl Pause {
    /// Begins a pause until a time in Unix milliseconds. In place of another one it holds back what it says, and for as
    /// long as the longer of the two, as in Redis.
    pub fn begin(&self, until: i64, all: bool) {
        let until = until.max(0).unsigned_abs() << 1;
        let longer = |pause: u64| Some(until.max(pause & !ALL) | u64::from(all));
        // Never refused: there always is another value.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
    }

    /// Ends the pause.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether there may be a pause: one load.
    #[inline(always)]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// When it ends, Unix milliseconds; 0 where there is none. No key is removed or evicted before, as in Redis.
    pub fn until(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> 1
    }

    /// Whether a command must wait at a time in Unix milliseconds. What will be refused in any case need not.
    #[cold]
    pub fn holds(&self, session: &Session, arguments: &[&[u8]], now: i64) -> bool {
        let pause = self.0.load(Ordering::Relaxed);
        if pause >> 1 <= now.max(0).unsigned_abs() {
            // Unless another has begun meanwhile, it is over for everybody.
            let _ = self
                .0
                .compare_exchange(pause, 0, Ordering::Relaxed, Ordering::Relaxed);
            return false;
        }
        let Ok(command) = resolve(arguments) else {
            return false;
        };
        if session.user.is_none() && !command.flags.has(Flag::NoAuth) {
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

    #[test]
    fn writes_wait_and_the_rest_only_where_all_do() {
        let pause = Pause::default();
        let session = Session::new(1, Some("default".into()), 0);
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
        // As Redis 7.0.15 does.
        pause.begin(300, false);
        pause.begin(270, true);
        assert_eq!(pause.until(), 300);
        assert!(holds("GET k", 299) && !holds("GET k", 300));
        pause.begin(500, true);
        pause.begin(400, false);
        assert!(!holds("GET k", 399) && holds("SET k v", 499));
        pause.end();
        pause.begin(300, true);
        let stranger = Session::new(2, None, 0);
        assert!(!pause.holds(&stranger, &[b"GET", b"k"], 250));
        assert!(pause.holds(&stranger, &[b"AUTH", b"x"], 250));
    }
}
