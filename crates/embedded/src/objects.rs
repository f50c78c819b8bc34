//! Implements objects: bytes and arrays that processes exchange. Each object is a string that
//! starts with a header. `docs/objects.md` describes the format. Python writes additional kinds of
//! objects.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use undercroft_engine::strings::{Condition, SetOptions, StringInPlace};
use undercroft_engine::{Error, Expiry};

use crate::open_store::OpenStore;

const MAGIC: [u8; 3] = [0xc1, b'U', b'O'];
const PREFIX: &[u8] = b"object:";
/// The alignment, in bytes, of the data after the header.
const ALIGNMENT: usize = 64;
/// The size of the fixed part of a header, in bytes.
const START: usize = 8;
/// The start of the description of a tree without buffers, and the first byte of a `str 32` of
/// msgpack, which is followed by the length.
const NO_BUFFERS: &[u8] = &[0; 4];
const LONG_TEXT: u8 = 0xdb;
/// The size, in bytes, from which a value is copied directly into the store, once and without a
/// lock. A smaller value is first assembled in a buffer.
const PIECES_MIN: usize = 32 << 10;

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// Plain bytes.
    Bytes,
    /// Text in UTF-8.
    Text,
    /// An array in C order.
    Array {
        /// The data type of the items in numpy's notation, such as `<f8`.
        dtype: String,
        /// The length of each dimension.
        shape: Vec<u64>,
    },
    /// A kind that only Python interprets, identified by its letter. The object's bytes are all
    /// bytes after the padded header.
    Other {
        /// The letter of the kind: `m` for a tree, `p` for a pickle, or another letter that
        /// `docs/objects.md` lists.
        letter: u8,
        /// The description that the header contains.
        description: Vec<u8>,
    },
}

/// The header of an object.
#[derive(Clone, Debug)]
pub struct ObjectHead(Vec<u8>);

impl ObjectHead {
    /// Returns the header of an object of bytes.
    pub fn bytes() -> ObjectHead {
        ObjectHead::new(b'b', &[])
    }

    /// Returns the header of an object that is text. The text is part of the header, as in the trees
    /// that Python writes, and no bytes follow.
    ///
    /// # Errors
    /// Returns a description of the problem if the text is 4 GiB long or longer.
    pub fn text(text: &str) -> Result<ObjectHead, String> {
        let too_long = || format!("expected a text below 4 GiB, got {} bytes", text.len());
        let length = u32::try_from(text.len()).map_err(|_| too_long())?;
        let length = length.to_be_bytes();
        let description = [NO_BUFFERS, &[LONG_TEXT], &length, text.as_bytes()].concat();
        match u32::try_from(description.len()) {
            Ok(_) => Ok(ObjectHead::new(b'm', &description)),
            Err(_) => Err(too_long()),
        }
    }

    /// Returns the header of an array in C order with `length` bytes of items.
    ///
    /// # Errors
    /// Returns a description of the problem if the data type is not in numpy's notation, or if the
    /// length does not match the shape.
    pub fn array(dtype: &str, shape: &[u64], length: usize) -> Result<ObjectHead, String> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"<>|=".contains(&byte);
        if dtype.is_empty() || !dtype.bytes().all(is_word) {
            return Err(format!("expected a type such as <f8, got {dtype:?}"));
        }
        let items = (shape.iter()).try_fold(1_u64, |items, length| items.checked_mul(*length));
        let fits = match items {
            Some(0) => length == 0,
            Some(items) => length > 0 && (length as u64).is_multiple_of(items),
            None => false,
        };
        if !fits {
            return Err(format!(
                "expected the bytes of an array of shape {shape:?}, got {length} bytes"
            ));
        }
        let lengths: String = shape.iter().map(|length| format!("{length},")).collect();
        let description = format!("('{dtype}', ({lengths}))");
        Ok(ObjectHead::new(b'a', description.as_bytes()))
    }

    /// Returns the string of the object with this header: the header, and the bytes after it.
    pub fn whole(&self, bytes: &[u8]) -> Vec<u8> {
        [&self.0, bytes].concat()
    }

    /// Returns a header including its padding.
    fn new(kind: u8, description: &[u8]) -> ObjectHead {
        let mut head = MAGIC.to_vec();
        head.push(kind);
        head.extend_from_slice(&(description.len() as u32).to_le_bytes());
        head.extend_from_slice(description);
        head.resize(head.len().next_multiple_of(ALIGNMENT), 0);
        ObjectHead(head)
    }
}

