//! Redis data structures on shared memory: keys, values, time, messages.
//!
//! A [`Store`] is one store file. Its typed calls ([`Store::get`],
//! [`Store::set`] and their like) are the hot path of embedded clients;
//! [`Store::read`] and [`Store::write`] give commands consistent access to
//! several keys at once, through a [`Reader`] or a [`Writer`]. Commands go through
//! an [`Access`], which is the store, or a transaction over many commands
//! ([`Store::transact`]).
//!
//! [`Store::publish`] sends messages to the [`Subscriber`](messages::Subscriber)s of all processes.
//!
//! Types lie in a module for each subject ([`lists`], [`streams`], [`waiting`], ...). A call on a value begins with the
//! name of its type and is found in that type's folder: `list_push` in `types/list`, `stream_add` in `types/stream`.
//! Calls without one are on strings (`types/string`) or on keys whatever they hold (`transaction`, `keyspace`).
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
pub mod keyspace;
mod lease;
pub mod messages;
mod random;
mod rdb_form;
pub mod scripts;
mod store;
mod structures;
mod transaction;
mod types;
mod upkeep;
pub mod waiting;

pub use error::Error;
pub use handle::clock::Frozen;
pub use handle::reader::Reader;
pub use handle::store::Store;
pub use random::{Random, chance};
pub use store::name::{StoreName, list_stores};
pub use store::terms::Terms;
pub use store::upkeep::{Pace, Upkept};
pub use structures::entry::Entry;
pub use structures::key::Key;
pub use structures::ranges::Ranges;
pub use structures::roots::DATABASES;
pub use transaction::access::Access;
pub use transaction::load::Load;
pub use transaction::running::Running;
pub use transaction::savepoint::Savepoint;
pub use transaction::writer::{Expiry, Writer};
pub use types::contract::Description;
pub use types::limits::{Limits, PackedLimits};
pub use types::value_type::{Encoding, ValueType};
#[cfg(feature = "races")]
pub use undercroft_memory::race;
pub use undercroft_memory::{
    ForkGuard, ForkMutex, HeldLock, Holder, LockName, Member, Offset, Options, PatienceLimited,
    Pinned, PinnedBlock, PutDown, Removing, Report, Scratch, ShardSet, Staged, Statistics,
    ThreadCached, User, View, WaitHook, coarse_milliseconds, defer_signals, is_patience_limited,
    limit_patience, remove_sockets, removing, thread_time, unlimited_patience,
};

/// Bounded queues of messages between processes: `Store::send`, `Store::receive` and their like.
pub mod channels {
    pub use crate::channel::{Channel, Received, Sent};
}

/// Following what becomes of keys: `Store::follow`, `Access::watch`.
pub mod changes {
    pub use crate::transaction::effect::{Change, Effect, Follower};
    pub use crate::transaction::watch::Watch;
}

/// Events of keys, and which of them are told.
pub mod events {
    pub use crate::handle::events::{EventClasses, KeyEvent};
}

/// Which keys make room where the memory limit is reached.
pub mod eviction {
    pub use crate::handle::eviction_policy::{Eviction, EvictionChange, EvictionPolicy};
}

/// Feeds. Calls on them begin with `feed_`.
pub mod feeds {
    pub use crate::types::feed::{
        ATTRIBUTES_MAX, Feed, FeedInfo, FeedRange, FeedType, Filter, FoundItems, Order, Rows,
        Schema, Seen, Selection, Test, Untallied,
    };
}

/// Hashes. Calls on them begin with `hash_`.
pub mod hashes {
    pub use crate::types::hash::{Hash, Parts};
}

/// One computation of a cached value in all processes: `Store::take_lease` and its like.
pub mod leases {
    pub use crate::lease::{Cached, LEASE_SCRIPT, Lease, Leased, lease_key};
}

/// Lists. Calls on them begin with `list_`.
pub mod lists {
    pub use crate::types::list::{End, Inserted, Positions};
}

/// Sets. Calls on them begin with `set_`, with an element, or `combine_sets`.
pub mod sets {
    pub use crate::types::set::{NewMembers, Set, SetOperation};
}

/// Sorted sets. Calls on them begin with `sorted_`.
pub mod sorted_sets {
    pub use crate::types::sorted::{
        AddRule, Added, Aggregate, Bounds, Limit, ScoreBound, Scored, SortedSet, Source, TextBound,
        Weighted,
    };
}

/// Streams. Calls on them begin with `stream_`.
pub mod streams {
    pub use crate::types::stream::{
        AddedEntry, Claim, Claimed, ConsumerInfo, Delivery, EntryId, GroupInfo, IdRange, IdText,
        PendingEntry, PendingInfo, SetId, Stream, StreamEntries, StreamId, StreamLimits,
        StreamRecord, Trim, TrimTo,
    };
}

/// Strings, which calls without the name of a type are on: `Store::get`, `Writer::append`.
pub mod strings {
    pub use crate::types::string::bits::{BitOperation, BitString};
    pub use crate::types::string::hot::{Condition, SetOptions, TextBuffer};
    pub use crate::types::string::in_place::Whole;
    pub use crate::types::string::mget::{Held, Values};
    pub use crate::types::string::text::Text;
    pub use crate::types::string::write::STRING_MAX;
}

/// Values in RDB form, as DUMP gives them and RESTORE takes them.
pub mod rdb {
    pub use crate::keyspace::dump::{dump, restore};
    pub use crate::rdb_form::{RestoreError, dump_libraries, restore_libraries};
}
