//! Blocking pops: clients that wait until a key has something for them (M5). The folders `channel`
//! and `store` use this module.
//!
//! Waiting clients are stored in three dictionaries that no client sees and that change by
//! transactions, as keys do. Each key with waiters has a *queue* of tickets, in the order in which
//! their owners began to wait. Each ticket has a *record*: the seat at which its owner sleeps, what
//! the owner wants and, later, the answer. So the record is the waiter's mailbox. Each seat has a
//! list of its *answered* tickets, and each shard has a list of the mailboxes that hold items of
//! its keys.
//!
//! A writer that changes a key with a queue serves the queue after its commit, in one transaction
//! for each waiter. The transaction takes from the key what the first living waiter wants, puts it
//! into the waiter's record or moves it to the destination, and removes the ticket from all queues.
//! Then the writer wakes the waiter, which takes the answer out of its record and deletes the
//! ticket.
//!
//! Correctness does not depend on a writer staying alive. Waiters check their keys ten times a
//! second, and serve the queues themselves if a writer was killed after its commit. The ticket of a
//! dead process leaves the queues as soon as any process serves them. The items in its record
//! return to the end of the key that they came from, before any process reads or changes a key of
//! that shard.
//!
//! A client may also only [look](Look): it is woken and then takes the item by an ordinary call.
//! Its record never holds items that could be lost. If such a client dies after it was woken, the
//! wake is lost, but the next waiter recovers at its next check.
//!
//! - `looking`: checks for clients that wait without taking anything.
//! - `items_of_the_dead`: returning items that were given to clients that died.
//! - `postponed`: tasks that a locked shard delayed.
//! - `record`: the stored record of a waiting client.
//! - `serve`: serving queues: giving waiters the items that arrived for them.
//! - `streams`: serving clients that wait for stream entries.
//! - `table`: changing queues, records and lists of answers.
//! - `waiters`: the waiting client's side.

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

/// The operation by which a client takes items from its first key that has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Up to `count` items from one end of a list.
    Items {
        /// The end to take from.
        end: End,
        /// Maximum number of items, at least 1.
        count: u64,
    },
    /// An item from one end of the first key's list, moved to one end of the second key's list.
    Move {
        /// The end of the source list.
        from: End,
        /// The end of the destination list.
        to: End,
    },
    /// Up to `count` members of a sorted set.
    Scored {
        /// Whether to take the members with the highest scores, not the lowest.
        highest: bool,
        /// Maximum number of members, at least 1.
        count: u64,
    },
    /// Entries of streams after a given id for each stream. In `Wanted::keys`, the keys are
    /// followed by as many ids of 16 bytes.
    Entries {
        /// Maximum number of entries.
        count: u64,
    },
    /// The next entries of streams for a consumer of a group. In `Wanted::keys`, the keys are
    /// followed by the names of the group and the consumer.
    Deliver {
        /// Maximum number of entries.
        count: u64,
        /// Whether the entries count as acknowledged at once (NOACK).
        acknowledged: bool,
    },
    /// Nothing: the client waits for an item or for room in the list that is the first key, or
    /// until the second key exists, and then retries its call. A change of one of these keys wakes
    /// the first such client of each kind; once the second key exists, it wakes all of them.
    Look(Look),
}

/// The condition that a client waits for without taking anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The list has an item.
    Item,
    /// The list has fewer than this many items.
    Room(u64),
}

impl Take {
    /// Returns the type that a key must hold.
    fn value_type(self) -> ValueType {
        match self {
            Take::Scored { .. } => ValueType::SortedSet,
            Take::Items { .. } | Take::Move { .. } | Take::Look(_) => ValueType::List,
            Take::Entries { .. } | Take::Deliver { .. } => ValueType::Stream,
        }
    }

    /// Returns whether the client reads streams, from which nothing is removed.
    fn is_of_stream(self) -> bool {
        self.value_type() == ValueType::Stream
    }

    /// Returns how many of `texts` texts are keys.
    fn keys_among(self, texts: usize) -> usize {
        match self {
            Take::Entries { .. } => texts / 2,
            Take::Deliver { .. } => texts.saturating_sub(2),
            _ => texts,
        }
    }
}

/// A client's blocking request.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// The database of the keys.
    pub database: usize,
    /// The keys in the order in which they are tried. For [`Take::Move`], the source and the
    /// destination. For streams, ids or names follow the keys.
    pub keys: &'w [&'w [u8]],
    /// How items are taken from a key.
    pub take: Take,
}

impl<'w> Wanted<'w> {
    /// Returns the keys that items may be taken from.
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

/// The items or members taken from a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// The key that the items were taken from.
    pub key: Vec<u8>,
    /// The items of a list or the members of a sorted set.
    pub items: Ranges,
    /// The members' scores; empty for a list.
    pub scores: Vec<f64>,
}

/// The outcome of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Items were taken for the client.
    Taken(Taken),
    /// The condition of a [`Look`] may hold now.
    Ready,
    /// There was an item to move, but the destination holds another type.
    WrongType,
    /// The consumer group no longer exists.
    NoGroup,
    /// The stream of the consumer group no longer exists.
    NoStream,
    /// The timeout expired, or another client ended the wait as if it had.
    TimedOut,
    /// Another client ended the wait with an error.
    Unblocked,
    /// The store's file at this path was removed or replaced, so no item can arrive any more (M7).
    Removed(PathBuf),
}

impl Answer {
    /// Returns the answer as an error, if it reports a failure of the store.
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
