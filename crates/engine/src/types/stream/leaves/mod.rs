//! Reads, adds and removes entries in the leaves of a stream. The other stream modules use these
//! modules.
//!
//! - `code`: encodes IDs, names and values in a leaf.
//! - `image`: encodes and decodes the entries of a leaf.
//! - `last_read`: resumes a read where the thread's last read ended.
//! - `layout`: skips consecutive entries with the same layout.
//! - `leaf_edit`: builds leaves, and adds and removes entries.
//! - `leaf`: defines the layout of a leaf, and reads and copies leaves.
//! - `limits`: defines the limits at which a leaf is full.

pub(super) mod code;
pub(super) mod image;
pub(super) mod last_read;
pub(super) mod layout;
pub(super) mod leaf;
pub(super) mod leaf_edit;
pub(super) mod limits;
