//! The commands on streams. Only `execute` calls them.
//!
//! - `claim`: XPENDING, XACK, XCLAIM, XAUTOCLAIM.
//! - `entries`: XADD, XLEN, XRANGE, XREVRANGE, XDEL, XTRIM, XSETID.
//! - `groups`: XGROUP.
//! - `info`: XINFO.
//! - `parse`: ids, ranges and how streams are trimmed.
//! - `read`: XREAD and XREADGROUP.

pub(crate) mod claim;
pub(crate) mod entries;
pub(crate) mod groups;
pub(crate) mod info;
mod parse;
pub(crate) mod read;

use crate::arguments::CommandError;

/// The error where there is no such key or group.
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
