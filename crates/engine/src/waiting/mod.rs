//! Implements blocking pops, which wait until a key has something for the client (M5). The folders
//! `channel` and `store` use this module.
//!
//! The state of waiting clients is stored in three dictionaries that clients cannot see and that
//! transactions change like keys. Each key with waiters has a *queue* of tickets (ids of waits), in
//! the order in which the clients began to wait. Each ticket has a *record*, which contains the
//! seat (a futex slot of the client's process) on which the client sleeps, the client's request
//! and, later, the answer. The record is thus the client's mailbox. Each seat has a list of its
//! *answered* tickets, and each shard has a list of the mailboxes that contain items of its keys.
//!
//! A writer that changes a key with a queue serves the queue after its commit, in one transaction
//! for each waiter. The transaction removes from the key the items that the first living waiter
//! requested, puts them into the waiter's record or moves them to the destination, and removes the
//! ticket from all queues. The writer then wakes the waiter, which reads the answer from its record
//! and deletes the ticket.
//!
//! Correctness does not depend on a writer staying alive. Waiters check their keys ten times a
//! second, and serve the queues themselves if a writer was killed after its commit. The tickets of
//! a dead process leave the queues the next time any process serves them. The items in a dead
//! client's record return to the end of the key that they came from, before any process reads or
//! changes a key of that shard.
//!
//! A client can also wait for a [condition](Look) without removing items. In that case, the writer
//! wakes the client, which then removes the item with an ordinary call. The record of such a client
//! never contains items that could be lost. If the client dies after it was woken, the wake is
//! lost, but the next waiter notices at its next check.
//!
//! - `looking`: checks for clients that wait for a condition without removing items.
//! - `items_of_the_dead`: returns items that were given to clients that died.
//! - `postponed`: retries tasks that a locked shard delayed.
//! - `record`: defines the stored record of a waiting client.
//! - `serve`: serves queues by giving waiters the items that arrived for them.
//! - `streams`: serves clients that wait for stream entries.
//! - `table`: changes queues, records and lists of answers.
//! - `waiters`: implements the waiting client's side.

mod items_of_the_dead;
mod looking;
pub(crate) mod postponed;
mod record;
mod serve;
mod streams;
mod table;
#[cfg(test)]
mod tests;
mod waiters;

pub use looking::Found as Looked;
pub use record::Ticket;
pub(crate) use record::TicketRecord;
pub use waiters::{WaitOutcome, Waiters};

use std::path::PathBuf;

use crate::error::Error;
use crate::structures::ranges::Ranges;
use crate::types::list::End;
use crate::types::value_type::ValueType;

/// The operation that a client performs on the first of its keys that has something for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Pop up to `count` items from one end of a list.
    Items {
        /// The end of the list to pop from.
        end: End,
        /// The maximum number of items, at least 1.
        count: u64,
    },
    /// Move an item from one end of the first key's list to one end of the second key's list.
    Move {
        /// The end of the source list to pop from.
        from: End,
        /// The end of the destination list to push to.
        to: End,
    },
    /// Pop up to `count` members of a sorted set.
    Scored {
        /// Whether to pop the members with the highest scores rather than the lowest.
        highest: bool,
        /// The maximum number of members, at least 1.
        count: u64,
    },
    /// Read entries of streams, after a given id in each stream. In `Wanted::keys`, the keys are
    /// followed by an equal number of ids of 16 bytes each.
    Entries {
        /// The maximum number of entries.
        count: u64,
    },
    /// Read the next entries of streams as a consumer of a group. In `Wanted::keys`, the keys are
    /// followed by the names of the group and the consumer.
    Deliver {
        /// The maximum number of entries.
        count: u64,
        /// Whether the entries are acknowledged by being delivered (NOACK).
        acknowledged: bool,
    },
    /// Wait without removing anything, until the list at the first key has an item or room, or
    /// until the second key exists. The client then retries its call. A change to either key wakes
    /// the first such client of each kind. Creating the second key wakes all of them.
    Look(Look),
}

/// The condition that a client waits for without removing items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The list has at least one item.
    Item,
    /// The list has fewer items than this number.
    Room(u64),
}

impl Take {
    /// Returns the type of value that the keys must hold.
    fn value_type(self) -> ValueType {
        match self {
            Take::Scored { .. } => ValueType::SortedSet,
            Take::Items { .. } | Take::Move { .. } | Take::Look(_) => ValueType::List,
            Take::Entries { .. } | Take::Deliver { .. } => ValueType::Stream,
        }
    }

    /// Returns whether the operation reads streams, which removes nothing from them.
    fn is_of_stream(self) -> bool {
        self.value_type() == ValueType::Stream
    }

    /// Given the number of texts in a request, returns how many of the texts are keys.
    fn keys_among(self, texts: usize) -> usize {
        match self {
            Take::Entries { .. } => texts / 2,
            Take::Deliver { .. } => texts.saturating_sub(2),
            _ => texts,
        }
    }
}

/// A client's request to wait for one of several keys.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// The database of the keys.
    pub database: usize,
    /// The keys in the order in which they are tried. For [`Take::Move`], the source and the
    /// destination. For streams, the keys are followed by ids or names.
    pub keys: &'w [&'w [u8]],
    /// The operation to perform on the first key that has something for the client.
    pub take: Take,
}

impl<'w> Wanted<'w> {
    /// Returns the keys that the operation may remove items or read entries from.
    fn sources(&self) -> &'w [&'w [u8]] {
        match self.take {
            Take::Move { .. } => &self.keys[..1],
            take => &self.keys[..take.keys_among(self.keys.len())],
        }
    }

    /// Returns all keys of the request, including the destination of a move.
    fn named(&self) -> &'w [&'w [u8]] {
        &self.keys[..self.take.keys_among(self.keys.len())]
    }
}

/// The items or members that were popped from a key, or the entries that were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// The key that the items came from.
    pub key: Vec<u8>,
    /// The items of a list or the members of a sorted set.
    pub items: Ranges,
    /// The scores of the members. Empty for a list.
    pub scores: Vec<f64>,
}

/// The outcome of a client's wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The client received items.
    Taken(Taken),
    /// The condition of a [`Look`] may hold now, so the client must retry.
    Ready,
    /// There was an item to move, but the destination holds a different type.
    WrongType,
    /// The consumer group no longer exists.
    NoGroup,
    /// The stream of the consumer group no longer exists.
    NoStream,
    /// The timeout expired, or another client ended the wait as if the timeout had expired.
    TimedOut,
    /// Another client ended the wait with an error.
    Unblocked,
    /// The store's file at this path was removed or replaced, so no more items can arrive (M7).
    Removed(PathBuf),
}

impl Answer {
    /// Returns the error to report for this answer, or `None` if the answer is not a failure of the
    /// store.
    pub fn error(&self) -> Option<Error> {
        match self {
            Answer::Removed(path) => {
                let path = path.clone();
                Some(undercroft_memory::Error::Removed { path }.into())
            }
            _ => None,
        }
    }
}
