//! Leaves of entries: reading them, adding entries, taking them out. The rest of the stream uses it.
//!
//! - `code`: how ids, names and values are written into a leaf.
//! - `image`: the entries of a leaf, written and read.
//! - `last_read`: reading on where the last read of a thread has ended.
//! - `layout`: entries in a row that are laid out alike.
//! - `leaf_edit`: making leaves, adding entries to them and taking entries out.
//! - `leaf`: a leaf of entries: its layout, reading it, changing it.
//! - `limits`: up to where a leaf is added to.

pub(super) mod code;
pub(super) mod image;
pub(super) mod last_read;
pub(super) mod layout;
pub(super) mod leaf;
pub(super) mod leaf_edit;
pub(super) mod limits;
