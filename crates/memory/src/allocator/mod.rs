//! The heap: extents of all shards, blocks of each, and memory that comes from the system and goes back to it.
//!
//! - `ahead`: what is made ready ahead of need.
//! - `arena`: arenas: the memory of one large object each.
//! - `give_back`: memory that was freed in a shard goes back to the heap.
//! - `heap`: the heap's global half: extents, and runs of pages granted to shards.
//! - `page_use`: what pages are used for, and which block lies where in them.
//! - `pins`: blocks that are read in place, and what is freed once nobody does.
//! - `pool`: where a block comes from: a shard's own slabs, or an arena.
//! - `remains`: what a shard leaves behind: all the memory of its own at once.
//! - `search`: where a free run of pages is, or could be.
//! - `slab`: the heap's half in each shard: slabs of equal blocks, runs of pages for large ones.
//! - `staging`: large blocks, filled outside the lock and published in one step.
//! - `stock`: blocks for what is made whole, many at a time.
//! - `survey`: where a run of pages could come free.
//! - `trim`: giving memory back to the system.

pub(crate) mod ahead;
mod arena;
mod give_back;
pub(crate) mod heap;
pub(crate) mod page_use;
pub(crate) mod pins;
pub(crate) mod pool;
mod remains;
mod search;
mod slab;
pub(crate) mod staging;
pub(crate) mod stock;
pub(crate) mod survey;
pub(crate) mod trim;
