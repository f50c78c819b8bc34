//! The data structures in the file that keys and values are built from, each with a diagram of its
//! layout. This folder depends on neither value types nor commands, and every other folder uses it.
//!
//! - `prefetch`: prefetching the blocks that a walk is about to visit.
//! - `bulk`: building the complete dictionary of a collection in one step.
//! - `byte_queue`: a queue of bytes in a chain of blocks.
//! - `check`: the structural check of dictionaries.
//! - `detached`: subtrees that are cut off a value that stays in use, and freed later.
//! - `dictionary`: the hash table of keys, and of the elements of large collections.
//! - `dictionary_change`: inserting into a dictionary, removing from it, and resizing it.
//! - `element`: one element of a large collection: a member, or a field with its value.
//! - `elements`: the dictionary of a large collection.
//! - `entry`: one key with its value.
//! - `graveyard`: the queue of large structures that a shard frees later.
//! - `key`: a key with its hash and shard.
//! - `packed`: small collections, stored as consecutive items in one byte string.
//! - `ranges`: items in flat buffers outside the store.
//! - `roots`: the root words of a shard.
//! - `removal_method`: removing many elements from the dictionary of a large collection.
//! - `tree`: the counted B+tree of lists, sorted sets and streams.
//! - `walk`: a walk over a dictionary, bucket by bucket.

pub(crate) mod bulk;
pub(crate) mod byte_queue;
pub(crate) mod check;
pub(crate) mod detached;
pub(crate) mod dictionary;
pub(crate) mod dictionary_change;
pub(crate) mod element;
pub(crate) mod elements;
pub(crate) mod entry;
pub(crate) mod graveyard;
pub(crate) mod key;
pub(crate) mod packed;
pub(crate) mod prefetch;
pub(crate) mod ranges;
pub(crate) mod removal_method;
pub(crate) mod roots;
pub(crate) mod tree;
pub(crate) mod walk;
