//! What the crash tests share, and the tests of interrupted reads.
//!
//! For tests only; `docs/testing.md` says what is done with it.
//!
//! - `bin/crash-child`: the processes that the crash tests kill.
//! - `examples`: values of every type.
//! - `fixture`: the store of every scenario.
//! - `fresh`: what tests start with: new stores, and random numbers that a seed repeats.
//! - `image`: images of store files: what they hold at one moment, and copies of that.
//! - `race`: reads that are interrupted where a test says.
//! - `scenario`: the changes in whose midst a process is killed: one list for both kinds of death.
//! - `state`: what a store holds, and whether a store that a death left is whole.
//! - `storm`: a storm: processes that write and read one store while others are killed.
//! - `trace`: processes executed one machine instruction at a time.

pub mod examples;
mod fixture;
pub mod fresh;
pub mod image;
pub mod race;
pub mod scenario;
pub mod state;
pub mod storm;
pub mod trace;
