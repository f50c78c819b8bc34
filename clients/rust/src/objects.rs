//! Objects: bytes and arrays that processes hand to each other without copying.
//!
//! They are those of Python's `undercroft.Objects`, whose values of other kinds are read as bytes.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use undercroft_engine as engine;

use crate::error::{Error, Result};
use crate::store::Store;

const MAGIC: [u8; 3] = [0xc1, b'U', b'O'];
const PREFIX: &[u8] = b"object:";
/// Buffers begin at multiples of this behind the head.
const ALIGNMENT: usize = 64;
/// The fixed part of a head.
const START: usize = 8;
/// Shorter values are put together first; longer ones are copied into the store once, without a lock.
const PIECES_MIN: usize = 32 << 10;

/// Objects of a store: what one process puts, another takes, by an id that goes through any queue.
///
/// An [`Object`] is read where it lies in shared memory, and lasts until it is dropped, whatever becomes of its key. A
/// process reads 126 of [`get`](Objects::get) in place at a time; more are copied.
///
/// ```
/// use undercroft::{ObjectKind, Objects, Store};
/// # let directory = undercroft_testkit::fresh::directory();
/// let objects = Objects::new(Store::at(directory.path().join("store"))?);
/// let id = objects.put_bytes(b"a message", None)?;
/// let numbers: Vec<u8> = [1.0_f64, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
/// let array = objects.put_array("<f8", &[2], &numbers, None)?;
///
/// let message = objects.take(&id)?.expect("it was put");
/// assert_eq!(&*message, b"a message");
/// assert!(objects.take(&id)?.is_none());
/// let array = objects.get(&array)?.expect("it was put");
/// assert_eq!(array.kind(), ObjectKind::Array { dtype: "<f8".into(), shape: vec![2] });
/// assert_eq!(*array, *numbers);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Objects {
    store: Store,
}

/// What an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectKind {
    /// Bytes.
    Bytes,
    /// An array in C order.
    Array {
        /// The type of its items as numpy has it, such as `<f8`.
        dtype: String,
        /// Its lengths.
        shape: Vec<u64>,
    },
    /// Another of Python's kinds, by its letter; its bytes are all that is behind the head's padding.
    Other {
        /// `m` for a tree, `p` for a pickle, and others, which `docs/objects.md` lists.
        letter: u8,
        /// What the head says of it.
        description: Vec<u8>,
    },
}

