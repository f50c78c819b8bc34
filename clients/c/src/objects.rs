//! Implements the object functions, and the reading of messages of channels.

use std::ffi::{CString, c_char, c_int, c_void};
use std::time::Duration;

use undercroft_embedded::{
    ChannelMessage, Delivery, FoundObject, Object, ObjectHead, ObjectKind, object_key,
};
use undercroft_engine::Error;

use crate::border::{array, bytes, call, check_place, give, text};
use crate::handle::{Handle, Kind, Pool};
use crate::status::{Outcome, Refused, Status};
use crate::store::{Database, StoreHandle, call_on};

/// The C constant `UC_OBJECT_ID`: the size of a buffer for an id and its terminating zero.
const ID_ROOM: usize = 80;

/// The C type `uc_object`: an object or a message that a C program reads, with its description.
pub(crate) struct Reading {
    source: Source,
    letter: u8,
    /// The numpy type of an array's items, or an empty string for other objects.
    dtype: CString,
    shape: Vec<u64>,
}

/// The owner of the bytes that a C program reads.
pub(crate) enum Source {
    Object(Object),
    Message(ChannelMessage),
    Held(Delivery),
}

impl Source {
    fn kind(&self) -> ObjectKind {
        match self {
            Source::Object(object) => object.kind(),
            Source::Message(message) => message.kind().clone(),
            Source::Held(delivery) => match delivery.message() {
                Some(message) => message.kind().clone(),
                None => ObjectKind::Bytes,
            },
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Source::Object(object) => object,
            Source::Message(message) => message,
            Source::Held(delivery) => delivery.message().map_or(&[], |message| message),
        }
    }
}

impl Kind for Reading {
    const NAME: &'static str = "uc_object";
    const OPEN: u32 = 0x7563_4f10;

    fn pool() -> &'static Pool<Reading> {
        static POOL: Pool<Reading> = Pool::new();
        &POOL
    }
}

pub(crate) type ObjectHandle = Handle<Reading>;

impl Reading {
    pub(crate) fn new(source: Source) -> Reading {
        let (letter, dtype, shape) = match source.kind() {
            ObjectKind::Array { dtype, shape } => (b'a', dtype, shape),
            ObjectKind::Text => (b's', String::new(), Vec::new()),
            ObjectKind::Other { letter, .. } => (letter, String::new(), Vec::new()),
            _ => (b'b', String::new(), Vec::new()),
        };
        Reading {
            source,
            letter,
            dtype: CString::new(dtype).unwrap_or_default(),
            shape,
        }
    }

    /// Returns whether the program holds this message.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.source, Source::Held(_))
    }

    /// Returns the message that the program holds, or `None` for an object and any other message.
    pub(crate) fn held(self) -> Option<Delivery> {
        match self.source {
            Source::Held(delivery) => Some(delivery),
            _ => None,
        }
    }
}

