//! Clients that wait until a key has something for them: blocking pops (M5). The folders `channel` and `store` use it.
//!
//! Who waits stands in three dictionaries that no client sees, and that change
//! by transactions as keys do. Each key that is waited for has a *queue* of
//! tickets, in the order in which their owners began to wait. Each ticket has a
//! *record*: the seat at which its owner sleeps, what it wants, and, once it
//! was answered, the answer, so that the record is the waiter's mailbox. Each
//! seat has a list of its tickets that were *answered*, and each shard one of the
//! mailboxes that hold something of its keys.
//!
//! A change of a key that has a queue is noticed by the writer that makes it.
//! After the commit it serves the queue: in one transaction for each, what the
//! first living waiter wants is taken from the key and put into its record (or
//! moved to the destination), and the ticket leaves all queues. Then the waiter
//! is woken. It takes the answer out of its record, and the ticket is no more.
//!
//! Nothing depends on a writer that lives: who waits looks at its keys ten
//! times a second, and serves their queues itself where somebody was killed
//! behind a commit. A ticket of a dead process leaves the queues as soon as
//! somebody comes by, and what lies in its record goes back to the end of the
//! key that it came from before anybody reads or changes a key of that shard.
//!
//! A client may also [look](Look) only: it is woken, and takes what is there by itself, as any other call would. So
//! nothing lies in its record that could be lost, and a wake that its owner's death has lost is made up for by the next
//! look of whoever waits behind.
//!
//! - `looking`: whether there is what somebody looks for.
//! - `items_of_the_dead`: what was given to clients that died goes back.
//! - `postponed`: tasks that a lock stood in the way of.
//! - `record`: what is stored of one waiting client.
//! - `serve`: serving queues: giving those who wait what came for them.
//! - `streams`: what streams have for those who wait.
//! - `table`: changing the queues, the records and the lists of answers.
//! - `waiters`: the side of those who wait.

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

/// What a client takes from the first of its keys that has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Up to so many items from an end of a list.
    Items {
        /// The end.
        end: End,
        /// At least 1.
        count: u64,
    },
    /// An item from an end of the list that is the first key, to an end of the
    /// list that is the second one.
    Move {
        /// The end of the first list.
        from: End,
        /// The end of the second list.
        to: End,
    },
    /// Up to so many members of a sorted set.
    Scored {
        /// Those with the highest scores, rather than the lowest.
        highest: bool,
        /// At least 1.
        count: u64,
    },
    /// Entries behind an id each of streams. Behind the keys stand as many ids, of 16 bytes.
    Entries {
        /// At most so many.
        count: u64,
    },
    /// The next entries of a group of streams for a consumer. Behind the keys stand the names of both.
    Deliver {
        /// At most so many.
        count: u64,
        /// They need not be acknowledged.
        acknowledged: bool,
    },
    /// Nothing: the client waits until the list that is the first key has something to be taken, or room for something
    /// to be added, or the second key is there, and then tries by itself. Each change of one of the keys wakes the
    /// first such client of each kind, and all where the second key is there.
    Look(Look),
}

/// What a client waits for that takes nothing by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// An item.
    Item,
    /// Fewer items than so many.
    Room(u64),
}

impl Take {
    /// The type that a key must hold.
    fn value_type(self) -> ValueType {
        match self {
            Take::Scored { .. } => ValueType::SortedSet,
            Take::Items { .. } | Take::Move { .. } | Take::Look(_) => ValueType::List,
            Take::Entries { .. } | Take::Deliver { .. } => ValueType::Stream,
        }
    }

    /// Whether it is of streams, from which nothing is taken away.
    fn is_of_stream(self) -> bool {
        self.value_type() == ValueType::Stream
    }

    /// How many of so many texts are keys.
    fn keys_among(self, texts: usize) -> usize {
        match self {
            Take::Entries { .. } => texts / 2,
            Take::Deliver { .. } => texts.saturating_sub(2),
            _ => texts,
        }
    }
}

/// What a client waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// The database of the keys.
    pub database: usize,
    /// The keys, in the order in which they are tried; for [`Take::Move`] the
    /// source and the destination. For streams something stands behind them.
    pub keys: &'w [&'w [u8]],
    /// What is taken.
    pub take: Take,
}

impl<'w> Wanted<'w> {
    /// The keys that something may be taken from.
    fn sources(&self) -> &'w [&'w [u8]] {
        match self.take {
            Take::Move { .. } => &self.keys[..1],
            take => &self.keys[..take.keys_among(self.keys.len())],
        }
    }

    /// The keys that may be changed.
    fn named(&self) -> &'w [&'w [u8]] {
        &self.keys[..self.take.keys_among(self.keys.len())]
    }
}

/// What was taken from a key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// The key.
    pub key: Vec<u8>,
    /// The items, or the members.
    pub items: Ranges,
    /// The members' scores; of a list none.
    pub scores: Vec<f64>,
}

/// How a wait ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Something was taken.
    Taken(Taken),
    /// There may be what was looked for.
    Ready,
    /// There was an item to be moved, and the destination holds no list.
    WrongType,
    /// The group of a stream is no longer there.
    NoGroup,
    /// The stream of a group is no longer there.
    NoStream,
    /// There was nothing in time, or somebody ended the wait as if it were so.
    TimedOut,
    /// Somebody ended the wait, and the client is to be told.
    Unblocked,
    /// The store's file, which had this path, was removed or replaced: nothing
    /// can come any more (M7).
    Removed(PathBuf),
}

impl Answer {
    /// The error that it is, where it is one of the store's.
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