impl Objects {
    /// The objects of a store's database.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// let objects = undercroft::Objects::new(store.database(3)?);
    /// assert!(!objects.contains(b"none")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn new(store: Store) -> Objects {
        Objects { store }
    }

    /// Stores bytes, for so long or for good, and returns their id. O(bytes): they are copied once.
    ///
    /// # Errors
    /// A store that is full, and more than 512 MiB.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::at(directory.path().join("store"))?);
    /// let id = objects.put_bytes(&[7; 100_000], Some(Duration::from_secs(60)))?;
    /// assert_eq!(objects.get(&id)?.map(|object| object.len()), Some(100_000));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn put_bytes(&self, bytes: &[u8], ttl: Option<Duration>) -> Result<Vec<u8>> {
        self.put(&head(b'b', &[]), bytes, ttl)
    }

    /// Stores an array in C order, of a type as numpy has it.
    ///
    /// # Errors
    /// As those of [`put_bytes`](Self::put_bytes), and a type that is no word of letters, digits and `<>|=`.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::at(directory.path().join("store"))?);
    /// let image = objects.put_array("|u1", &[2, 2], &[0, 64, 128, 255], None)?;
    /// assert!(objects.put_array("'", &[1], &[0], None).is_err());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn put_array(
        &self,
        dtype: &str,
        shape: &[u64],
        items: &[u8],
        ttl: Option<Duration>,
    ) -> Result<Vec<u8>> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"<>|=".contains(&byte);
        if dtype.is_empty() || !dtype.bytes().all(is_word) {
            return Err(Error::reply(format!(
                "ERR expected a type such as <f8, got {dtype:?}"
            )));
        }
        let lengths: String = shape.iter().map(|length| format!("{length},")).collect();
        let description = format!("('{dtype}', ({lengths}))");
        self.put(&head(b'a', description.as_bytes()), items, ttl)
    }

    fn put(&self, head: &[u8], buffer: &[u8], ttl: Option<Duration>) -> Result<Vec<u8>> {
        let id = next_id();
        let (store, database) = (self.store.inner(), self.store.number());
        let expiry = match ttl {
            None => engine::Expiry::Never,
            Some(ttl) => {
                let after = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
                engine::Expiry::At(store.now().saturating_add(after).min(i64::MAX as u64))
            }
        };
        let mut start = head.to_vec();
        start.resize(head.len().next_multiple_of(ALIGNMENT), 0);
        let length = start.len() + buffer.len();
        let put = if length < PIECES_MIN {
            start.extend_from_slice(buffer);
            let options = engine::SetOptions {
                condition: engine::Condition::Always,
                expiry,
            };
            (store.set_with(database, &key(&id), &start, options)).map(drop)
        } else {
            put_long(store, database, &key(&id), [&start, buffer], expiry)
        };
        self.store.done(put).map(|()| id)
    }

    /// The object with an id. O(1) from 32 KiB on; less is copied.
    ///
    /// # Errors
    /// A key that is no object.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::at(directory.path().join("store"))?);
    /// let id = objects.put_bytes(b"here", None)?;
    /// assert_eq!(objects.get(&id)?.as_deref(), Some(&b"here"[..]));
    /// assert!(objects.get(b"none")?.is_none());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get(&self, id: &[u8]) -> Result<Option<Object>> {
        let found = (self.store.inner()).get_in_place(self.store.number(), &key(id));
        self.found(found)
    }

    /// The object with an id, which is deleted: of several that take it one gets it. O(1) from 32 KiB on.
    ///
    /// # Errors
    /// A key that is no object, which stays as it is.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::at(directory.path().join("store"))?;
    /// # let objects = undercroft::Objects::new(store.clone());
    /// let id = objects.put_bytes(b"here", None)?;
    /// assert_eq!(objects.take(&id)?.as_deref(), Some(&b"here"[..]));
    /// assert!(objects.take(&id)?.is_none());
    /// store.set("object:foreign", "something else")?;
    /// assert!(objects.take(b"foreign").is_err());
    /// assert!(objects.contains(b"foreign")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn take(&self, id: &[u8]) -> Result<Option<Object>> {
        let accepts = |first: u64| first.to_le_bytes()[..3] == MAGIC;
        let found = (self.store.inner()).take_in_place(self.store.number(), &key(id), accepts);
        self.found(found)
    }

    /// Deletes an object, and returns whether it was there. Who reads it goes on.
    ///
    /// # Errors
    /// A store that cannot be written.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::at(directory.path().join("store"))?);
    /// let id = objects.put_bytes(&[7; 100_000], None)?;
    /// let object = objects.get(&id)?.expect("it was put");
    /// assert!(objects.delete(&id)?);
    /// assert_eq!(object[99_999], 7);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn delete(&self, id: &[u8]) -> Result<bool> {
        Ok(self.store.del(&[key(id)])? > 0)
    }

    /// Whether there is an object with an id.
    ///
    /// # Errors
    /// A store that cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::at(directory.path().join("store"))?);
    /// let id = objects.put_bytes(b"here", None)?;
    /// assert!(objects.contains(&id)?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn contains(&self, id: &[u8]) -> Result<bool> {
        Ok(self.store.exists(&[key(id)])? > 0)
    }

    fn found(
        &self,
        found: std::result::Result<Option<engine::Whole>, engine::Error>,
    ) -> Result<Option<Object>> {
        let Some(whole) = self.store.done(found)? else {
            return Ok(None);
        };
        let mut object = Object {
            store: self.store.clone(),
            whole: Some(whole),
            description: 0,
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
            let text = "ERR expected an object, got a value that does not begin as one";
            return Err(Error::reply(text));
        }
        object.description = described;
        object.start = described.next_multiple_of(ALIGNMENT).min(length);
        Ok(Some(object))
    }
}

