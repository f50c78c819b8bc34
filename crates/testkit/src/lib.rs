//! Shared code of the crash tests and the tests of interrupted reads.
//!
//! Only for tests; `docs/testing.md` describes them.
//!
//! - `bin/crash-child`: the processes that the crash tests kill.
//! - `examples`: sample values of every type.
//! - `fixture`: the store of every scenario.
//! - `fresh`: setup for tests: new stores, and random numbers that a seed reproduces.
//! - `image`: snapshots of store files, and copies made from them.
//! - `race`: reads that are interrupted at a point that a test chooses.
//! - `scenario`: the changes during which a process is killed, shared by both kinds of crash tests.
//! - `state`: the contents of a store, and the check of a store that a death left.
//! - `storm`: processes that write and read one store while others are killed.
//! - `trace`: runs a process one machine instruction at a time.

pub mod examples;
mod fixture;
pub mod fresh;
pub mod image;
pub mod race;
pub mod scenario;
pub mod state;
pub mod storm;
pub mod trace;
