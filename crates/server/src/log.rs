//! The server's log: lines on standard error.

use std::fmt::Arguments;
use std::io::Write;

/// Writes one line. Where standard error is closed there is nobody to tell.
pub(crate) fn log(line: Arguments<'_>) {
    let text = format!("undercroft: {line}\n");
    let _ = std::io::stderr().write_all(text.as_bytes());
}
