//! Redis data structures on shared memory: keys, values, time, messages.
//!
//! A [`Store`] is one store file. Its typed calls ([`Store::get`],
//! [`Store::set`] and their like) are the hot path of embedded clients;
//! [`Store::read`] and [`Store::write`] give commands consistent access to
//! several keys at once, through a [`Reader`] or a [`Writer`]. Commands go through
//! an [`Access`], which is the store, or a transaction over many commands
//! ([`Store::transact`]).
//!
//! [`Store::publish`] sends messages to the [`Subscriber`]s of all processes.
//!
//! This crate is ordinary safe Rust on top of `undercroft-memory`: it reads
//! through views that may be torn and writes through logged transactions, and
//! never sees a pointer.
//!
//! Its modules, of which `docs/architecture.md` draws the floors:
//!
//! - `channel`: bounded queues of messages, whose consumers may die with one in their hands.
//! - `error`: the errors of the engine.
//! - `glob`: pattern matching, as Redis' `stringmatchlen`.
//! - `handle`: the handle of a store: its clock, its settings, when keys were used.
//! - `keyspace`: what is asked of keys whatever they hold.
//! - `lease`: one computation of a cached value in all processes.
//! - `messages`: publishing, subscribing, notifications.
//! - `random`: random numbers for commands that choose by chance.
//! - `rdb_form`: what values in RDB form have in common.
//! - `scripts`: texts of scripts and libraries of functions, which all processes of a store share.
//! - `store`: opening a store, its name, and what takes all modules together.
//! - `structures`: what keys and values are made of, in the file.
//! - `transaction`: changing keys, and what follows a commit.
//! - `types`: the types of values.
//! - `upkeep`: expiry, eviction, and freeing in bounded steps.
//! - `waiting`: clients that wait until a key has something for them.

mod channel;
mod error;
pub mod glob;
mod handle;
mod keyspace;
mod lease;
mod messages;
mod random;
mod rdb_form;
mod scripts;
mod store;
mod structures;
mod transaction;
mod types;
mod upkeep;
mod waiting;

pub use channel::{Channel, Received, Sent};
pub use error::Error;
pub use handle::clock::Frozen;
pub use handle::events::{EventClasses, KeyEvent};
pub use handle::eviction_policy::{Eviction, EvictionChange, EvictionPolicy};
pub use handle::reader::Reader;
pub use handle::store::Store;
pub use keyspace::parts::Gathered;
pub use keyspace::snapshot::Item;
pub use lease::{Cached, LEASE_SCRIPT, Lease, Leased, lease_key};
pub use messages::subscriber::{Event, Message, Subscriber, Waiting};
pub use random::{Random, chance};
pub use scripts::{NamedText, RunningScript, SharedMemory, SharedTexts, StoredLibrary};
pub use store::name::{StoreName, list_stores};
pub use store::terms::Terms;
pub use store::upkeep::{Pace, Upkept};
pub use structures::entry::Entry;
pub use structures::key::Key;
pub use structures::ranges::Ranges;
pub use structures::roots::DATABASES;
pub use transaction::access::Access;
pub use transaction::effect::{Change, Effect, Follower};
pub use transaction::load::Load;
pub use transaction::message::Topic;
pub use transaction::running::Running;
pub use transaction::savepoint::Savepoint;
pub use transaction::watch::Watch;
pub use transaction::writer::{Expiry, Writer};
pub use types::contract::Description;
pub use types::feed::{
    ATTRIBUTES_MAX, Feed, FeedInfo, FeedRange, FeedType, Filter, FoundItems, Order, Rows, Schema,
    Seen, Selection, Test, Untallied,
};
pub use types::hash::{Hash, Parts};
pub use types::limits::{Limits, PackedLimits};
pub use types::list::{End, Inserted, Positions};
pub use types::set::{NewMembers, Set, SetOperation};
pub use types::sorted::{
    AddRule, Added, Aggregate, Bounds, Limit, ScoreBound, Scored, SortedSet, Source, TextBound,
    Weighted,
};
pub use types::stream::{
    AddedEntry, Claim, Claimed, ConsumerInfo, Delivery, EntryId, GroupInfo, IdRange, IdText,
    PendingEntry, PendingInfo, SetId, Stream, StreamEntries, StreamId, StreamLimits, StreamRecord,
    Trim, TrimTo,
};
pub use types::string::bits::{BitOperation, BitString};
pub use types::string::hot::{Condition, SetOptions, TextBuffer};
pub use types::string::in_place::Whole;
pub use types::string::mget::{Held, Values};
pub use types::string::text::Text;
pub use types::string::write::STRING_MAX;
pub use types::value_type::{Encoding, ValueType};
#[cfg(feature = "races")]
pub use undercroft_memory::race;
pub use undercroft_memory::{
    ForkGuard, ForkMutex, HeldLock, Holder, LockName, Member, Offset, Options, PatienceLimited,
    Pinned, PinnedBlock, PutDown, Removing, Report, Scratch, ShardSet, Staged, Statistics,
    ThreadCached, User, View, WaitHook, coarse_milliseconds, defer_signals, is_patience_limited,
    limit_patience, remove_sockets, removing, thread_time, unlimited_patience,
};
pub use waiting::{Answer, Begun, Look, Looked, Take, Taken, Ticket, Waiters, Wanted};

/// Values in RDB form, as DUMP gives them and RESTORE takes them.
pub mod rdb {
    pub use crate::keyspace::dump::{dump, restore};
    pub use crate::rdb_form::{RestoreError, dump_libraries, restore_libraries};
}
