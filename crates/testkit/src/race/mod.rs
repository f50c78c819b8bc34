//! Reads that are interrupted where a test says: the states that a key can be in ([`states()`]), calls that read it
//! ([`cases`]), and a [`Stage`] on which a store goes from one state to another in the midst of a read.
//!
//! What a read answers must be what it answers on the last state when nobody interrupts it.
//!
//! - `cases`: calls of every command that has keys or only reads.
//! - `stage`: a store whose keys go from one state to another in the midst of another handle's reads.
//! - `states`: every state that a key can be in.

pub mod cases;
mod stage;
mod states;

pub use cases::{Answers, CASES, Case, OTHERS};
pub use stage::{Interruption, KEYS, NOW, Stage, World};
pub use states::{Family, State, states};

/// A command's words.
pub type Words = Vec<Vec<u8>>;

/// Splits a line at its spaces.
pub fn words(line: &str) -> Words {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}
