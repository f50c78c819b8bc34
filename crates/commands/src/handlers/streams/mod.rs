//! The commands on streams. Only `execute` calls them.
//!
//! - `claim`: pending entries: XPENDING, XACK, XCLAIM, XAUTOCLAIM.
//! - `entries`: stream entries: XADD, XLEN, XRANGE, XREVRANGE, XDEL, XTRIM, XSETID.
//! - `groups`: XGROUP: consumer groups and their consumers.
//! - `info`: XINFO: information about streams, groups and consumers.
//! - `parse`: parsing of entry IDs, ranges and trimming options.
//! - `read`: XREAD and XREADGROUP.

pub(crate) mod claim;
pub(crate) mod entries;
pub(crate) mod groups;
pub(crate) mod info;
mod parse;
pub(crate) mod read;

use crate::arguments::CommandError;

/// Returns the error for a missing key or group.
fn no_group(key: &[u8], group: &[u8], behind: &str) -> CommandError {
    let text = |bytes: &[u8]| {
        bytes
            .split(|byte| *byte == 0)
            .next()
            .unwrap_or_default()
            .to_vec()
    };
    CommandError::from_parts(&[
        b"NOGROUP No such key '",
        &text(key),
        b"' or consumer group '",
        &text(group),
        b"'",
        behind.as_bytes(),
    ])
}
