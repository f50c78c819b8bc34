//! Fuzzing of everything that reads bytes from elsewhere.
//!
//! A target is a function of bytes that must return, whatever they are, and may
//! only panic where the code under test is wrong. [`TARGETS`] lists them. There
//! are two drivers: the test beside this crate gives each target a bounded
//! number of [mutated](Mutator) seed inputs on every `make test`; `make fuzz`
//! links the same functions with libFuzzer, which lets coverage guide it.
//!
//! - `bin/libfuzzer`: every target under libFuzzer.
//! - `calls`: every function that a script can reach, with arguments that mean harm.
//! - `json`: the library `cjson` of scripts, beside another reader of JSON.
//! - `libraries`: payloads of FUNCTION RESTORE: what is accepted is listed, and dumped again.
//! - `lua`: one thread's client of a store, whose scripts the input is given to.
//! - `mutate`: makes inputs out of seeds: random changes, the same for the same random seed.
//! - `packs`: the library `cmsgpack` of scripts, beside a simple reader.
//! - `payload`: payloads of RESTORE: what is accepted is stored, sound, and dumped again.
//! - `store`: a sound store, damaged as the input says, is opened, read, written and checked.
//! - `structs`: the library `struct` of scripts, beside a simple reader.
//! - `targets`: the targets: one function for each thing that reads bytes from elsewhere.
//! - `values`: values of Lua, as the oracles make them.

mod calls;
#[path = "../../crates/memory/tests/survival/image.rs"]
mod image;
mod json;
mod libraries;
mod lua;
mod mutate;
mod packs;
mod payload;
mod store;
mod structs;
mod targets;
mod values;

pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
