//! The contents of a store, and the check of a store that a death left. Used by tests.
//!
//! - `content`: the contents of a store.
//! - `recovery`: the check of a store that a death left.

mod content;
mod recovery;

pub use crate::fixture::{HASH_KEY, MESSAGES_KEPT, NOW, create, open};
pub use content::{Content, State, content_of};
pub use recovery::{Expected, Outcome, problems, verify};
