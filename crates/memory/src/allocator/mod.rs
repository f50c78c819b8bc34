//! The heap: extents of all shards, blocks of each, and memory that comes from the system and goes back to it.
//!
//! - `ahead`: what is made ready ahead of need.
//! - `arena`: arenas: the memory of one large object each.
//! - `give_back`: memory that was freed in a shard goes back to the heap.
//! - `pins`: blocks that are read in place, and what is freed once nobody does.
//! - `remains`: what a shard leaves behind: all the memory of its own at once.
//! - `slab`: the heap's half in each shard: slabs of equal blocks, runs of pages for large ones.
//! - `staging`: large blocks, filled outside the lock and published in one step.
//! - `stock`: blocks for what is made whole, many at a time.

pub(crate) mod ahead;
mod arena;
mod give_back;
pub(crate) mod pins;
mod remains;
mod slab;
pub(crate) mod staging;
pub(crate) mod stock;
