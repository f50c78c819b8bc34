//! Runs the undercroft command.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    undercroft_cli::run(&words).into()
}
