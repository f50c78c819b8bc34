//! Implements `undercroft import`.
//!
//! - `archive`: imports a file that `undercroft export` wrote.
//! - `rdb`: imports an RDB file.
//! - `source`: finds out what kind of file to import.
//! - `target`: the store that an import fills.

mod archive;
mod rdb;
mod source;
mod target;

use crate::arguments::Import;
use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;

use self::source::{Kind, Source};

pub(crate) fn run(arguments: &Import) -> Outcome {
    let interrupt = Interrupt::catch()?;
    let source = Source::open(&arguments.file)?;
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
    }
}
