//! Implements objects: bytes and arrays that processes exchange. Each object is a string that
//! starts with a header. `docs/objects.md` describes the format. Python writes additional kinds of
//! objects.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;
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
/// The size, in bytes, from which a value is copied directly into the store, once and without a
/// lock. A smaller value is first assembled in a buffer.
const PIECES_MIN: usize = 32 << 10;

/// The kind of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// Plain bytes.
    Bytes,
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
        let id = next_id();
        let expiry = match ttl {
            None => Expiry::Never,
            Some(ttl) => {
                let after = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
                Expiry::At(self.store.now().saturating_add(after).min(i64::MAX as u64))
            }
        };
        let key = object_key(&id);
        let length = head.0.len() + buffer.len();
        if length < PIECES_MIN {
            let options = SetOptions {
                condition: Condition::Always,
                expiry,
            };
            let whole = [&head.0, buffer].concat();
            self.store.set_with(database, &key, &whole, options)?;
            return Ok(id);
        }
        let key = self.store.key(&key);
        self.store.check_memory_for(length)?;
        let mut staged = self.store.stage_room(&key, length as u64)?;
        staged.fill(0, &head.0);
        staged.fill(head.0.len() as u64, buffer);
        let set = self.store.set_staged_until(database, &key, staged, expiry);
        set.map(|()| id).map_err(|(error, _)| error)
    }

    /// Returns the object with an id. O(1) for objects of at least 32 KiB. Smaller objects are
    /// copied. A process can read up to 126 objects in place at the same time; further objects are
    /// copied as well.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if the key's value is not a string, and the same errors as any
    /// read.
    pub fn get_object(self: &Arc<Self>, database: usize, id: &[u8]) -> Result<FoundObject, Error> {
        let found = self.store.get_in_place(database, &object_key(id));
        found.map(|whole| Object::of(self, whole))
    }

    /// Returns the object with an id, and deletes it. A value that is not an object remains
    /// unchanged. O(1) for objects of at least 32 KiB.
    ///
    /// # Errors
    /// Returns [`Error::WrongType`] if the key's value is not a string, and the same errors as any
    /// write.
    pub fn take_object(self: &Arc<Self>, database: usize, id: &[u8]) -> Result<FoundObject, Error> {
        let accepts = |first: u64, length| {
            object_letter(first).is_some() && START as u64 + (first >> 32) <= length
        };
        let found = (self.store).take_in_place(database, &object_key(id), accepts);
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
fn next_id() -> Vec<u8> {
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

/// An object whose bytes are read in place in the store.
///
/// The object's memory remains valid until the object is dropped. In a forked child, the object is
/// empty, because only the parent pins the memory.
pub struct Object {
    shared: Arc<OpenStore>,
    /// The pinned string, or `None` while the object is being dropped.
    whole: Option<StringInPlace>,
    /// The offset in the string at which the description ends. `start` is the offset at which the
    /// bytes start.
    described: usize,
    start: usize,
}

impl Object {
    fn of(shared: &Arc<OpenStore>, found: Option<StringInPlace>) -> FoundObject {
        let Some(whole) = found else {
            return FoundObject::Nothing;
        };
        let mut object = Object {
            shared: shared.clone(),
            whole: Some(whole),
            described: 0,
            start: 0,
        };
        let bytes = object.whole();
        let length = bytes.len();
        let described = match bytes.get(..START) {
            Some(start) if start[..3] == MAGIC => {
                let described = u32::from_le_bytes([start[4], start[5], start[6], start[7]]);
                START.saturating_add(described as usize)
            }
            _ => usize::MAX,
        };
        if described > length {
            return FoundObject::Foreign;
        }
        object.described = described;
        object.start = described.next_multiple_of(ALIGNMENT).min(length);
        FoundObject::Object(object)
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> ObjectKind {
        let whole = self.whole();
        let description = whole.get(START..self.described).unwrap_or_default();
        let letter = whole.get(3).copied().unwrap_or_default();
        match (letter, array(description)) {
            (b'b', _) => ObjectKind::Bytes,
            (b'a', Some((dtype, shape))) => ObjectKind::Array { dtype, shape },
            _ => ObjectKind::Other {
                letter,
                description: description.to_vec(),
            },
        }
    }

    fn whole(&self) -> &[u8] {
        match &self.whole {
            Some(whole) => self.shared.store.bytes_of(whole),
            None => &[],
        }
    }
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
        self.whole().get(self.start..).unwrap_or_default()
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

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(whole) = self.whole.take() {
            self.shared.store.let_go(whole);
        }
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
