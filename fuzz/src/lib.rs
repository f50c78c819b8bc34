//! Fuzzes all code that parses bytes from outside the process.
//!
//! A target is a function that must return for any input bytes, and may panic only if the code
//! under test is wrong. [`TARGETS`] lists the targets. Two drivers call the targets. In every `make
//! test`, the test in this crate passes a bounded number of [mutated](Mutator) seed inputs to each
//! target. `make fuzz` links the same functions with libFuzzer, which is guided by coverage.
//!
//! - `bin/libfuzzer`: runs a target under libFuzzer.
//! - `calls`: calls every function that a script can reach, with hostile arguments.
//! - `files`: loads RDB files and append-only files of Redis and Valkey.
//! - `journal`: recovers stores from damaged journals.
//! - `json`: compares the scripts' `cjson` library with a second JSON parser.
//! - `libraries`: restores FUNCTION RESTORE payloads, and dumps the accepted ones again.
//! - `lua`: passes inputs to scripts through a thread-local client of a store.
//! - `mutate`: derives inputs from seed inputs through reproducible random changes.
//! - `packs`: compares the scripts' `cmsgpack` library with a simple parser.
//! - `payload`: restores RESTORE payloads, and dumps the accepted ones again.
//! - `store`: damages a sound store, and then opens, reads, writes and checks it.
//! - `structs`: compares the scripts' `struct` library with a simple parser.
//! - `targets`: lists the targets, one for each kind of input.
//! - `tls`: receives what a client has encrypted and a network has damaged.
//! - `values`: the Lua values that the reference parsers produce.

mod calls;
mod files;
#[path = "../../crates/memory/tests/survival/image.rs"]
mod image;
mod journal;
mod json;
mod libraries;
mod lua;
mod mutate;
mod packs;
mod payload;
mod store;
mod structs;
mod targets;
mod tls;
mod values;

pub use mutate::Mutator;
pub use targets::{TARGETS, Target};
