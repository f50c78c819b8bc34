//! What tests see and steer; nothing at all in a build without their features.
//!
//! - `fault`: fail points: a thread "dies" at the N-th step of an operation.
//! - `models`: loom models of the places where the order of stores between processes decides.
//! - `race`: changes in the midst of a read.
//! - `work`: what a thread has done so far, counted.

pub mod fault;
#[cfg(all(loom, test))]
mod models;
pub mod race;
pub mod work;
