//! The destination of an export as the user names it.

use std::io;
use std::path::Path;

use crate::destination::Destination;
use crate::failure::{Failure, at};

/// The destination: its name as specified by the user, and its path.
pub(super) struct Place<'a>(pub(super) String, Option<&'a Path>);

impl Place<'_> {
    pub(super) fn of(file: &Path) -> Place<'_> {
        match file == "-" {
            true => Place("standard output".to_owned(), None),
            false => Place(file.display().to_string(), Some(file)),
        }
    }

    pub(super) fn open(&self) -> io::Result<Destination> {
        match self.1 {
            None => Destination::standard_output(),
            Some(path) => Destination::open(path),
        }
    }

    pub(super) fn failure(&self) -> impl FnOnce(io::Error) -> Failure {
        at(format!("writing {}", self.0))
    }

    /// Creates the failure of an export that was interrupted by a signal.
    pub(super) fn interrupted(&self, is_stream: bool) -> Failure {
        match is_stream {
            true => Failure::interrupted(format_args!("{} received a part of the export", self.0)),
            false => Failure::interrupted(format_args!("{} was not written", self.0)),
        }
    }
}
