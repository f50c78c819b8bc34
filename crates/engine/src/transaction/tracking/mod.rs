//! Recording which keys change, and for which client, for processes that track keys.
//!
//! - `origin`: the client on whose behalf a thread changes keys.
//! - `record`: recording the names of changed keys.

pub(crate) mod origin;
pub(super) mod record;
