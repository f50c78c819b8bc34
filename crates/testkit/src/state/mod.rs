//! What a store holds, and whether a store that a death left is whole. Tests call it.
//!
//! - `content`: what a store holds.
//! - `recovery`: whether a store that a death left is whole.

mod content;
mod recovery;

pub use crate::fixture::{HASH_KEY, MESSAGES_KEPT, NOW, create, open};
pub use content::{Content, State, content_of};
pub use recovery::{Expected, Outcome, problems, verify};
