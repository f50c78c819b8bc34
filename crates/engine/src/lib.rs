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

mod access;
mod bits;
mod check;
mod clock;
mod dead;
mod dictionary;
mod element;
mod elements;
mod entry;
mod error;
mod eviction;
mod expiry;
mod flush;
pub mod glob;
mod hash;
mod hot;
mod inspect;
mod intset;
mod list;
mod load;
mod met;
mod name;
mod notify;
mod outbox;
mod packed;
mod parcel;
mod parts;
mod publish;
mod random;
mod receivers;
mod reclaim;
mod roots;
mod running;
mod scan;
mod seating;
mod set;
mod snapshot;
mod sorted;
mod store;
mod strings;
mod subscriber;
mod subscriptions;
mod terms;
#[cfg(test)]
mod torn_tests;
mod tree;
mod unsettled;
mod upkeep;
mod uses;
mod value;
mod values;
mod waiting;
mod warm;
mod watch;
mod whole;
mod writer;

pub use access::Access;
pub use bits::{BitOperation, BitString};
pub use entry::{Encoding, Entry, Text, ValueType};
pub use error::Error;
pub use eviction::{Eviction, EvictionChange, EvictionPolicy};
pub use hash::{Hash, PackedLimits, Parts};
pub use hot::{Condition, SetOptions, TextBuffer};
pub use list::{End, Inserted, Positions, Ranges};
pub use load::Load;
pub use name::{StoreName, list_stores};
pub use notify::{EventClasses, KeyEvent};
pub use random::Random;
pub use receivers::Topic;
pub use running::{Running, Savepoint};
pub use set::{Set, SetOperation};
pub use snapshot::Item;
pub use sorted::{AddRule, Added, Bounds, Limit, ScoreBound, Scored, SortedSet, TextBound};
pub use store::{DATABASES, Key, Reader, Store};
pub use strings::{STRING_MAX, parse_integer};
pub use subscriber::{Event, Message, Subscriber, Waiting};
pub use terms::Terms;
#[cfg(feature = "races")]
pub use undercroft_memory::race;
pub use undercroft_memory::{
    HeldLock, Holder, LockName, Member, Options, Report, Scratch, ShardSet, Staged, Statistics,
    User, View, WaitHook, coarse_milliseconds, defer_signals, remove_sockets, without_fork,
};
pub use upkeep::{Pace, Upkept};
pub use value::Limits;
pub use values::{Held, Values};
pub use waiting::{Answer, Begun, Take, Taken, Ticket, Waiters, Wanted};
pub use watch::Watch;
pub use writer::{Expiry, Writer};
