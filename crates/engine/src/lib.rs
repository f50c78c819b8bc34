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
//! Its rooms:
//!
//! - `channel`: bounded queues of messages, whose consumers may die with one in their hands.
//! - `error`: the errors of the engine.
//! - `glob`: pattern matching, as Redis' `stringmatchlen`.
//! - `keyspace`: what is asked of keys whatever they hold.
//! - `lease`: one computation of a cached value in all processes.
//! - `messages`: publishing, subscribing, notifications.
//! - `random`: random numbers for commands that choose by chance.
//! - `rdb`: values in the form in which DUMP gives them.
//! - `scripts`: texts of scripts and libraries of functions, which all processes of a store share.
//! - `store`: the store itself: its name, opening it, its handle.
//! - `structures`: what keys and values are made of, in the file.
//! - `transaction`: changing keys, and what follows behind a commit.
//! - `types`: the types of values.
//! - `upkeep`: expiry, eviction, and freeing in bounded steps.
//! - `waiting`: clients that wait until a key has something for them.

mod channel;
mod error;
pub mod glob;
mod keyspace;
mod lease;
mod messages;
mod random;
pub mod rdb;
mod scripts;
mod store;
mod structures;
mod transaction;
mod types;
mod upkeep;
mod waiting;

pub use channel::{Channel, Received, Sent};
pub use error::Error;
pub use keyspace::parts::Gathered;
pub use keyspace::snapshot::Item;
pub use lease::{Cached, LEASE_SCRIPT, Lease, Leased, lease_key};
pub use messages::notify::{EventClasses, KeyEvent};
pub use messages::receivers::Topic;
pub use messages::subscriber::{Event, Message, Subscriber, Waiting};
pub use random::{Random, chance};
pub use scripts::{NamedText, RunningScript, SharedMemory, SharedTexts, StoredLibrary};
pub use store::clock::Frozen;
pub use store::name::{StoreName, list_stores};
pub use store::terms::Terms;
pub use store::{DATABASES, Key, Reader, Store};
pub use structures::entry::{Encoding, Entry, Text};
pub use structures::integer::parse_integer;
pub use structures::ranges::Ranges;
pub use transaction::access::Access;
pub use transaction::effect::{Change, Effect, Follower};
pub use transaction::load::Load;
pub use transaction::running::{Running, Savepoint};
pub use transaction::watch::Watch;
pub use transaction::writer::{Expiry, Writer};
pub use types::contract::Description;
pub use types::feed::{
    ATTRIBUTES_MAX, Feed, FeedInfo, FeedRange, FeedType, Filter, FoundItems, Order, Rows, Schema,
    Seen, Selection, Test, Untallied,
};
pub use types::hash::{Hash, PackedLimits, Parts};
pub use types::list::{End, Inserted, Positions};
pub use types::registry::ValueType;
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
pub use types::string::write::STRING_MAX;
pub use types::value::Limits;
#[cfg(feature = "races")]
pub use undercroft_memory::race;
pub use undercroft_memory::{
    ForkGuard, ForkMutex, HeldLock, Holder, Lent, LockName, Member, Offset, Options,
    PatienceLimited, Pinned, PinnedBlock, PutDown, Removing, Report, Scratch, ShardSet, Staged,
    Statistics, User, View, WaitHook, coarse_milliseconds, defer_signals, is_patience_limited,
    limit_patience, remove_sockets, removing, thread_time, unlimited_patience,
};
pub use upkeep::eviction::{Eviction, EvictionChange, EvictionPolicy};
pub use upkeep::steps::{Pace, Upkept};
pub use waiting::{Answer, Begun, Look, Looked, Take, Taken, Ticket, Waiters, Wanted};
