//! The server's log: lines on standard error.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Lines are cut to this many bytes: a pipe that is ready for writing takes so many without waiting (PIPE_BUF).
const LINE_MAX: usize = 4096;

/// Lines that were left out since the last one that was written.
static LEFT_OUT: Mutex<u64> = Mutex::new(0);

/// Writes lines, and never waits: where nobody reads standard error they are left out, and the next one that is
/// written says how many those were. A server that logs must go on serving, and end when it is told to.
pub fn log(text: Arguments<'_>) {
    // Held so that two threads do not find the same room. A panic elsewhere leaves nothing but a number.
    let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    if !takes_a_line() {
        *left_out += 1;
        return;
    }
    let line = match *left_out {
        0 => format!("undercroft: {text}"),
        lines => {
            format!("undercroft: (nobody read this log, {lines} lines were left out) {text}")
        }
    };
    *left_out = 0;
    let mut line = line.into_bytes();
    line.truncate(LINE_MAX - 1);
    line.push(b'\n');
    // Where standard error is closed there is nobody to tell.
    let _ = std::io::stderr().write_all(&line);
}

/// Whether standard error takes a line without waiting. One that is closed does: the line is lost.
fn takes_a_line() -> bool {
    let stderr = std::io::stderr();
    let mut look = [PollFd::new(&stderr, PollFlags::OUT)];
    // A signal that comes in between leaves the line out; what cannot be looked at is no pipe.
    !matches!(
        poll(&mut look, Some(&Timespec::default())),
        Ok(0) | Err(rustix::io::Errno::INTR)
    )
}
