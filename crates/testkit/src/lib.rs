//! Contains the shared code of the crash tests and of the tests of interrupted reads.
//!
//! Only tests use this crate. `docs/testing.md` describes the tests.
//!
//! - `bin/crash-child`: runs the child processes that the crash tests kill.
//! - `examples`: sample values of every type.
//! - `fixture`: the store for every scenario.
//! - `fresh`: creates stores for tests, and random numbers that a seed reproduces.
//! - `image`: snapshots of store files, and copies created from snapshots.
//! - `journals`: stores that are recovered from copies of journals.
//! - `moved_disk`: a disk for the journal of a copied store file.
//! - `race`: interrupts reads at a point that a test chooses.
//! - `scenario`: the changes during which crash tests kill a process.
//! - `state`: the contents of a store, and checks of the store after a process died.
//! - `storm`: processes that write and read a store while a test kills some of them.
//! - `trace`: runs a process one machine instruction at a time.

pub mod examples;
mod fixture;
pub mod fresh;
pub mod image;
pub mod journals;
pub mod moved_disk;
pub mod race;
pub mod scenario;
pub mod state;
pub mod storm;
pub mod trace;
