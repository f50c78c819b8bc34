//! Crash-safe shared memory: the mapped store file, its process table, locks,
//! undo logs and heap.
//!
//! A [`Segment`] is one store file mapped into this process. [`Segment::read`]
//! gives a consistent [`View`] of some shards without a lock;
//! [`Segment::write`] runs a [`Transaction`], which survives the death of its
//! process at any instruction: what it changed is either all there or not at
//! all, as soon as the next process comes by.
//!
//! This crate knows nothing of what is stored. Its rules (S, L, W, R, H and D) are
//! numbered in `docs/rules.md`, and the file is drawn in
//! `docs/file-format.md`. All `unsafe` code of the engine is here.

#[cfg(not(all(
    target_os = "linux",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!("Undercroft runs on Linux on x86-64 and arm64 only");

mod ahead;
mod arena;
mod bell;
mod changes;
mod check;
mod check_arenas;
mod classes;
mod counter;
mod error;
pub mod fault;
mod file;
mod heap;
mod hints;
mod kind;
pub mod layout;
mod lock;
mod log;
mod lost;
mod mapping;
mod mark;
#[cfg(all(loom, test))]
mod models;
mod moves;
mod once;
mod platform;
mod polling;
mod pool;
mod process;
pub mod race;
mod reading;
mod recovery;
mod remains;
mod ring;
mod ring_reader;
mod room;
mod savepoint;
mod seat;
mod segment;
mod shards;
mod slab;
mod staging;
mod statistics;
mod stock;
mod sync;
mod tenant;
mod transaction;
mod trim;
mod upkeep;
mod users;
mod view;
mod wait;
pub mod work;

pub use bell::{Bell, remove_sockets};
pub use check::Report;
pub use classes::block_size;
pub use error::{Error, Fault, Holder};
pub use file::{Initially, Options, capacity_made};
pub use platform::{coarse_milliseconds, effective_user};
pub use polling::Polling;
pub use pool::Pool;
pub use process::without_fork;
pub use reading::Scratch;
pub use ring::{RingCounts, counter_of};
pub use ring_reader::{Look, Record, RingReader};
pub use room::Need;
pub use savepoint::Savepoint;
pub use seat::{Patience, Seat, SeatName};
pub use segment::{Marks, Segment};
pub use shards::ShardSet;
pub use staging::Staged;
pub use statistics::{HeldLock, LockName, Member, Setting, Statistics};
pub use stock::Stock;
pub use transaction::Transaction;
pub use trim::Trimmed;
pub use upkeep::Turn;
pub use users::User;
pub use view::{Block, Offset, View};
pub use wait::{SignalsDeferred, WaitHook, are_signals_deferred, defer_signals};

/// Words in a shard's roots.
pub const ROOT_WORDS: usize = layout::shard::ROOT_WORDS as usize;