fn put_long(
    store: &engine::Store,
    database: usize,
    key: &[u8],
    [start, buffer]: [&[u8]; 2],
    expiry: engine::Expiry,
) -> std::result::Result<(), engine::Error> {
    let key = store.key(key);
    store.check_memory()?;
    let mut staged = store.stage_room(&key, (start.len() + buffer.len()) as u64)?;
    staged.fill(0, start);
    staged.fill(start.len() as u64, buffer);
    let set = store.set_staged_until(database, &key, staged, expiry);
    set.map_err(|(error, _)| error)
}

fn key(id: &[u8]) -> Vec<u8> {
    [PREFIX, id].concat()
}

fn head(kind: u8, description: &[u8]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.push(kind);
    head.extend_from_slice(&(description.len() as u32).to_le_bytes());
    head.extend_from_slice(description);
    head
}

/// An id that no other process makes, nor a child that is forked.
fn next_id() -> Vec<u8> {
    static START: OnceLock<u64> = OnceLock::new();
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let start = START.get_or_init(|| RandomState::new().hash_one(std::process::id()));
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    format!("{start:x}-{:x}-{number:x}", std::process::id()).into_bytes()
}

/// An object: its bytes, read where they lie in the store.
///
/// It keeps its memory until it is dropped. In a forked child it is empty: what it reads is the parent's.
pub struct Object {
    store: Store,
    /// None only while it is dropped.
    whole: Option<engine::Whole>,
    /// Where its description ends, and where its bytes begin.
    description: usize,
    start: usize,
}

impl Object {
    /// What it is.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::at(directory.path().join("store"))?);
    /// let id = objects.put_array("<i4", &[], &[1, 0, 0, 0], None)?;
    /// let object = objects.get(&id)?.expect("it was put");
    /// assert_eq!(
    ///     object.kind(),
    ///     undercroft::ObjectKind::Array { dtype: "<i4".into(), shape: Vec::new() }
    /// );
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn kind(&self) -> ObjectKind {
        let whole = self.whole();
        let description = whole.get(START..self.description).unwrap_or_default();
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
            Some(whole) => self.store.inner().bytes_of(whole),
            None => &[],
        }
    }
}

/// The type and shape of an array whose items are no records, from a text such as `('<f8', (3, 4))`.
fn array(description: &[u8]) -> Option<(String, Vec<u64>)> {
    let text = std::str::from_utf8(description).ok()?;
    let (dtype, shape) = text.strip_prefix("('")?.split_once("', (")?;
    let shape = shape.strip_suffix("))")?;
    let lengths = shape.split(',').map(str::trim);
    let lengths = lengths.filter(|length| !length.is_empty());
    let shape = lengths
        .map(str::parse)
        .collect::<std::result::Result<_, _>>();
    Some((dtype.to_owned(), shape.ok()?))
}

impl Deref for Object {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.whole().get(self.start..).unwrap_or_default()
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("kind", &self.kind())
            .field("length", &self.len())
            .finish()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(whole) = self.whole.take() {
            self.store.inner().let_go(whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_of_any_bytes_are_arrays_or_none() {
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
    fn an_object_outlives_its_key_and_is_freed_with_its_last_reader() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let store = Store::at(directory.path().join("store"))?;
        let objects = Objects::new(store.clone());
        let used = || -> u64 { store.inner().used_memory() };
        objects.take(&objects.put_bytes(&[1; 300_000], None)?)?;
        let before = used();
        let id = objects.put_bytes(&[7; 300_000], None)?;
        let (read, taken) = (objects.get(&id)?, objects.take(&id)?);
        for object in [&read, &taken] {
            assert_eq!(object.as_deref(), Some(&[7; 300_000][..]));
        }
        assert!(used() > before + 300_000);
        assert_ne!(id, objects.put_bytes(b"", None)?);
        drop((read, taken));
        assert!(used() < before + 5_000);
        for wrong in [&b""[..], b"\xc1UOa\xff\xff\xff\xff", b"\xc1UO"] {
            store.set("object:wrong", wrong)?;
            assert!(objects.get(b"wrong").is_err());
        }
        Ok(())
    }
}
