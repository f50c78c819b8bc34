//! The undercroft command, as a function: the binary calls it, and so does the Python package, which brings the
//! command along.
//!
//! - `main`: the binary.
//! - `arguments`: the command line: what there is, and the help that teaches it.
//! - `subcommands`: a file for each subcommand.
//! - `archive`: the format of an export.
//! - `destination`: where an export goes: a file that appears when it is complete, or a stream.
//! - `failure`: why a command failed: one line for people, and an exit status for scripts.
//! - `interrupt`: Ctrl-C, which long commands answer without leaving anything half done.
//! - `keys`: the keys of a store, counted.
//! - `out`: output that may fail: a full device, a reader that has gone.
//! - `processes`: what the system tells about the processes that use a store.
//! - `progress`: how far a long command is.
//! - `redis_conf`: directives of a redis.conf that are no parameters of ours.
//! - `settings`: settings of `serve`: from a file, the environment and the command line.
//! - `size`: sizes in bytes, for people.
//! - `store`: finding, opening and creating stores.
//! - `unfinished`: a store that is filled before it takes its name.

// They panic where they cannot write; `out` does not.
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
mod settings;
mod size;
mod store;
mod subcommands;
mod unfinished;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;

use crate::arguments::{Arguments, Subcommand};

/// Runs the command line of these words, the first of which is the command's own name; its exit status. It is the only
/// thing that its process does: it sets what some signals do, and ends the process where its output cannot be
/// written.
#[must_use]
pub fn run(words: &[OsString]) -> u8 {
    // Where a file may not grow, the system is to answer with an error, which each command tells, and not to end it.
    let exceeded = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, exceeded) {
        out::tell(format_args!("undercroft: preparing for signals: {error}\n"));
    }
    let arguments = match Arguments::read(words) {
        Ok(arguments) => arguments,
        Err(shown) => {
            let printed = shown.print();
            // Help and the version are output as any other; for what is wrong there is nobody else to tell.
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
        Subcommand::Check(arguments) => subcommands::check::run(&arguments),
        Subcommand::Recover(arguments) => subcommands::recover::run(&arguments),
        Subcommand::Sync(arguments) => subcommands::sync::run(&arguments),
        Subcommand::Export(arguments) => subcommands::export::run(&arguments),
        Subcommand::Import(arguments) => subcommands::import::run(&arguments),
        Subcommand::List => subcommands::stores::list(),
        Subcommand::Rm(arguments) => subcommands::stores::remove(&arguments),
    };
    out::finish();
    outcome.unwrap_or_else(|failure| {
        out::tell(format_args!("undercroft: {failure}\n"));
        failure.status()
    })
}
