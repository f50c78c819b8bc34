//! What the command prints, where that may fail: a full device, a reader that has gone.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::process;

/// Prints a line on standard output, as `println!` does, which a lint forbids here: it panics where it fails.
macro_rules! say {
    ($($argument:tt)*) => { $crate::out::line(format_args!($($argument)*)) };
}
pub(crate) use say;

/// See [`say`].
pub(crate) fn line(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    end_on_failure(out.write_fmt(text).and_then(|()| out.write_all(b"\n")));
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) {
    end_on_failure(io::stdout().lock().write_all(bytes));
}

/// Sees to it that all of it has gone out.
pub(crate) fn finish() {
    end_on_failure(io::stdout().lock().flush());
}

/// Prints on standard error. Where that fails there is nobody to tell.
pub(crate) fn tell(text: Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(text);
}

/// The rest of the output has no place to go, so the command ends: quietly where its reader has seen enough,
/// otherwise with one line and exit status 1. The store needs no farewell.
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
