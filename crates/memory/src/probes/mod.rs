//! Hooks with which tests observe and control the crate; they compile to nothing without their
//! features. Every folder may use them.
//!
//! - `fault`: fail points, at which a thread "dies" at the N-th step of an operation.
//! - `race`: changes in the middle of a read.
//! - `work`: counts of the work that a thread has done.

pub mod fault;
pub mod race;
pub mod work;
