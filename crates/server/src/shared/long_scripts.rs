//! Predicts from a script's size and history whether it will take long. A script that is predicted
//! to take long starts on a separate thread, so that no connection waits for it.
//!
//! A script that takes longer than a few milliseconds on a shared thread is rolled back and
//! restarted on a separate thread. This stalls the other connections, and a client can cause such a
//! stall with each of its scripts. Therefore, a script that took long starts on a separate thread
//! the next time, until it has proved to be short. The history covers scripts with the same text
//! and scripts of the same connection.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The size, in bytes, above which a script command starts on a separate thread, because parsing
/// its text or processing its arguments can take long.
const BYTES: usize = 64 * 1024;
/// The number of a connection's scripts that start on a separate thread after the connection ran a
/// long script.
pub(crate) const NEXT: u16 = 64;
/// The maximum duration of a short script.
pub(crate) const SHORT: Duration = Duration::from_millis(2);
/// The maximum number of remembered scripts.
const PLACES: usize = 256;

/// The hashes of scripts that took long. The table has a fixed size, so a new hash can replace
/// another script's hash.
pub(crate) struct LongScripts {
    hashing: RandomState,
    places: [AtomicU64; PLACES],
}

impl LongScripts {
    pub(crate) fn new() -> LongScripts {
        LongScripts {
            hashing: RandomState::new(),
            places: [const { AtomicU64::new(0) }; PLACES],
        }
    }

    /// Returns the hash that identifies a script in the table. It covers the length and the
    /// beginning of the script's text, its SHA-1, or the name of the function.
    pub(crate) fn mark(&self, arguments: &[&[u8]]) -> u64 {
        const BEGINNING: usize = 256;
        let text = text(arguments);
        let beginning = &text[..text.len().min(BEGINNING)];
        self.hashing.hash_one((beginning, text.len())).max(1)
    }

    fn place(&self, mark: u64) -> &AtomicU64 {
        &self.places[mark as usize % PLACES]
    }

    pub(crate) fn note(&self, mark: u64) {
        self.place(mark).store(mark, Ordering::Relaxed);
    }

    pub(crate) fn forget(&self, mark: u64) {
        let place = self.place(mark);
        let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns whether a script is considered long because of its size or its history.
    pub(crate) fn holds(&self, arguments: &[&[u8]]) -> bool {
        let bytes: usize = arguments.iter().map(|argument| argument.len()).sum();
        let mark = || self.mark(arguments);
        bytes > BYTES || {
            let mark = mark();
            self.place(mark).load(Ordering::Relaxed) == mark
        }
    }
}

/// Returns the text, SHA-1 or function name that a script command specifies.
fn text<'a>(arguments: &[&'a [u8]]) -> &'a [u8] {
    let place = match arguments {
        [_, what, ..] if reads(what) => 2,
        _ => 1,
    };
    arguments.get(place).copied().unwrap_or_default()
}

/// Returns whether a subcommand of SCRIPT or FUNCTION loads programs.
fn reads(what: &[u8]) -> bool {
    what.eq_ignore_ascii_case(b"LOAD") || what.eq_ignore_ascii_case(b"RESTORE")
}

/// Returns whether a command runs a script or loads programs: EVAL, EVALSHA, FCALL and their
/// variants, SCRIPT LOAD, FUNCTION LOAD and FUNCTION RESTORE.
#[inline]
pub(crate) fn is_of_scripts(arguments: &[&[u8]]) -> bool {
    let Some(name) = arguments.first() else {
        return false;
    };
    let reads = || arguments.get(1).is_some_and(|what| reads(what));
    let is = |second: u8, third: u8| {
        let [_, one, other, ..] = name else {
            return false;
        };
        (one | 0x20, other | 0x20) == (second, third)
    };
    match name.first() {
        Some(b'e' | b'E') => is(b'v', b'a'),
        Some(b'f' | b'F') => is(b'c', b'a') || is(b'u', b'n') && reads(),
        Some(b's' | b'S') => is(b'c', b'r') && reads(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_long_by_size_or_by_history() {
        let known = LongScripts::new();
        let script = [&b"EVAL"[..], b"while true do end", b"0"];
        assert!(!known.holds(&script));
        let mark = known.mark(&script);
        known.note(mark);
        assert!(known.holds(&script));
        assert!(!known.holds(&[b"EVAL", b"return 1", b"0"]));
        known.forget(mark);
        assert!(!known.holds(&script));
        let long = vec![b'x'; BYTES];
        assert!(known.holds(&[b"EVAL", b"return #ARGV[1]", b"0", &long]));
    }

    #[test]
    fn script_commands_are_recognized() {
        for words in [
            "eval x",
            "EVALSHA x",
            "Eval_RO x",
            "fcall x",
            "FCALL_RO x",
            "FUNCTION load x",
            "FUNCTION RESTORE x",
            "script LOAD x",
        ] {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            assert!(is_of_scripts(&words), "{words:?}");
            assert_eq!(text(&words), b"x");
        }
        for words in [
            "exec",
            "echo load",
            "exists",
            "flushall",
            "scan load",
            "scard",
            "set load",
            "sc",
            "script kill",
            "script",
            "function stats",
        ] {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            assert!(!is_of_scripts(&words), "{words:?}");
        }
        assert!(!is_of_scripts(&[]));
    }
}
