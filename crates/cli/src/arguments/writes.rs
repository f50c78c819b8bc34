//! Defines what a server does with commands that change keys of a replica.

use clap::ValueEnum;

/// The ways in which a server handles commands that change keys of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Writes {
    /// Replies with READONLY
    Refuse,
    /// Sends them to the source, whose reply the client receives
    Forward,
}
