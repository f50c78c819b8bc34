//! Exchanges objects (bytes and arrays) between processes without copying.
//!
//! The objects are compatible with Python's `undercroft.Objects`. Python values of other kinds are
//! read as bytes.

use std::time::Duration;

/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let objects = undercroft::Objects::new(undercroft::Store::open_path(directory.path().join("store"))?);
/// let id = objects.put_array("<i4", &[], &[1, 0, 0, 0], None)?;
/// let object: undercroft::Object = objects.take(&id)?.expect("it was put");
/// assert_eq!(i32::from_le_bytes(object[..].try_into().expect("one item")), 1);
/// assert_ne!(object.kind(), undercroft::ObjectKind::Bytes);
/// # Ok::<(), undercroft::Error>(())
/// ```
#[doc(inline)]
pub use undercroft_embedded::Object;
/// ```
/// # let directory = undercroft_testkit::fresh::directory();
/// # let objects = undercroft::Objects::new(undercroft::Store::open_path(directory.path().join("store"))?);
/// let id = objects.put_array("|u1", &[2], &[0, 255], None)?;
/// match objects.take(&id)?.expect("it was put").kind() {
///     undercroft::ObjectKind::Array { dtype, shape } => assert_eq!((&*dtype, &*shape), ("|u1", &[2][..])),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), undercroft::Error>(())
/// ```
#[doc(inline)]
pub use undercroft_embedded::ObjectKind;
use undercroft_embedded::{FoundObject, ObjectHead, new_object_id, object_key};

use crate::client::Client;
use crate::command::{Script, cmd};
use crate::error::{Error, Result};
use crate::remote::Pool;

/// The maximum length of a string on a server, in bytes.
const LENGTH_MAX: usize = 512 << 20;

/// The longest expiry in milliseconds that every server accepts, which adds its own time to it.
const TTL_MAX: u128 = i64::MAX as u128 / 2;

/// Returns the object at a key and deletes it. Deletes no value that is not an object.
const TAKE: &str = "local start = redis.call('GETRANGE', KEYS[1], 0, 7) \
    if start == '' and redis.call('EXISTS', KEYS[1]) == 0 then return nil end \
    if #start < 8 or string.sub(start, 1, 3) ~= '\\193UO' \
    or redis.call('STRLEN', KEYS[1]) < 8 + struct.unpack('<I4', string.sub(start, 5)) \
    then return redis.error_reply(ARGV[1]) end \
    return redis.call('GETDEL', KEYS[1])";
/// The error for a key whose value is not an object.
const FOREIGN: &str = "ERR expected an object, got a value without the header of one";

/// Objects in a store or on a server. One process puts an object, and another process takes it by
/// its id, which can be sent through any queue.
///
/// An [`Object`] in a store is read in place in shared memory. It stays valid until it is dropped,
/// even if its key is deleted or overwritten. `bytes::Bytes::from_owner(object)` shares it without a
/// copy. A process can read up to 126 objects from [`get`](Objects::get) in place at the same time.
/// Further objects are copied, as are all objects on a server.
///
/// ```
/// use undercroft::{ObjectKind, Objects, Store};
/// # let directory = undercroft_testkit::fresh::directory();
/// let objects = Objects::new(Store::open_path(directory.path().join("store"))?);
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
    client: Client,
}

