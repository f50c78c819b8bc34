//! What tests see and steer; nothing at all in a build without their features. Every folder may call it.
//!
//! - `fault`: fail points: a thread "dies" at the N-th step of an operation.
//! - `race`: changes in the midst of a read.
//! - `work`: what a thread has done so far, counted.

pub mod fault;
pub mod race;
pub mod work;
