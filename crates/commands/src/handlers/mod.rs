//! The handlers, one file for each family of commands.

pub(crate) mod command;