impl Objects {
    /// Returns the objects of the selected database of a store or a server: a
    /// [`Store`](crate::Store), a [`Pool`] or a [`Client`].
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
    /// let objects = undercroft::Objects::new(store.database(3)?);
    /// assert!(!objects.contains(b"none")?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn new(on: impl Into<Client>) -> Objects {
        Objects { client: on.into() }
    }

    /// Stores bytes, with or without an expiry, and returns the new object's id. O(n) in the number
    /// of bytes, which are copied once.
    ///
    /// # Errors
    /// Fails if the store or the server is full, or if `bytes` is longer than 512 MiB.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::open_path(directory.path().join("store"))?);
    /// let id = objects.put_bytes(&[7; 100_000], Some(Duration::from_secs(60)))?;
    /// assert_eq!(objects.get(&id)?.map(|object| object.len()), Some(100_000));
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn put_bytes(&self, bytes: &[u8], ttl: Option<Duration>) -> Result<Vec<u8>> {
        self.put(&ObjectHead::bytes(), bytes, ttl)
    }

    /// Stores an array in C order, with a data type in numpy's notation.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the data type contains anything but letters, digits and `<>|=`,
    /// or if the number of bytes does not match the shape. The errors of
    /// [`put_bytes`](Self::put_bytes).
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::open_path(directory.path().join("store"))?);
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
        let head = ObjectHead::array(dtype, shape, items.len());
        let head = head.map_err(|wrong| Error::argument(wrong.to_string()))?;
        self.put(&head, items, ttl)
    }

    fn put(&self, head: &ObjectHead, bytes: &[u8], ttl: Option<Duration>) -> Result<Vec<u8>> {
        let store = match &self.client {
            Client::Store(store) => store,
            Client::Pool(pool) => return put_remote(pool, head, bytes, ttl),
        };
        let number = store.number();
        store.call(|open| open.put_object(number, head, bytes, ttl))
    }

    /// Returns the object with the given id. O(1) for objects of 32 KiB or more, because only
    /// smaller objects are copied.
    ///
    /// # Errors
    /// Fails if the key does not hold an object.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::open_path(directory.path().join("store"))?);
    /// let id = objects.put_bytes(b"here", None)?;
    /// assert_eq!(objects.get(&id)?.as_deref(), Some(&b"here"[..]));
    /// assert!(objects.get(b"none")?.is_none());
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn get(&self, id: &[u8]) -> Result<Option<Object>> {
        let store = match &self.client {
            Client::Store(store) => store,
            Client::Pool(pool) => return found(Object::copied(pool.get(object_key(id))?)),
        };
        let number = store.number();
        found(store.call(|open| open.get_object(number, id))?)
    }

    /// Returns the object with the given id and deletes it. If several callers take the same
    /// object, only one of them gets it. O(1) for objects of 32 KiB or more.
    ///
    /// # Errors
    /// Fails if the key does not hold an object, and leaves the key unchanged.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let store = undercroft::Store::open_path(directory.path().join("store"))?;
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
        let store = match &self.client {
            Client::Store(store) => store,
            Client::Pool(pool) => {
                let taken = Script::new(TAKE)
                    .key(object_key(id))
                    .arg(FOREIGN)
                    .invoke(pool)?;
                return found(Object::copied(taken));
            }
        };
        let number = store.number();
        found(store.call(|open| open.take_object(number, id))?)
    }

    /// Deletes an object. Returns whether the object existed. Processes that are reading the object
    /// are not affected.
    ///
    /// # Errors
    /// Fails if the store cannot be written.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::open_path(directory.path().join("store"))?);
    /// let id = objects.put_bytes(&[7; 100_000], None)?;
    /// let object = objects.get(&id)?.expect("it was put");
    /// assert!(objects.del(&id)?);
    /// assert_eq!(object[99_999], 7);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn del(&self, id: &[u8]) -> Result<bool> {
        cmd("UNLINK").arg(object_key(id)).query(&self.client)
    }

    /// Returns whether an object with the given id exists.
    ///
    /// # Errors
    /// Fails if the store cannot be read.
    ///
    /// ```
    /// # let directory = undercroft_testkit::fresh::directory();
    /// # let objects = undercroft::Objects::new(undercroft::Store::open_path(directory.path().join("store"))?);
    /// let id = objects.put_bytes(b"here", None)?;
    /// assert!(objects.contains(&id)?);
    /// # Ok::<(), undercroft::Error>(())
    /// ```
    pub fn contains(&self, id: &[u8]) -> Result<bool> {
        cmd("EXISTS").arg(object_key(id)).query(&self.client)
    }
}

fn found(found: FoundObject) -> Result<Option<Object>> {
    match found {
        FoundObject::Nothing => Ok(None),
        FoundObject::Object(object) => Ok(Some(object)),
        FoundObject::Foreign => Err(Error::reply(FOREIGN)),
    }
}

fn put_remote(
    pool: &Pool,
    head: &ObjectHead,
    bytes: &[u8],
    ttl: Option<Duration>,
) -> Result<Vec<u8>> {
    let (id, whole) = (new_object_id(), head.whole(bytes));
    check_length(whole.len())?;
    let mut set = cmd("SET");
    set.arg((object_key(&id), whole));
    if let Some(ttl) = ttl {
        set.arg(("PX", ttl.as_millis().clamp(1, TTL_MAX) as u64));
    }
    set.exec(pool)?;
    Ok(id)
}

/// Returns an error for a value that is longer than servers accept. Sending it would end the
/// connection.
pub(super) fn check_length(length: usize) -> Result<()> {
    match length {
        ..=LENGTH_MAX => Ok(()),
        _ => Err(Error::argument(format!(
            "expected a value of at most {LENGTH_MAX} bytes with its header, got {length}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn an_object_outlives_its_key_and_is_freed_with_its_last_reader() -> Result<()> {
        let directory = undercroft_testkit::fresh::directory();
        let store = Store::open_path(directory.path().join("store"))?;
        let objects = Objects::new(store.clone());
        let used = || -> u64 { store.with(|store| store.used_memory()) };
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
            assert!(objects.take(b"wrong").is_err());
            assert!(objects.contains(b"wrong")?, "it stays");
        }
        Ok(())
    }
}
