//! Fuzzing of all code that reads bytes from outside.
//!
//! A target is a function that must return for any input bytes, and may panic only if the code
//! under test is wrong. [`TARGETS`] lists the targets. There are two drivers: the test in this
//! crate feeds each target a bounded number of [mutated](Mutator) seed inputs on every `make test`;
//! `make fuzz` links the same functions with libFuzzer, which is guided by coverage.
//!
//! - `bin/libfuzzer`: every target under libFuzzer.
//! - `calls`: every function that a script can reach, with hostile arguments.
//! - `json`: the scripts' library `cjson`, compared with another JSON parser.
//! - `libraries`: FUNCTION RESTORE payloads: accepted ones are listed, and dumped again.
//! - `lua`: a thread's client of a store, which passes inputs to scripts.
//! - `mutate`: derives inputs from seed inputs by reproducible random changes.
//! - `packs`: the scripts' library `cmsgpack`, compared with a simple parser.
//! - `payload`: RESTORE payloads: accepted ones are stored, checked, and dumped again.
//! - `store`: opens, reads, writes and checks a sound store that the input has damaged.
//! - `structs`: the scripts' library `struct`, compared with a simple parser.
//! - `targets`: the targets: one function for each kind of input from outside.
//! - `values`: Lua values as the reference parsers produce them.

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
