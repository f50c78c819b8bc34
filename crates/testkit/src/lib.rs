//! What the crash tests share: what is done when a process dies
//! ([`scenario`]), a tracer that executes a process one machine instruction at
//! a time ([`trace`]), images and copies of store files ([`image`]), what must
//! hold afterwards ([`state`]), and the processes of a [`storm`]; reads that are
//! interrupted where a test says ([`race`]); and what many other tests begin with
//! ([`fresh`]).
//!
//! For tests only; `docs/testing.md` says what is done with it.

pub mod fresh;
pub mod image;
pub mod race;
pub mod scenario;
pub mod state;
pub mod storm;
pub mod trace;
