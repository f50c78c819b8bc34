//! Fuzzing of everything that reads bytes from elsewhere.
//!
//! A target is a function of bytes that must return, whatever they are, and may
//! only panic where the code under test is wrong. [`TARGETS`] lists them. There
//! are two drivers: the test beside this crate gives each target a bounded
//! number of [mutated](Mutator) seed inputs on every `make test`; `make fuzz`
//! links the same functions with libFuzzer, which lets coverage guide it.
//!
//! - `bin/libfuzzer`: every target under libFuzzer.
//! - `mutate`: makes inputs out of seeds: random changes, the same for the same random seed.
//! - `payload`: payloads of RESTORE: what is accepted is stored, sound, and dumped again.
//! - `store`: a sound store, damaged as the input says, is opened, read, written and checked.
//! - `targets`: the targets: one function for each thing that reads bytes from elsewhere.

#[path = "../../crates/memory/tests/survival/image.rs"]
mod image;
mod mutate;
mod payload;
mod store;
mod targets;

pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
