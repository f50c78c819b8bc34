//! Interrupts reads at a point that a test chooses. [`states()`] lists the states that a key can be
//! in, [`cases`] lists calls that read a key, and a [`Stage`] switches a store from one state to
//! another during a read.
//!
//! An interrupted read must return the reply that an undisturbed read returns for the last state.
//!
//! - `cases`: calls of every command that takes keys as arguments or only reads.
//! - `stage`: a store whose keys change state while another handle reads them.
//! - `states`: every state that a key can be in.

pub mod cases;
mod stage;
mod states;

pub use cases::{Answers, CASES, Case, OTHERS};
pub use stage::{Interruption, KEYS, NOW, Stage, World};
pub use states::{Family, State, states};

/// The words of a command: its name and arguments.
pub type Words = Vec<Vec<u8>>;

/// Splits a line at its spaces.
pub fn words(line: &str) -> Words {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}
