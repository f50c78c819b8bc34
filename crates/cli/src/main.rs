//! The undercroft command.

mod archive;
mod arguments;
mod check;
mod exec;
mod export;
mod failure;
mod host;
mod import;
mod processes;
mod progress;
mod recover;
mod serve;
mod settings;
mod size;
mod stat;
mod store;
mod stores;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Subcommand};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.subcommand {
        Subcommand::Serve(arguments) => serve::run(&arguments),
        Subcommand::Exec(arguments) => exec::run(&arguments),
        Subcommand::Stat(arguments) => stat::run(&arguments),
        Subcommand::Check(arguments) => check::run(&arguments),
        Subcommand::Recover(arguments) => recover::run(&arguments),
        Subcommand::Export(arguments) => export::run(&arguments),
        Subcommand::Import(arguments) => import::run(&arguments),
        Subcommand::List => stores::list(),
        Subcommand::Rm(arguments) => stores::remove(&arguments),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("undercroft: {failure}");
        failure.code()
    })
}
