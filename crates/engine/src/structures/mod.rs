//! What keys and values are made of, in the file: each structure with its picture. They know nothing of the types of
//! values, and nothing of commands. Every other folder uses it.
//!
//! - `prefetch`: what a walk meets, asked for ahead of its use.
//! - `bulk`: dictionaries of collections that are made whole, in bulk.
//! - `check`: the structural check of dictionaries.
//! - `detached`: parts that are cut off a value which lives on, to be freed later.
//! - `dictionary`: the hash table, of keys and of the elements of large collections.
//! - `dictionary_change`: inserting into it, removing from it, resizing it.
//! - `element`: one element of a large collection: a field with its value, or a member.
//! - `elements`: the dictionary of a large collection.
//! - `entry`: one key with its value.
//! - `graveyard`: the list of what a shard is to free later.
//! - `key`: a key with its hash and shard.
//! - `packed`: items one after the other in one byte string: small collections.
//! - `ranges`: items in flat buffers, outside the store.
//! - `roots`: where a shard's roots lie.
//! - `taking`: taking many elements out of the dictionary of a large collection.
//! - `tree`: the counted B+tree: lists and sorted sets by position.
//! - `walk`: a walk over a dictionary, bucket by bucket.

pub(crate) mod bulk;
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
pub(crate) mod roots;
pub(crate) mod taking;
pub(crate) mod tree;
pub(crate) mod walk;
