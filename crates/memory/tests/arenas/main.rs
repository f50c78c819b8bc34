//! Tests arenas (H4) against a naive model, and with death at every step.
//!
//! An *object* in these tests is an arena with a chain of blocks. The first word of a block is the
//! offset of the next block, the second word is the block's length, and all other words contain a
//! mark. Slot `n` of a shard contains an object, whose roots are `2n` (the arena) and `2n + 1` (the
//! first block).

mod bounds;
mod death;
mod model;
mod object;
