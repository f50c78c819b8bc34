//! Writes the IDs, fields and values of stream entries.

use undercroft_engine::streams::{StreamEntries, StreamId};

use super::Reply;

/// Writes a stream ID as text.
pub(crate) fn write_id(id: StreamId, reply: &mut dyn Reply) {
    reply.bulk(id.text().as_bytes());
}

/// Writes stream entries, each as its ID and an array of its fields and values. For a deleted
/// entry, a null replaces the array.
pub(crate) fn write_entries(entries: &StreamEntries, reply: &mut dyn Reply) {
    reply.array(entries.len());
    for index in 0..entries.len() {
        write_entry(entries, index, reply);
    }
}

pub(crate) fn write_entry(entries: &StreamEntries, index: usize, reply: &mut dyn Reply) {
    reply.array(2);
    write_id(entries.id(index), reply);
    let texts = entries.texts(index);
    if texts.len() == 0 {
        return reply.null_array();
    }
    reply.array(texts.len());
    texts.for_each(|text| reply.bulk(text));
}

/// Writes the entries of several streams by key: as a map in RESP3, or as an array of pairs in
/// RESP2.
pub(crate) fn write_streams(found: &[(&[u8], StreamEntries)], is_map: bool, reply: &mut dyn Reply) {
    match is_map {
        true => reply.map(found.len()),
        false => reply.array(found.len()),
    }
    for (key, entries) in found {
        if !is_map {
            reply.array(2);
        }
        reply.bulk(key);
        write_entries(entries, reply);
    }
}
