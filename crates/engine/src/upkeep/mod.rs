//! What becomes of keys and memory that nobody needs any more: expiry, eviction, freeing in bounded steps.
//!
//! - `dead`: what dead processes leave in a store: tickets, mailboxes, subscriptions.
//! - `detached`: subtrees that LTRIM detached from a list that has an arena, freed while the list lives on.
//! - `eviction`: making room where `maxmemory` is reached.
//! - `expired`: expired keys that reads of this thread met, for somebody who may remove them.
//! - `expiry`: the sweep for expired keys that nobody asks for.
//! - `graveyard`: what is freed later: emptied databases, and large collections that were removed.
//! - `recency`: when keys were used last, or how often.
//! - `reclaim`: memory that is found before anybody is told that there is none.
//! - `space`: making room where the store itself is full.
//! - `steps`: the round of chores that keeps the store, a bounded step at a time.

pub(crate) mod dead;
pub(crate) mod detached;
pub(crate) mod eviction;
pub(crate) mod expired;
pub(crate) mod expiry;
pub(crate) mod graveyard;
pub(crate) mod recency;
mod reclaim;
pub(crate) mod space;
pub(crate) mod steps;
