//! Recovers stores from their journals, and reads, verifies and copies journals. No module of this crate
//! uses this one.
//!
//! From the lowest-level file to the highest:
//!
//! - `recovery_watch`: observes a recovery and ends it when it is interrupted.
//! - `new_store`: a store file that is being filled.
//! - `checkpoint_reader`: reads checkpoints.
//! - `record_reader`: reads the records of a journal.
//! - `pipeline`: reads and applies at the same time.
//! - `replay`: fills a store file from a checkpoint and records.
//! - `journal_recovery`: recovers a store from its journal.
//! - `read_only_disk`: opens the files of a journal that must not be changed.
//! - `point_in_time`: recovers a store as it was at an earlier time.
//! - `journal_backup`: copies a journal while a store is writing to it.
//! - `journal_report`: describes a journal's files and records, and verifies them.
//! - `journal_replay`: repeats records one by one in a store of their own.
//! - `durable_opening`: opens stores that have a journal, and recovers them.

pub(crate) mod checkpoint_reader;
pub(crate) mod durable_opening;
pub(crate) mod journal_backup;
pub(crate) mod journal_recovery;
pub(crate) mod journal_replay;
pub(crate) mod journal_report;
pub(crate) mod new_store;
pub(crate) mod pipeline;
pub(crate) mod point_in_time;
pub(crate) mod read_only_disk;
pub(crate) mod record_reader;
pub(crate) mod recovery_watch;
pub(crate) mod replay;
