//! The global half of the heap: extents, and the runs of pages in them that are granted to shards,
//! arenas and copies. The folders above may use it to run a step of the heap under its lock, or to
//! read page descriptors without one.
//!
//! From the lowest file to the highest:
//!
//! - `pages`: the uses of pages, and the runs in which they were granted.
//! - `pool`: the pool of a block, and the place of a block within its pool.
//! - `removal`: the reserve that only removals use.
//! - `step`: a step of the heap, under its lock and in its undo log.
//! - `search`: finding a free run of pages, or a place where one could be.
//! - `grants`: runs that are granted to shards, and go back.
//! - `flushed_runs`: runs of shards that were emptied at once.
//! - `trim`: giving memory back to the system.
//! - `backing`: backing extents with memory.
//! - `survey`: finding runs of pages that eviction could free.

pub(crate) mod backing;
pub(crate) mod flushed_runs;
pub(crate) mod grants;
pub(crate) mod pages;
pub(crate) mod pool;
pub(crate) mod removal;
pub(crate) mod search;
pub(crate) mod step;
pub(crate) mod survey;
pub(crate) mod trim;
