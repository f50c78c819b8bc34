//! Reads that are interrupted at a point that a test chooses: the states that a key can be in
//! ([`states()`]), the calls that read it ([`cases`]), and a [`Stage`], which switches a store from
//! one state to another during a read.
//!
//! An interrupted read must give the reply that an undisturbed read gives for the last state.
//!
//! - `cases`: calls of every command that takes keys or only reads.
//! - `stage`: a store whose keys change state while another handle reads them.
//! - `states`: every state that a key can be in.

pub mod cases;
mod stage;
mod states;

pub use cases::{Answers, CASES, Case, OTHERS};
pub use stage::{Interruption, KEYS, NOW, Stage, World};
pub use states::{Family, State, states};

/// The words of a command.
pub type Words = Vec<Vec<u8>>;

/// Splits a line at its spaces.
pub fn words(line: &str) -> Words {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}