/// Stores an object and writes its null-terminated id to `id`.
///
/// # Safety
/// `id` must be null or writable for [`ID_ROOM`] bytes.
unsafe fn put(
    on: &Database<'_>,
    head: &ObjectHead,
    buffer: &[u8],
    ttl: i64,
    id: *mut c_char,
) -> Outcome {
    check_place(id)?;
    let ttl = match u64::try_from(ttl) {
        Ok(0) => None,
        Ok(milliseconds) => Some(Duration::from_millis(milliseconds)),
        Err(_) => {
            let text = format!("expected a time to live of at least 0 ms, got {ttl}");
            return Err(Refused::misuse(&text));
        }
    };
    let put = on.shared.put_object(on.number, head, buffer, ttl);
    let made = put.map_err(|error| Refused::engine(&on.shared.store, error))?;
    let length = made.len().min(ID_ROOM - 1);
    // SAFETY: `check_place` rejected a null `id`, and the caller guarantees room for [`ID_ROOM`]
    // bytes, which the copy does not exceed.
    unsafe {
        std::ptr::copy_nonoverlapping(made.as_ptr().cast(), id, length);
        id.add(length).write(0);
    }
    Ok(Status::Ok)
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_put(
    store: *const StoreHandle,
    data: *const c_void,
    length: usize,
    ttl: i64,
    id: *mut c_char,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        unsafe {
            let buffer = bytes(data, length)?;
            put(on, &ObjectHead::bytes(), buffer, ttl, id)
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_put_array(
    store: *const StoreHandle,
    dtype: *const c_char,
    dimensions: usize,
    shape: *const u64,
    items: *const c_void,
    length: usize,
    ttl: i64,
    id: *mut c_char,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that each pointer is null or valid for its length.
        unsafe {
            let items = bytes(items, length)?;
            let dtype = text("a type", dtype)?;
            let shape = match dimensions {
                0 => &[],
                _ => array(dimensions, shape)?,
            };
            let head = ObjectHead::array(dtype, shape, items.len());
            let head = head.map_err(|wrong| Refused::misuse(&wrong))?;
            put(on, &head, items, ttl, id)
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// Finds the object with the given id and writes a handle for it to `place`.
///
/// # Safety
/// Each pointer must be null or valid for the length that `undercroft.h` specifies for
/// `uc_object_get`.
unsafe fn find(
    store: *const StoreHandle,
    id: *const c_void,
    length: usize,
    place: *mut *mut ObjectHandle,
    find: impl Fn(&Database<'_>, &[u8]) -> Result<FoundObject, Error>,
) -> c_int {
    let body = |on: &Database<'_>| {
        check_place(place)?;
        // SAFETY: `check_place` verified that `place` is not null, and the caller guarantees that
        // it is writable.
        unsafe { place.write(std::ptr::null_mut()) };
        // SAFETY: the caller guarantees that `id` is null or valid for `length` bytes.
        let id = unsafe { bytes(id, length)? };
        match find(on, id).map_err(|error| Refused::engine(&on.shared.store, error))? {
            FoundObject::Nothing => Ok(Status::None),
            FoundObject::Foreign => Err(Refused::new(
                Status::WrongType,
                "expected an object, got a value without the header of one",
            )),
            FoundObject::Object(object) => {
                let opened = Handle::open(Reading::new(Source::Object(object)));
                // SAFETY: `check_place` verified that `place` is not null, and the caller
                // guarantees that it is writable.
                unsafe { place.write(opened) };
                Ok(Status::Ok)
            }
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_get(
    store: *const StoreHandle,
    id: *const c_void,
    id_length: usize,
    object: *mut *mut ObjectHandle,
) -> c_int {
    let get = |on: &Database<'_>, id: &[u8]| on.shared.get_object(on.number, id);
    // SAFETY: the caller upholds the requirements of `find`.
    unsafe { find(store, id, id_length, object, get) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_take(
    store: *const StoreHandle,
    id: *const c_void,
    id_length: usize,
    object: *mut *mut ObjectHandle,
) -> c_int {
    let take = |on: &Database<'_>, id: &[u8]| on.shared.take_object(on.number, id);
    // SAFETY: the caller upholds the requirements of `find`.
    unsafe { find(store, id, id_length, object, take) }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_del(
    store: *const StoreHandle,
    id: *const c_void,
    id_length: usize,
) -> c_int {
    let body = |on: &Database<'_>| {
        // SAFETY: the caller guarantees that `id` is null or valid for `id_length` bytes.
        let id = unsafe { bytes(id, id_length)? };
        let deleted = on.shared.store.delete(on.number, &[&object_key(id)]);
        match deleted.map_err(|error| Refused::engine(&on.shared.store, error))? {
            0 => Ok(Status::None),
            _ => Ok(Status::Ok),
        }
    };
    // SAFETY: the caller guarantees that `store` is null or a store handle, and running `body`
    // twice is sound.
    unsafe { call_on(store, body) }
}

/// # Safety
/// `object` must be null or a handle that this library returned, and no other thread may use it
/// during the call.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_close(object: *mut ObjectHandle) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `object` is null or a handle from this library.
        drop(unsafe { Handle::close(object) }?);
        Ok(Status::Ok)
    })
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_data(
    object: *const ObjectHandle,
    length: *mut usize,
) -> *const c_void {
    // SAFETY: the caller guarantees that `object` is null or a handle from this library.
    let bytes: &[u8] = match unsafe { Handle::shared(object) } {
        Ok(reading) => reading.source.bytes(),
        Err(_) => &[],
    };
    // SAFETY: the caller guarantees that `length` is null or writable.
    unsafe { give(length, bytes.len()) };
    bytes.as_ptr().cast()
}

/// # Safety
/// `object` must be null or a handle that this library returned.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_kind(object: *const ObjectHandle) -> c_int {
    // SAFETY: the caller guarantees that `object` is null or a handle from this library.
    match unsafe { Handle::shared(object) } {
        Ok(reading) => c_int::from(reading.letter),
        Err(Refused(status)) => status as c_int,
    }
}

/// # Safety
/// Each handle must be null or have been returned by this library. Every other pointer must be null
/// or valid for the length that `undercroft.h` specifies.
#[unsafe(no_mangle)]
unsafe extern "C" fn uc_object_array(
    object: *const ObjectHandle,
    dtype: *mut *const c_char,
    dimensions: *mut usize,
    shape: *mut *const u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller guarantees that `object` is null or a handle from this library.
        let reading = unsafe { Handle::shared(object) }?;
        // SAFETY: the caller guarantees that each result pointer is null or writable.
        unsafe {
            give(dtype, reading.dtype.as_ptr());
            give(dimensions, reading.shape.len());
            give(shape, reading.shape.as_ptr());
        }
        Ok(match reading.letter {
            b'a' => Status::Ok,
            _ => Status::None,
        })
    })
}
