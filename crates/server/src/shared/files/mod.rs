//! The files that the server writes.
//!
//! - `audit_file`: appends the events of the audit log to a file.
//! - `dump_file`: the file of SAVE and BGSAVE.

pub(crate) mod audit_file;
pub(crate) mod dump_file;
