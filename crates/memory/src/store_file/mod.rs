//! The store file: creating and opening it, and operations on the entire store. No other module
//! calls it.
//!
//! From the lowest-level file to the highest:
//!
//! - `header_page`: builds the header page of a new store, and checks it when a store is opened.
//! - `recovery`: recovers from a dead process before its process table entry is reused.
//! - `opening`: creates and opens store files.
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
//! - `syncer`: the thread that syncs the journal and begins checkpoints.
//! - `background_checkpoint`: writes a checkpoint on a thread of its own.
//! - `sync`: writes a store to disk.
//! - `truncation`: how a program exits if its store's file is truncated.

mod background_checkpoint;
mod checkpoint_reader;
pub(crate) mod durable_opening;
mod header_page;
pub(crate) mod journal_backup;
pub(crate) mod journal_recovery;
pub(crate) mod journal_replay;
pub(crate) mod journal_report;
mod new_store;
pub(crate) mod opening;
mod pipeline;
pub(crate) mod point_in_time;
mod read_only_disk;
pub(crate) mod record_reader;
mod recovery;
pub(crate) mod recovery_watch;
mod replay;
mod sync;
mod syncer;
mod truncation;
