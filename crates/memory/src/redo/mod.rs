//! Redo records: the new contents of what a transaction or a heap step changed (J1, J2), appended to
//! a ring in the store file. The module `journal` moves them from the ring to files.
//!
//! From the lowest-level file to the highest:
//!
//! - `failure`: the failure of a journal, which stops it until a checkpoint clears it.
//! - `lag`: the age of the oldest change that is not durable.
//! - `record`: the format of a record.
//! - `changes`: the ranges that a record contains.
//! - `ring`: appends records to the ring, and reads them.
//! - `pending`: the record of a transaction that has not ended.
//! - `restore`: records of undone changes, which a checkpoint in progress needs.

pub(crate) mod changes;
pub(crate) mod failure;
pub(crate) mod lag;
pub(crate) mod pending;
pub(crate) mod record;
pub(crate) mod restore;
pub(crate) mod ring;
