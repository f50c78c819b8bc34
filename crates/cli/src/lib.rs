//! Provides the undercroft command as a function. The binary and the Python package, which includes
//! the command, both call this function.
//!
//! - `main`: contains the binary.
//! - `arguments`: defines the command line: its options, subcommands and help texts.
//! - `subcommands`: implements the subcommands.
//! - `archive`: reads and writes the export format.
//! - `destination`: writes an export to a file that appears when it is complete, or to a stream.
//! - `failure`: describes a command's failure: one line of text for people, and an exit status for
//!   scripts.
//! - `interrupt`: handles Ctrl-C, so that long commands leave no partial results.
//! - `keys`: counts the keys of a store.
//! - `out`: writes output, which can fail because a device is full or the reader has exited.
//! - `processes`: finds information about the processes that use a store.
//! - `progress`: shows the progress of a long command.
//! - `redis_conf`: decides how to treat redis.conf directives that are not parameters of
//!   Undercroft.
//! - `replica`: describes the source of a replica.
//! - `service`: takes sockets from systemd, and reports the server's state to it.
//! - `settings`: collects the settings of `serve` from a file, the environment and the command
//!   line.
//! - `size`: parses and formats sizes in bytes.
//! - `store`: finds, opens and creates stores.
//! - `watched`: shows the progress of a recovery, and ends it when a signal arrives.
//! - `unfinished`: fills a store before publishing it under its name.

// The printing macros panic on output errors. The functions in `out` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod archive;
mod arguments;
mod destination;
mod failure;
mod interrupt;
mod keys;
mod out;
mod processes;
mod progress;
mod redis_conf;
mod replica;
mod service;
mod settings;
mod size;
mod store;
mod subcommands;
mod unfinished;
mod watched;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;

use crate::arguments::{Arguments, Subcommand};

/// Runs a command line and returns its exit status. The first word is the name of the program. The
/// command must run in its own process, because it changes how some signals are handled, and exits
/// if writing output fails.
#[must_use]
pub fn run(words: &[OsString]) -> u8 {
    // Without this handler, exceeding a file size limit kills the process. With the handler, the
    // write fails with an error that the command reports.
    let exceeded = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, exceeded) {
        out::tell(format_args!("undercroft: preparing for signals: {error}\n"));
    }
    let arguments = match Arguments::read(words) {
        Ok(arguments) => arguments,
        Err(shown) => {
            let printed = shown.print();
            // Only the help and the version are regular output, for which write errors matter. A
            // usage error results in a failure status anyway.
            if !shown.use_stderr() {
                out::end_on_failure(printed);
                out::finish();
            }
            return u8::try_from(shown.exit_code()).unwrap_or(failure::FAILURE);
        }
    };
    let outcome = match arguments.subcommand {
        Subcommand::Serve(arguments) => subcommands::serve::run(&arguments),
        Subcommand::Exec(arguments) => subcommands::exec::run(&arguments, words),
        Subcommand::Stat(arguments) => subcommands::stat::run(&arguments),
        Subcommand::Doctor(arguments) => subcommands::doctor::run(&arguments),
        Subcommand::Check(arguments) => subcommands::check::run(&arguments),
        Subcommand::Follow(arguments) => subcommands::follow::run(&arguments),
        Subcommand::Recover(arguments) => subcommands::recover::run(&arguments),
        Subcommand::Sync(arguments) => subcommands::sync::run(&arguments),
        Subcommand::Checkpoint(arguments) => subcommands::durability::checkpoint(&arguments),
        Subcommand::Durability(arguments) => subcommands::durability::set(&arguments),
        Subcommand::Journal(arguments) => subcommands::journal::run(&arguments),
        Subcommand::Export(arguments) => subcommands::export::run(&arguments),
        Subcommand::Import(arguments) => subcommands::import::run(&arguments),
        Subcommand::List => subcommands::stores::list(),
        Subcommand::Rm(arguments) => subcommands::stores::remove(&arguments),
        Subcommand::Tls(arguments) => subcommands::tls::run(&arguments),
    };
    out::finish();
    outcome.unwrap_or_else(|failure| {
        out::tell(format_args!("undercroft: {failure}\n"));
        failure.status()
    })
}
