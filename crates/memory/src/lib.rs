//! Crash-safe shared memory: the mapped store file, its process table, locks, undo logs and heap.
//!
//! A [`Segment`] is one store file mapped into this process. [`Segment::read`] returns a consistent
//! [`View`] of one or more shards without taking a lock. [`Segment::write`] runs a [`Transaction`]
//! whose process may die at any instruction: the next process that uses the store finds either all
//! of the transaction's changes or none.
//!
//! This crate does not interpret the stored data. `docs/rules.md` lists its numbered rules (S, L,
//! W, R, H and D), and `docs/file-format.md` describes the layout of the file. All of the engine's
//! `unsafe` code is in this crate.
//!
//! Each module uses only the modules that follow it in this list:
//!
//! - `models`: loom models of the code whose memory ordering matters.
//! - `recovering`: recovers stores from their journals, and reads, verifies and copies journals.
//! - `store_file`: creates, opens and syncs the store file, and recovers it after processes die.
//! - `inspection`: checks the entire store and computes its statistics.
//! - `copying`: copies the store as it was at one moment, without stopping writers.
//! - `checkpoints`: writes the entire store to a file, without stopping writers.
//! - `messages`: sends messages between processes, and wakes waiters.
//! - `objects`: large blocks that are filled before they are published, or read in place.
//! - `writing`: runs a transaction's body and commits it.
//! - `allocator`: allocates blocks in shards and arenas.
//! - `transactions`: locks shards, logs changes, and publishes or rolls back.
//! - `views`: reads shards, with or without their locks.
//! - `journal`: the journal's files: writes redo records to them.
//! - `locking`: locks shards, and recovers a shard whose writer died.
//! - `heap`: manages extents and the runs of pages in them.
//! - `redo`: records of the new contents of changes, for the journal.
//! - `undo`: writes and replays undo logs.
//! - `segment`: the handle to a mapped store, waiting for locks, and words through which processes
//!   signal one another.
//! - `processes`: the process table, lock words, liveness checks and lock timeouts.
//! - `mapped`: the layout of the mapped file, and every access to its words.
//! - `probes`: hooks with which tests observe and control the crate.
//! - `error`: the error types.
//!
//! An operation that only this crate uses is a function in its module, such as `step::run`, so that
//! each call names the file that defines it. Exported operations are methods of [`Segment`], whose
//! documentation lists them by file.

#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("Undercroft runs on Linux on x86-64 and arm64 only");

mod allocator;
mod checkpoints;
mod copying;
mod error;
mod heap;
mod inspection;
mod journal;
mod locking;
mod mapped;
mod messages;
#[cfg(all(loom, test))]
mod models;
mod objects;
mod probes;
mod processes;
mod recovering;
mod redo;
mod segment;
mod store_file;
mod transactions;
mod undo;
mod views;
mod writing;

pub use allocator::block_stock::BlockStock;
pub use checkpoints::durability::{Durability, JournalOptions, JournalState};
pub use copying::image::Image;
pub use error::{Error, Fault, Holder};
pub use heap::pool::Pool;
pub use heap::removal::{Removing, has_removed_in_part, is_removing, removing};
pub use heap::survey::{Stretches, Survey};
pub use heap::trim::Trimmed;
pub use inspection::report::Report;
pub use inspection::statistics::{HeldLock, LockName, Member, Statistics};
pub use inspection::users::User;
pub use journal::folder::remove_journal;
pub use locking::log_retirement::Shrunk;
pub use mapped::classes::block_size;
pub use mapped::disk::{Disk, DiskFile, local_disk};
pub use mapped::fork_mutex::{ForkGuard, ForkMutex};
pub use mapped::layout::{self, Offset};
pub use mapped::mapping::prefetch;
pub use mapped::platform::{
    boot_milliseconds, coarse_milliseconds, effective_user, thread_time, unix_milliseconds,
};
pub use mapped::thread_cached::ThreadCached;
pub use mapped::words::last_word;
pub use messages::bell::{Bell, remove_sockets};
pub use messages::changed_keys_reader::changed_keys;
pub use messages::polling::Polling;
pub use messages::ring::counter_of;
pub use messages::ring_reader::{Look, RingReader, RingRecord};
pub use messages::ring_writer::RingCounts;
pub use messages::seat::{Seat, SeatName};
pub use messages::tracked_keys::TrackedSlot;
pub use messages::trackers::TrackerPlace;
pub use messages::waiters::Patience;
pub use objects::pinned::{Pinned, PinnedBlock};
pub use objects::staged::{Staged, SuspendedBlock};
pub use probes::{fault, race, work};
pub use processes::patience::{
    PatienceLimited, SignalsDeferred, WaitHook, are_signals_deferred, defer_signals,
    is_patience_limited, limit_patience, limit_patience_without_sync, unlimited_patience,
};
pub use recovering::durable_opening::{JournalTerms, Opened, Recovery};
pub use recovering::journal_backup::{JournalBackup, back_up_journal};
pub use recovering::journal_recovery::Recovered;
pub use recovering::journal_replay::{ApplyRecord, JournalReplay};
pub use recovering::journal_report::{
    JournalFile, JournalFileKind, JournalRecord, JournalRecordKind, JournalVerdict, journal_files,
    read_journal, verify_journal,
};
pub use recovering::point_in_time::Until;
pub use recovering::record_reader::Cut;
pub use recovering::recovery_watch::{RecoveryProgress, RecoveryStage, RecoveryWatch};
pub use segment::Segment;
pub use segment::change_counters::Changes;
pub use segment::following::RoleLock;
pub use segment::marks::Marks;
pub use segment::settings::Setting;
pub use segment::shard_set::ShardSet;
pub use segment::upkeep::Turn;
pub use store_file::opening::{Initially, Options, capacity_made};
pub use transactions::Transaction;
pub use transactions::changed_keys::{CHANGED_KEY_MAX, ChangedKey};
pub use transactions::savepoint::LogSavepoint;
pub use views::scratch::{Body, Scratch};
pub use views::view::{Block, Roots, View};
pub use writing::reservation::{Need, Shortfall, shortfall};

/// The number of words in a shard's roots.
pub const ROOT_WORDS: usize = layout::shard::ROOT_WORDS as usize;
