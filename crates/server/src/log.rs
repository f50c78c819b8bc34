//! Writes the server's log to standard error.

use std::fmt::Arguments;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The maximum length of a line, in bytes. A pipe that is ready for writing accepts this many bytes
/// without blocking (PIPE_BUF).
const LINE_MAX: usize = 4096;

/// The number of lines dropped since a line was last written.
static LEFT_OUT: Mutex<u64> = Mutex::new(0);

/// Writes a line without ever blocking. If standard error is not read, lines are dropped, and the
/// next line that is written reports how many. A server must continue to serve, and must stop on
/// request, even if its log is blocked.
pub fn log(text: Arguments<'_>) {
    // The lock prevents two threads from using the same free space in the pipe. After a panic, the
    // guarded number is still valid.
    let mut left_out = LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner);
    if !takes_a_line() {
        *left_out += 1;
        return;
    }
    let line = match *left_out {
        0 => format!("undercroft: {text}"),
        lines => {
            format!(
                "undercroft: (this log was not read fast enough, {lines} lines were dropped) \
                 {text}"
            )
        }
    };
    *left_out = 0;
    let mut line = line.into_bytes();
    line.truncate(LINE_MAX - 1);
    line.push(b'\n');
    // If standard error is closed, the failure cannot be reported.
    let _ = std::io::stderr().write_all(&line);
}

/// Returns whether a line can be written to standard error without blocking. Returns true if
/// standard error is closed, in which case the line is lost.
fn takes_a_line() -> bool {
    let stderr = std::io::stderr();
    let mut look = [PollFd::new(&stderr, PollFlags::OUT)];
    // If a signal interrupts `poll`, drop the line. A descriptor that does not support `poll` is
    // not a pipe, so writing does not block.
    !matches!(
        poll(&mut look, Some(&Timespec::default())),
        Ok(0) | Err(rustix::io::Errno::INTR)
    )
}
