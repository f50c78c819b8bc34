//! The handlers, one file for each family of commands.

pub(crate) mod command;
pub(crate) mod strings;
