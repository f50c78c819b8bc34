//! Reads the contents of a store, and checks a store after a process died. Used by tests.
//!
//! - `content`: reads the contents of a store.
//! - `recovery`: checks a store after a process died.

mod content;
mod recovery;

pub use crate::fixture::{HASH_KEY, MESSAGES_KEPT, NOW, create, create_of, open};
pub use content::{Content, State, content_of};
pub use recovery::{Expected, Outcome, problems, verify};
