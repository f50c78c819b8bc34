//! Hooks with which tests observe and control the crate. They compile to nothing without their
//! features. All modules may use them.
//!
//! - `fault`: fail points, at which a thread "dies" at the N-th step of an operation.
//! - `race`: changes the store during a read.
//! - `work`: counts the work that a thread has done.

pub mod fault;
pub mod race;
pub mod work;
