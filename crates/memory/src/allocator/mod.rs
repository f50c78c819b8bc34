//! Allocates blocks in shards and arenas, frees them, and moves them to other shards (H3, H4).
//! `writing` and the modules above it may use this module.
//!
//! From the lowest-level file to the highest:
//!
//! - `page_lists`: counters and lists of pages.
//! - `arena_runs`: runs of arenas.
//! - `runs`: grants runs of pages, and buries them (queues them to be freed).
//! - `pins`: records which blocks are read in place.
//! - `slab`: slabs of equally sized blocks.
//! - `arena`: arenas, each the memory of one large object.
//! - `frees`: blocks that are freed at the commit.
//! - `block_stock`: allocates many blocks for structures that are built in one step.
//! - `prepared`: blocks for work that can wait.
//! - `flush`: empties a shard in constant time.

mod arena;
mod arena_runs;
pub(crate) mod block_stock;
pub(crate) mod flush;
pub(crate) mod frees;
mod page_lists;
pub(crate) mod pins;
mod prepared;
mod runs;
mod slab;
