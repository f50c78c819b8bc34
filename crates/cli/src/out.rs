//! Writes output, which can fail because a device is full or the reader has exited.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::process;

/// Prints a line on standard output. A lint forbids `println!` in this crate, because it panics on
/// errors.
macro_rules! say {
    ($($argument:tt)*) => { $crate::out::line(format_args!($($argument)*)) };
}
pub(crate) use say;

/// Prints a line. Called by [`say`].
pub(crate) fn line(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    end_on_failure(out.write_fmt(text).and_then(|()| out.write_all(b"\n")));
}

/// Prints bytes to standard output without changing them.
pub(crate) fn bytes(bytes: &[u8]) {
    end_on_failure(io::stdout().lock().write_all(bytes));
}

/// Flushes standard output.
pub(crate) fn finish() {
    end_on_failure(io::stdout().lock().flush());
}

/// Prints on standard error. Errors are ignored, because they cannot be reported anywhere.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// Exits if output failed. If the reader closed the pipe, exits silently with status 0. Otherwise
/// prints one line and exits with status 1. The store needs no cleanup.
pub(crate) fn end_on_failure(written: io::Result<()>) {
    match written {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            tell(format_args!(
                "undercroft: writing to standard output: {error}\n"
            ));
            process::exit(1);
        }
    }
}
