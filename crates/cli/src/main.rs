//! The undercroft command.

// They panic where they cannot write; `out` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod archive;
mod arguments;
mod check;
mod exec;
mod export;
mod failure;
mod host;
mod import;
mod out;
mod processes;
mod progress;
mod recover;
mod redis_conf;
mod serve;
mod settings;
mod size;
mod stat;
mod store;
mod stores;
mod sync;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use signal_hook::consts::SIGXFSZ;

use crate::arguments::{Arguments, Subcommand};

fn main() -> ExitCode {
    // Where a file may not grow, the system is to answer with an error, which each command tells, and not to end it.
    let exceeded = Arc::new(AtomicBool::new(false));
    if let Err(error) = signal_hook::flag::register(SIGXFSZ, exceeded) {
        out::tell(format_args!("undercroft: preparing for signals: {error}\n"));
    }
    let arguments = Arguments::parse();
    let outcome = match arguments.subcommand {
        Subcommand::Serve(arguments) => serve::run(&arguments),
        Subcommand::Exec(arguments) => exec::run(&arguments),
        Subcommand::Stat(arguments) => stat::run(&arguments),
        Subcommand::Check(arguments) => check::run(&arguments),
        Subcommand::Recover(arguments) => recover::run(&arguments),
        Subcommand::Sync(arguments) => sync::run(&arguments),
        Subcommand::Export(arguments) => export::run(&arguments),
        Subcommand::Import(arguments) => import::run(&arguments),
        Subcommand::List => stores::list(),
        Subcommand::Rm(arguments) => stores::remove(&arguments),
    };
    out::finish();
    outcome.unwrap_or_else(|failure| {
        out::tell(format_args!("undercroft: {failure}\n"));
        failure.code()
    })
}
