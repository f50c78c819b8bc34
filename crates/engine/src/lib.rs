//! Redis data structures in shared memory: keys, values, expiry and messages.
//!
//! A [`Store`] is one open store file. Its typed calls, such as [`Store::get`] and [`Store::set`],
//! are the hot path of embedded clients. [`Store::read`] and [`Store::write`] give commands
//! consistent access to several keys, through a [`Reader`] or a [`Writer`]. Commands use an
//! [`Access`], which is either the store itself or a transaction over many commands
//! ([`Store::transact`]).
//!
//! [`Store::publish`] sends messages to the [`Subscriber`](messages::Subscriber)s of all processes.
//!
//! Each subject has a module with its types ([`lists`], [`streams`], [`waiting`], ...). A call on a
//! value starts with the name of the value's type and is defined in the folder of that type:
//! `list_push` in `types/list`, `stream_add` in `types/stream`. Calls without a type prefix work on
//! strings (`types/string`) or on keys of any type (`transaction`, `keyspace`).
//!
//! This crate is ordinary safe Rust on top of `undercroft-memory`: it reads through views that may
//! be torn by concurrent writes, writes through logged transactions, and never uses raw pointers.
//!
//! `docs/architecture.md` shows how these modules are layered:
//!
//! - `channel`: bounded message queues that survive the death of a consumer holding a message.
//! - `error`: the error type of the engine.
//! - `glob`: pattern matching compatible with Redis' `stringmatchlen`.
//! - `handle`: the handle of an open store, with its clock, settings, and access times of keys.
//! - `keyspace`: operations that work on keys of any type.
//! - `lease`: leases, so that only one process computes a missing cached value.
//! - `messages`: publish/subscribe and notifications.
//! - `random`: random numbers for commands that pick random elements.
//! - `rdb_form`: the parts of the RDB format that all types share.
//! - `scripts`: scripts and function libraries, shared by all processes of a store.
//! - `store`: opening and naming a store, and operations that involve all modules.
//! - `structures`: the building blocks of keys and values in the file.
//! - `transaction`: changing keys, and the work that follows a commit.
//! - `types`: the value types.
//! - `upkeep`: expiry, eviction, and freeing memory in bounded steps.
//! - `users`: the users of servers (ACL), shared by all servers of a store.
//! - `waiting`: clients that block until a key has data for them.

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
pub mod users;
pub mod waiting;

pub use error::Error;
pub use handle::clock::Frozen;
pub use handle::reader::Reader;
pub use handle::store::Store;
pub use random::{Random, chance};
pub use store::cluster::{ClusterSource, Lane, SLOTS, SlotOwners, key_slot};
pub use store::journal_keys::{ChangedKeys, read_journal_keys};
pub use store::name::{StoreName, journal_folder, list_stores};
pub use store::outgoing::{Changes, LogEnds, Stream};
pub use store::replication::{
    AppliedPosition, Lag, LinkStatus, REPLICATION_ID, Source, SourceLink, loading_database,
};
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
pub use transaction::tracking::origin::{EVICTION, Origin};
pub use transaction::writer::{Expiry, Writer};
pub use types::contract::Description;
pub use types::limits::{Limits, PackedLimits};
pub use types::value_type::{Encoding, ValueType};
#[cfg(feature = "races")]
pub use undercroft_memory::race;
pub use undercroft_memory::{
    Cut, Durability, ForkGuard, ForkMutex, HeldLock, Holder, JournalBackup, JournalFile,
    JournalFileKind, JournalRecord, JournalRecordKind, JournalState, JournalVerdict, LockName,
    Member, Offset, Options, PatienceLimited, Pinned, PinnedBlock, Recovery, RecoveryProgress,
    RecoveryStage, RecoveryWatch, Removing, Report, RoleLock, Scratch, ShardSet, Staged,
    Statistics, SuspendedBlock, ThreadCached, Until, User, View, WaitHook, back_up_journal,
    coarse_milliseconds, defer_signals, is_patience_limited, journal_files, limit_patience,
    limit_patience_without_sync, read_journal, remove_journal, remove_sockets, removing,
    thread_time, unlimited_patience, verify_journal,
};

/// Bounded message queues between processes, used through `Store::send` and `Store::receive`.
pub mod channels {
    pub use crate::channel::{Channel, Received, Sent};
}

/// Change tracking for keys, used through `Store::changes_after` and `Access::watch`.
pub mod changes {
    pub use crate::transaction::effect::{Change, ChangedPart, Effect};
    pub use crate::transaction::watch::Watch;
}

/// Keyspace events and the setting that selects which events are published.
pub mod events {
    pub use crate::handle::events::{EventClasses, KeyEvent};
}

/// Eviction policies, which decide which keys are evicted when the store reaches its memory limit.
pub mod eviction {
    pub use crate::handle::eviction_policy::{Eviction, EvictionChange, EvictionPolicy};
}

/// Types for feeds. The calls on feeds start with `feed_`.
pub mod feeds {
    pub use crate::types::feed::{
        ATTRIBUTES_MAX, Feed, FeedInfo, FeedRange, FeedType, Filter, FoundItems, Order, Rows,
        Schema, Seen, Selection, Test, Untallied,
    };
}

/// Types for hashes. The calls on hashes start with `hash_`.
pub mod hashes {
    pub use crate::types::hash::{Hash, Parts};
}

/// Leases, which ensure that only one process computes a missing cached value; see
/// `Store::take_lease`.
pub mod leases {
    pub use crate::lease::{Cached, LEASE_SCRIPT, Lease, Leased, lease_key};
}

/// Types for lists. The calls on lists start with `list_`.
pub mod lists {
    pub use crate::types::list::{End, Inserted, Positions};
}

/// Types for sets. The calls on sets are `combine_sets` and all calls that start with `set_`.
pub mod sets {
    pub use crate::types::set::{NewMembers, Set, SetOperation};
}

/// Types for sorted sets. The calls on sorted sets start with `sorted_`.
pub mod sorted_sets {
    pub use crate::types::sorted::{
        AddRule, Added, Aggregate, Bounds, Limit, ScoreBound, Scored, SortedSet, Source, TextBound,
        Weighted,
    };
}

/// Types for streams. The calls on streams start with `stream_`.
pub mod streams {
    pub use crate::types::stream::{
        AddedEntry, Claim, Claimed, ConsumerInfo, Delivery, EntryId, GroupInfo, IdRange, IdText,
        PendingEntry, PendingInfo, SetId, Stream, StreamEntries, StreamId, StreamLimits,
        StreamRecord, Trim, TrimTo,
    };
}

/// Types for strings. The calls on strings, such as `Store::get`, have no type prefix.
pub mod strings {
    pub use crate::types::string::bits::{BitOperation, BitString};
    pub use crate::types::string::hot::{Condition, SetOptions, TextBuffer};
    pub use crate::types::string::in_place::StringInPlace;
    pub use crate::types::string::mget::{Held, Values};
    pub use crate::types::string::text::Text;
    pub use crate::types::string::write::STRING_MAX;
}

/// Values in the RDB format, as RDB files contain them, DUMP returns them and RESTORE accepts them.
pub mod rdb {
    pub use crate::keyspace::dump::{
        DecodedString, decode, decode_string, decode_string_onto, dump, dump_as, encode,
        encode_length, encode_string, restore,
    };
    pub use crate::rdb_form::{
        ExpiringHash, RdbVersion, RestoreError, decode_expiring_hash, dump_libraries,
        restore_libraries,
    };
}
