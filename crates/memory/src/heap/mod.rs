//! The heap's global half: extents, and the runs of pages in them that are granted to shards, arenas and copies. The
//! floors above it may call it, to take a step of the heap under its lock, or to look at pages without one.
//!
//! From the lowest file to the highest:
//!
//! - `pages`: what pages are used for, and the runs that they were granted in.
//! - `pool`: where a block comes from, and which block lies where.
//! - `removal`: the reserve that only removals use.
//! - `step`: a step of the heap, under its lock and in its undo log.
//! - `search`: where a free run of pages is, or could be.
//! - `grants`: runs that are granted to shards, and go back.
//! - `flushed_runs`: runs of shards that were emptied at once.
//! - `trim`: giving memory back to the system.
//! - `backing`: memory behind extents.
//! - `survey`: where a run of pages could come free.

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
