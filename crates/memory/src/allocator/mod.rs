//! Blocks of shards and arenas: how transactions allocate and free blocks and move them to other
//! shards (H3, H4). `writing` and the folders above it may use this one.
//!
//! From the lowest file to the highest:
//!
//! - `page_lists`: counts and lists of pages.
//! - `arena_runs`: runs of arenas.
//! - `runs`: runs of pages, granted and buried.
//! - `pins`: which blocks are read in place.
//! - `slab`: slabs of equal blocks.
//! - `arena`: arenas, each the memory of one large object.
//! - `frees`: blocks that are freed with the commit.
//! - `block_stock`: blocks for structures that are built in one piece, many at a time.
//! - `prepared`: blocks for work that can wait.
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
