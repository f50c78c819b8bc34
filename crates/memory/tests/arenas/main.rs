//! Tests of arenas (H4): against a naive model, and with death at every step.
//!
//! An *object* in these tests is an arena with a chain of blocks. The first word of a block is the
//! offset of the next one, the second is its length, and all others hold a mark. Slot `n` of a
//! shard is an object: its roots are `2n` (the arena) and `2n + 1` (the first block).

mod bounds;
mod death;
mod model;
mod object;
