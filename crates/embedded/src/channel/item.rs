use std::fmt;
use std::ops::{Deref, Range};

use smallvec::SmallVec;

use crate::objects::{Object, ObjectKind, value_of};

/// The first byte of an item that is plain bytes, or text. Any other item is the name of an object,
/// or a whole object.
const BYTES: u8 = b'b';
const TEXT: u8 = b's';
/// The first byte of an item that names an object.
pub const NAME_ITEM: u8 = b'r';
/// The start of an object that is a pickle, which only channels that were opened for it read.
const PICKLE: &[u8] = b"\xc1UOp";
/// Values of at least this many bytes are stored as separate objects, and their items contain the
/// objects' names.
pub const INLINE_MAX: usize = 32 << 10;

/// The item of a short value.
pub type ShortItem = SmallVec<[u8; 256]>;

/// Returns the item of bytes or text, or `None` if they must be stored as an object.
pub fn short_item(bytes: &[u8], is_text: bool) -> Option<ShortItem> {
    if bytes.len() >= INLINE_MAX {
        return None;
    }
    let mut item = SmallVec::with_capacity(bytes.len() + 1);
    item.push(if is_text { TEXT } else { BYTES });
    item.extend_from_slice(bytes);
    Some(item)
}

/// Returns the bytes of an item that is plain bytes or text, and whether they are text.
pub fn short_value(item: &[u8]) -> Option<(&[u8], bool)> {
    match item.split_first() {
        Some((&BYTES, bytes)) => Some((bytes, false)),
        Some((&TEXT, text)) if std::str::from_utf8(text).is_ok() => Some((text, true)),
        _ => None,
    }
}

/// Returns whether a channel refuses an item, because it is a pickle.
pub fn refuses(item: &[u8]) -> bool {
    item.starts_with(PICKLE)
}

/// The alignment, in bytes, of a message's bytes, so that they can be read as an array of numbers.
const ALIGNMENT: usize = 8;

/// A message that a consumer received. Its bytes are a copy, or, from 32 KiB on, in the store.
pub struct ChannelMessage {
    whole: Whole,
    kind: ObjectKind,
    range: Range<usize>,
}

enum Whole {
    Copied(Vec<u8>),
    InPlace(Object),
}

/// Returns a copy of bytes, and its range in the vector, which starts at an aligned address.
fn aligned(bytes: &[u8]) -> (Vec<u8>, Range<usize>) {
    let mut copy: Vec<u8> = Vec::with_capacity(bytes.len() + ALIGNMENT);
    let start = copy.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    copy.resize(start, 0);
    copy.extend_from_slice(bytes);
    (copy, start..start + bytes.len())
}

impl ChannelMessage {
    /// Returns the message of an item that does not name an object.
    pub fn copied(item: &[u8]) -> ChannelMessage {
        let (kind, range) = match short_value(item) {
            Some((_, true)) => (ObjectKind::Text, 1..item.len()),
            Some((_, false)) => (ObjectKind::Bytes, 1..item.len()),
            // An item that is neither was not written by a client of a channel.
            None => value_of(item).unwrap_or((ObjectKind::Bytes, 0..item.len())),
        };
        let (copy, range) = aligned(&item[range]);
        ChannelMessage {
            whole: Whole::Copied(copy),
            kind,
            range,
        }
    }

    pub(super) fn in_place(object: Object) -> ChannelMessage {
        ChannelMessage {
            kind: object.kind(),
            range: 0..object.len(),
            whole: Whole::InPlace(object),
        }
    }

    /// Returns the kind of the message.
    pub fn kind(&self) -> &ObjectKind {
        &self.kind
    }

    /// Returns the message's text, or `None` if it is not text.
    pub fn text(&self) -> Option<&str> {
        match self.kind {
            ObjectKind::Text => std::str::from_utf8(self).ok(),
            _ => None,
        }
    }
}

impl Deref for ChannelMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let whole: &[u8] = match &self.whole {
            Whole::Copied(copy) => copy,
            Whole::InPlace(object) => object,
        };
        // In a forked child, an object in place is empty.
        whole.get(self.range.clone()).unwrap_or_default()
    }
}

impl AsRef<[u8]> for ChannelMessage {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ChannelMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelMessage")
            .field("kind", &self.kind)
            .field("length", &self.len())
            .finish()
    }
}
