//! Arenas (H4): against a naive model, and with death at every step.
//!
//! An *object* here is an arena with a chain of blocks in it: each has the next
//! one's offset in its first word, its length in the second, and a mark in all
//! others. Slot `n` of a shard is an object: roots `2n` (its arena) and `2n + 1`
//! (its first block).

mod bounds;
mod death;
mod model;
mod object;
