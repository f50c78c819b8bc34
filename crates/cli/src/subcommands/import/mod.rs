//! Implements `undercroft import`.
//!
//! - `aof`: imports append-only files.
//! - `archive`: imports a file that `undercroft export` wrote.
//! - `libraries`: loads the function libraries of a file.
//! - `rdb`: imports an RDB file.
//! - `source`: finds out what kind of file to import.
//! - `target`: the store that an import fills.

mod aof;
mod archive;
mod libraries;
mod rdb;
mod source;
mod target;

use crate::arguments::Import;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;

use self::aof::Files;
use self::source::{Kind, Source};

pub(crate) fn run(arguments: &Import) -> Outcome {
    let interrupt = Interrupt::catch()?;
    let path = &arguments.file;
    if path.is_dir() {
        return aof::run(&Files::of_folder(path)?, arguments, &interrupt);
    }
    if aof::is_manifest(path) {
        return aof::run(&Files::of_manifest(path)?, arguments, &interrupt);
    }
    let mut source = Source::open(path)?;
    if source.has_commands()? {
        return aof::run(&Files::single(path), arguments, &interrupt);
    }
    match source.kind {
        Kind::Archive => {
            if arguments.streaming || arguments.drop_field_expiry {
                return Err(Failure::usage(format_args!(
                    "{} is an export of Undercroft; --streaming and --drop-field-expiry are for \
                     files of Redis and Valkey",
                    source.name
                )));
            }
            archive::run(source, arguments, &interrupt)
        }
        Kind::Rdb => rdb::run(source, arguments, &interrupt),
        Kind::Commands => Err(Failure::new(format_args!(
            "{}: expected a regular file, because append-only files are read from the disk",
            source.name
        ))),
    }
}
