//! The global part of the heap: extents, and the runs of pages in them that are granted to shards,
//! arenas and copies. Modules above this one may run heap steps under the heap's lock, or read page
//! descriptors without a lock.
//!
//! From the lowest-level file to the highest:
//!
//! - `pages`: the uses of pages, and the runs in which they were granted.
//! - `pool`: the pool of a block, and the place of a block within its pool.
//! - `removal`: the reserve that only removals use.
//! - `step`: a heap step, which runs under the heap's lock and uses its undo log.
//! - `search`: finds a free run of pages, or a place where one could be.
//! - `grants`: grants runs to shards and reclaims them.
//! - `flushed_runs`: runs of shards that were emptied in one step.
//! - `trim`: returns memory to the system.
//! - `backing`: backs extents with memory.
//! - `survey`: finds runs of pages that eviction could free.

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