/// The result of looking up an object by its id.
#[derive(Debug)]
pub enum FoundObject {
    /// The key does not exist.
    Nothing,
    /// The key's value is not an object.
    Foreign,
    /// The key's value is this object.
    Object(Object),
}

impl OpenStore {
    /// Stores an object, with or without an expiry, and returns its id. O(n) in the number of
    /// bytes, which are copied once.
    ///
    /// # Errors
    /// Returns the same errors as any write, and an error if the store is full.
    pub fn put_object(
        &self,
        database: usize,
        head: &ObjectHead,
        buffer: &[u8],
        ttl: Option<Duration>,
    ) -> Result<Vec<u8>, Error> {
        let id = new_object_id();
        self.put_object_at(database, &object_key(&id), head, buffer, ttl)?;
        Ok(id)
    }

    /// Stores an object under a key, like [`put_object`](Self::put_object).
    pub(crate) fn put_object_at(
        &self,
        database: usize,
        key: &[u8],
        head: &ObjectHead,
        buffer: &[u8],
        ttl: Option<Duration>,
    ) -> Result<(), Error> {
        let expiry = match ttl {
            None => Expiry::Never,
            Some(ttl) => {
                let after = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
                Expiry::At(self.store.now().saturating_add(after).min(i64::MAX as u64))
            }
        };
        let length = head.0.len() + buffer.len();
        if length < PIECES_MIN {
            let options = SetOptions {
                condition: Condition::Always,
                expiry,
            };
            let whole = head.whole(buffer);
            self.store.set_with(database, key, &whole, options)?;
            return Ok(());
        }
        let key = self.store.key(key);
        self.store.check_memory_for(length)?;
        let mut staged = self.store.stage_room(&key, length as u64)?;
        staged.fill(0, &head.0);
        staged.fill(head.0.len() as u64, buffer);
        let set = self.store.set_staged_until(database, &key, staged, expiry);
        set.map_err(|(error, _)| error)
    }

    /// Returns the object with an id. O(1) for objects of at least 32 KiB. Smaller objects are
    /// copied. A process can read up to 126 objects in place at the same time; further objects are
    /// copied as well.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if the key's value is not a string, and the same errors as any
    /// read.
    pub fn get_object(self: &Arc<Self>, database: usize, id: &[u8]) -> Result<FoundObject, Error> {
        self.get_object_at(database, &object_key(id))
    }

    /// Returns the object at a key, like [`get_object`](Self::get_object).
    pub(crate) fn get_object_at(
        self: &Arc<Self>,
        database: usize,
        key: &[u8],
    ) -> Result<FoundObject, Error> {
        let found = self.store.get_in_place(database, key);
        found.map(|whole| Object::of(self, whole))
    }

    /// Returns the object with an id, and deletes it. A value that is not an object remains
    /// unchanged. O(1) for objects of at least 32 KiB.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if the key's value is not a string, and the same errors as any
    /// write.
    pub fn take_object(self: &Arc<Self>, database: usize, id: &[u8]) -> Result<FoundObject, Error> {
        self.take_object_at(database, &object_key(id))
    }

    /// Returns the object at a key and deletes it, like [`take_object`](Self::take_object).
    pub(crate) fn take_object_at(
        self: &Arc<Self>,
        database: usize,
        key: &[u8],
    ) -> Result<FoundObject, Error> {
        let accepts = |first: u64, length| {
            object_letter(first).is_some() && START as u64 + (first >> 32) <= length
        };
        let found = (self.store).take_in_place(database, key, accepts);
        found.map(|whole| Object::of(self, whole))
    }
}

/// Returns the letter of an object's kind, given the first 8 bytes of the object's string. Returns
/// `None` if the string is not an object.
pub fn object_letter(first: u64) -> Option<u8> {
    let [start @ .., letter, _, _, _, _] = first.to_le_bytes();
    (start == MAGIC).then_some(letter)
}

