//! Sorted sets: members in the order of their scores.
//! `types/registry` asks its contract; commands make its calls.
//!
//! A small one is packed, in order. A large one is a dictionary from member to
//! score, as hashes have it, and a counted tree of its elements in order. Its
//! root words are the dictionary's, then the tree's.
//!
//! - `bounds`: ranges: by rank, by score, by text.
//! - `combine`: unions, intersections and differences of sorted sets and sets.
//! - `contract`: what sorted sets answer as a type of value.
//! - `leaf`: the leaves of a sorted set's tree.
//! - `order`: the order of members: by score, then by their bytes.
//! - `pack`: small sorted sets in one byte string.
//! - `pop`: taking the first or last members out.
//! - `ranks`: the tree of a large sorted set: its members by rank.
//! - `read`: reading sorted sets, optimistically or under a lock.
//! - `remove`: taking members out.
//! - `scored`: members with their scores, outside the store.
//! - `object`: whole sorted sets: freeing, copying, checking, measuring.
//! - `write`: putting members in.

mod bounds;
mod combine;
mod contract;
mod leaf;
mod object;
mod order;
mod pack;
mod pop;
mod ranks;
mod read;
mod remove;
mod scored;
mod write;

use undercroft_memory::{Fault, Offset, Pool, View};

pub use bounds::{Bounds, Limit, ScoreBound, TextBound};
pub use combine::{Aggregate, Source, Weighted};
pub(crate) use contract::SortedSets;
use ranks::Ranks;
pub use read::SortedSet;
pub use scored::Scored;
pub use write::{AddRule, Added};

use crate::error::Error;
use crate::structures::dictionary::Dictionary;
use crate::structures::elements::Elements;
use crate::structures::entry::{Entry, Kind};
use crate::structures::roots::{ARENA, ELEMENTS_WORDS};
use crate::types::value_type::ValueType;

const SORTED_SET: Kind = ValueType::SortedSet.kind(0);
/// Root words of a large sorted set.
const WORDS: usize = ELEMENTS_WORDS + 3;

/// A large sorted set: its two structures, and where their memory comes from.
#[derive(Clone, Copy, Debug)]
struct Large {
    elements: Elements,
    /// Where the root words of the tree are.
    ranks_at: Offset,
    pool: Pool,
}

impl Large {
    /// A large sorted set, to be read: where its memory comes from is not
    /// looked at.
    fn to_read(entry: &Entry) -> Result<Large, Fault> {
        if entry.header.value_length() != WORDS as u64 * 8 {
            return Err(entry.fault());
        }
        let (at, pool) = (entry.value_at(), Pool::from(0));
        Ok(Large {
            elements: Elements { at, pool },
            ranks_at: at + ELEMENTS_WORDS as u64 * 8,
            pool,
        })
    }

    /// A large sorted set that lies in a shard, to be changed.
    fn to_change(view: &View<'_>, shard: usize, entry: &Entry) -> Result<Large, Fault> {
        let mut large = Large::to_read(entry)?;
        large.pool = Pool::new(shard, large.elements.word(view, ARENA)?);
        large.elements.pool = large.pool;
        Ok(large)
    }

    fn ranks(&self, view: &View<'_>) -> Result<Ranks, Error> {
        Ranks::load(view, self.ranks_at)
    }
}
