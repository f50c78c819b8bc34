//! Streams.
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

pub(crate) use read::write_answer;

use undercroft_engine::{StreamEntries, StreamId};

use crate::arguments::CommandError;
use crate::reply::Reply;

/// The id as clients see it.
fn write_id(id: StreamId, reply: &mut dyn Reply) {
    reply.bulk(id.text().as_bytes());
}

/// Entries, each its id and an array of its fields and values; null in the place of that where it is gone.
fn write_entries(entries: &StreamEntries, reply: &mut dyn Reply) {
    reply.array(entries.len());
    for index in 0..entries.len() {
        write_entry(entries, index, reply);
    }
}

fn write_entry(entries: &StreamEntries, index: usize, reply: &mut dyn Reply) {
    reply.array(2);
    write_id(entries.id(index), reply);
    let texts = entries.texts(index);
    if texts.len() == 0 {
        return reply.null_array();
    }
    reply.array(texts.len());
    texts.for_each(|text| reply.bulk(text));
}

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