/// Returns the key of the object with an id.
pub fn object_key(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

/// Returns a globally unique id, distinct from the ids of other processes, of forked children, and
/// of later processes that reuse a process id.
pub fn new_object_id() -> Vec<u8> {
    static START: AtomicU64 = AtomicU64::new(0);
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    // The first thread that reaches this point sets the random part of all ids.
    let chosen = RandomState::new().hash_one(std::process::id()).max(1);
    let changed = START.compare_exchange(0, chosen, Ordering::Relaxed, Ordering::Relaxed);
    let start = changed.map_or_else(|known| known, |_| chosen);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let (now, process) = (now.unwrap_or_default().as_nanos(), std::process::id());
    format!("{start:x}-{process:x}-{now:x}-{number:x}").into_bytes()
}

/// An object whose bytes are read in place in the store, or are the copy that a server sent.
///
/// The object's memory remains valid until the object is dropped. In a forked child, an object in
/// place is empty, because only the parent pins the memory.
pub struct Object {
    whole: Whole,
    kind: ObjectKind,
    /// The range of the object's bytes in the string.
    range: Range<usize>,
}

/// The string of an object.
enum Whole {
    Copied(Vec<u8>),
    Pinned(Pinned),
}

/// A string that is pinned in a store until it is dropped.
struct Pinned {
    shared: Arc<OpenStore>,
    /// The pinned string, or `None` while it is being dropped.
    whole: Option<StringInPlace>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(whole) = self.whole.take() {
            self.shared.store.let_go(whole);
        }
    }
}

impl Object {
    /// Returns the object whose string a server sent.
    pub fn copied(found: Option<Vec<u8>>) -> FoundObject {
        match found {
            None => FoundObject::Nothing,
            Some(whole) => Object::read(Whole::Copied(whole)),
        }
    }

    fn of(shared: &Arc<OpenStore>, found: Option<StringInPlace>) -> FoundObject {
        match found {
            None => FoundObject::Nothing,
            whole => Object::read(Whole::Pinned(Pinned {
                shared: shared.clone(),
                whole,
            })),
        }
    }

    fn read(whole: Whole) -> FoundObject {
        let mut object = Object {
            whole,
            kind: ObjectKind::Bytes,
            range: 0..0,
        };
        let Some(layout) = Layout::of(object.whole()) else {
            return FoundObject::Foreign;
        };
        (object.kind, object.range) = layout.value(object.whole());
        FoundObject::Object(object)
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> ObjectKind {
        self.kind.clone()
    }

    fn whole(&self) -> &[u8] {
        match &self.whole {
            Whole::Copied(whole) => whole,
            Whole::Pinned(pinned) => {
                (pinned.whole.as_ref()).map_or(&[], |whole| pinned.shared.store.bytes_of(whole))
            }
        }
    }
}

/// The parts of the string of an object.
pub(crate) struct Layout {
    letter: u8,
    /// The bytes of the description.
    description: Range<usize>,
    /// The offset at which the object's bytes start.
    start: usize,
}

impl Layout {
    /// Returns the layout of a string, or `None` if the string is not an object.
    fn of(whole: &[u8]) -> Option<Layout> {
        let (start, _) = whole.split_first_chunk::<START>()?;
        let letter = object_letter(u64::from_le_bytes(*start))?;
        let described = u32::from_le_bytes([start[4], start[5], start[6], start[7]]);
        let end = START.checked_add(described as usize)?;
        (end <= whole.len()).then(|| Layout {
            letter,
            description: START..end,
            start: end.next_multiple_of(ALIGNMENT).min(whole.len()),
        })
    }

