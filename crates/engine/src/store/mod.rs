//! The store itself: what it is called, what is asked of it, and the handle that everything else works on.
//!
//! - `clock`: the time that expiry goes by, which tests may set.
//! - `handle`: [`Store`] and [`Reader`]: opening a store, and consistent access to several keys.
//! - `name`: how stores are named, and which there are.
//! - `terms`: what somebody asks of a store who opens it.

pub(crate) mod clock;
mod handle;
pub(crate) mod name;
pub(crate) mod terms;

pub use crate::structures::key::Key;
pub use handle::{DATABASES, Reader, Store};
