//! The files that the server uses.
//!
//! - `audit_file`: appends the events of the audit log to a file.
//! - `dump_file`: the file of SAVE and BGSAVE.
//! - `refusal_rate`: limits how many refused connections the audit log records.
//! - `sandbox`: restricts the server to the files that it needs.

pub(crate) mod audit_file;
pub(crate) mod dump_file;
pub(crate) mod refusal_rate;
pub(crate) mod sandbox;
