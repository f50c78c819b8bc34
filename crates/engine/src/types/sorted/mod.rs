//! Implements sorted sets, whose members are ordered by score. `types/registry` uses `contract`,
//! and commands call the other modules.
//!
//! A small sorted set is packed in one block, in order. A large sorted set consists of a dictionary
//! that maps members to scores, like the dictionary of a hash, and a tree that contains the
//! dictionary's elements in order and counts them. The root words of the dictionary are followed by
//! the root words of the tree.
//!
//! - `bounds`: defines ranges by rank, by score and by text.
//! - `combine`: computes unions, intersections and differences of sorted sets and sets.
//! - `contract`: implements the type interface.
//! - `leaf`: implements the leaves of a sorted set's tree.
//! - `order`: orders members by score, and then by bytes.
//! - `pack`: stores a small sorted set in a single byte string.
//! - `pop`: pops the first or last members.
//! - `ranks`: implements the tree of a large sorted set, which orders the members by rank.
//! - `read`: reads sorted sets, optimistically or under a lock.
//! - `remove`: removes members.
//! - `scored`: represents members with their scores, outside the store.
//! - `object`: frees, copies, checks and measures complete sorted sets.
//! - `write`: adds members.

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
pub(crate) use contract::{SortedSets, score_text};
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
/// The number of root words of a large sorted set.
const WORDS: usize = ELEMENTS_WORDS + 3;

/// A large sorted set, with its dictionary, its tree, and the memory pool that both use.
#[derive(Clone, Copy, Debug)]
struct Large {
    elements: Elements,
    /// The offset of the tree's root words.
    ranks_at: Offset,
    pool: Pool,
}

impl Large {
    /// Opens a large sorted set for reading. The `pool` of the result is a placeholder, because
    /// only writers need a pool.
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

    /// Opens a large sorted set in this shard for writing.
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
