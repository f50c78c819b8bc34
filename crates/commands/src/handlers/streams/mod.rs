//! Implements the stream commands. Only `execute` calls the handlers.
//!
//! - `claim`: implements the commands for pending entries: XPENDING, XACK, XCLAIM and XAUTOCLAIM.
//! - `entries`: implements the commands for entries: XADD, XLEN, XRANGE, XREVRANGE, XDEL, XTRIM and
//!   XSETID.
//! - `groups`: implements XGROUP, which manages consumer groups and their consumers.
//! - `info`: implements XINFO, which describes streams, groups and consumers.
//! - `parse`: parses entry IDs, ranges and trimming options.
//! - `read`: implements XREAD and XREADGROUP.

pub(crate) mod claim;
pub(crate) mod entries;
pub(crate) mod groups;
pub(crate) mod info;
mod parse;
pub(crate) mod read;

use crate::arguments::CommandError;

/// Returns the error for a key or a group that does not exist.
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
