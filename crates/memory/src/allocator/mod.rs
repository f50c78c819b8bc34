//! Blocks of shards and arenas: what transactions allocate, free and give to other shards (H3, H4). `writing` and the floors
//! above may call it.
//!
//! From the lowest file to the highest:
//!
//! - `page_lists`: counts and lists of pages.
//! - `arena_runs`: runs of arenas.
//! - `runs`: runs of pages, granted and buried.
//! - `pins`: which blocks are read in place.
//! - `slab`: slabs of equal blocks.
//! - `arena`: arenas: the memory of one large object each.
//! - `frees`: blocks that are freed with the commit.
//! - `block_stock`: blocks for what is made whole, many at a time.
//! - `prepared`: blocks for what can wait.
//! - `flush`: emptying a shard at once.

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