    /// Returns the object's kind, and the range of its bytes in the string.
    fn value(&self, whole: &[u8]) -> (ObjectKind, Range<usize>) {
        let description = &whole[self.description.clone()];
        let bytes = self.start..whole.len();
        match (self.letter, array(description)) {
            (b'b', _) => (ObjectKind::Bytes, bytes),
            (b'a', Some((dtype, shape))) => (ObjectKind::Array { dtype, shape }, bytes),
            (letter, _) => match text_start(description) {
                Some(start) if letter == b'm' => {
                    let text = self.description.start + start..self.description.end;
                    (ObjectKind::Text, text)
                }
                _ => {
                    let description = description.to_vec();
                    (
                        ObjectKind::Other {
                            letter,
                            description,
                        },
                        bytes,
                    )
                }
            },
        }
    }
}

/// Returns the kind of an object's string and the range of its bytes, or `None` if the string is not
/// an object.
pub(crate) fn value_of(whole: &[u8]) -> Option<(ObjectKind, Range<usize>)> {
    Some(Layout::of(whole)?.value(whole))
}

/// Returns the offset in the description of a tree at which its text starts, if the tree is a single
/// text: no buffers, and a string of msgpack of any size.
fn text_start(description: &[u8]) -> Option<usize> {
    let rest = description.strip_prefix(NO_BUFFERS)?;
    let (length, head) = match *rest {
        [byte @ 0xa0..=0xbf, ..] => (usize::from(byte & 0x1f), 1),
        [0xd9, length, ..] => (usize::from(length), 2),
        [0xda, a, b, ..] => (usize::from(u16::from_be_bytes([a, b])), 3),
        [LONG_TEXT, a, b, c, d, ..] => (u32::from_be_bytes([a, b, c, d]) as usize, 5),
        _ => return None,
    };
    let text = &rest[head..];
    let is_whole = text.len() == length && std::str::from_utf8(text).is_ok();
    is_whole.then_some(NO_BUFFERS.len() + head)
}

/// Parses the type and the shape of an array from a description such as `('<f8', (3, 4))`. Returns
/// `None` for arrays of records.
fn array(description: &[u8]) -> Option<(String, Vec<u64>)> {
    let text = std::str::from_utf8(description).ok()?;
    let (dtype, shape) = text.strip_prefix("('")?.split_once("', (")?;
    let shape = shape.strip_suffix("))")?;
    let lengths = shape.split(',').map(str::trim);
    let lengths = lengths.filter(|length| !length.is_empty());
    let shape: Result<_, _> = lengths.map(str::parse).collect();
    Some((dtype.to_owned(), shape.ok()?))
}

impl Deref for Object {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.whole().get(self.range.clone()).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Object {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("kind", &self.kind())
            .field("length", &self.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_array_descriptions_are_rejected() {
        let known = |dtype: &str, shape: &[u64]| Some((dtype.to_owned(), shape.to_vec()));
        assert_eq!(array(b"('<f8', (3, 4))"), known("<f8", &[3, 4]));
        assert_eq!(array(b"('|u1', (5,))"), known("|u1", &[5]));
        assert_eq!(array(b"('<i4', ())"), known("<i4", &[]));
        for wrong in [
            "",
            "('",
            "('a', (-1,))",
            "('a', (x))",
            "([('a', '<i4')], (3,))",
        ] {
            assert_eq!(array(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_tree_that_is_one_text_is_read_as_text() {
        for text in ["", "\u{e4}", &"x".repeat(300), &"y".repeat(70_000)] {
            let long = ObjectHead::text(text).expect("a short text").0;
            let (kind, range) = value_of(&long).expect("an object");
            assert_eq!((kind, &long[range]), (ObjectKind::Text, text.as_bytes()));
        }
        for (description, text) in [
            (&b"\0\0\0\0\xa2ab"[..], &b"ab"[..]),
            (b"\0\0\0\0\xd9\x02ab", b"ab"),
            (b"\0\0\0\0\xda\0\x02ab", b"ab"),
            (b"\0\0\0\0\xdb\0\0\0\x02ab", b"ab"),
        ] {
            let whole = ObjectHead::new(b'm', description).0;
            let (kind, range) = value_of(&whole).expect("an object");
            assert_eq!((kind, &whole[range]), (ObjectKind::Text, text));
        }
        for other in [
            &b""[..],
            b"\0\0\0\0",
            b"\0\0\0\0\xd9",
            b"\0\0\0\0\xdb\0\0\0",
            b"\0\0\0\0\xa2a",
            b"\0\0\0\0\xa2abc",
            b"\0\0\0\0\xa2\xff\xff",
            b"\x01\0\0\0\xa2ab",
            b"\0\0\0\0\x93abc",
        ] {
            let whole = ObjectHead::new(b'm', other).0;
            let (kind, _) = value_of(&whole).expect("an object");
            assert_ne!(kind, ObjectKind::Text, "{other:?}");
        }
    }

    #[test]
    fn headers_of_impossible_arrays_are_refused() {
        for (shape, length) in [(&[2, 3][..], 48), (&[], 8), (&[0, 7], 0)] {
            assert!(ObjectHead::array("<f8", shape, length).is_ok());
        }
        for (shape, length) in [
            (&[2, 3][..], 47),
            (&[], 0),
            (&[0], 1),
            (&[u64::MAX, 2], 8),
            (&[1], 0),
        ] {
            let wrong = ObjectHead::array("<f8", shape, length);
            assert!(wrong.is_err(), "{shape:?}: {length}");
        }
        for dtype in ["", "'", "<f8\n", "[('a', '<i4')]"] {
            assert!(ObjectHead::array(dtype, &[1], 8).is_err(), "{dtype}");
        }
    }
}
