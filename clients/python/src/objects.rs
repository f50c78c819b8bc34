//! Native code for `undercroft.Objects`: values that are assembled from pieces and read without a
//! copy.
//!
//! A [`Block`] exports the bytes of a stored value. The bytes are either pinned in the store, where
//! no process changes them, or were removed from the store and belong to this process. In both
//! cases they remain valid until the last view is collected. A [`Draft`] exports store memory that
//! no other process can reach before it is sealed.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyKeyError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use smallvec::SmallVec;
use undercroft_embedded::{OpenStore, object_letter};
use undercroft_engine::strings::{Condition, STRING_MAX, SetOptions, StringInPlace};
use undercroft_engine::{Error, Expiry, Store, SuspendedBlock, defer_signals, unlimited_patience};

use crate::client::{Client, Use};
use crate::conversion::known;
use crate::error;
use crate::threads::gil_cell::GilCell;

/// Values shorter than this many bytes are assembled in local memory and then stored. Longer values
/// are copied once, directly into the store and without a lock.
const PIECES_MIN: usize = 32 << 10;
/// Values of at least this many bytes are copied without the interpreter lock, so that other Python
/// threads can run.
const DETACHED_MIN: usize = 256 << 10;
/// The alignment of buffers in bytes, chosen for vector units and cache lines.
const ALIGNMENT: usize = 64;

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

/// Returns the exception for a value that cannot be stored. A full store raises Python's
/// `MemoryError`.
#[cold]
pub(crate) fn raise(
    py: Python<'_>,
    client: &Client,
    store: &Store,
    length: usize,
    error: Error,
) -> PyErr {
    if error.is_out_of_memory() || matches!(error, Error::MaxMemory) {
        return PyMemoryError::new_err(format!(
            "the store has no room for an object of {length} bytes: {error}"
        ));
    }
    if matches!(error, Error::TooLong) {
        return PyValueError::new_err(format!(
            "expected an object of at most {STRING_MAX} bytes, got {length}"
        ));
    }
    error::raise(py, client.codec.raises, store, error)
}

/// A contiguous view of an object's buffer.
struct BufferView(ffi::Py_buffer);

impl BufferView {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<BufferView> {
        let mut view = ffi::Py_buffer::new();
        // SAFETY: the thread is attached, and `drop` releases the view.
        match unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut view, ffi::PyBUF_SIMPLE) } {
            0 => Ok(BufferView(view)),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    fn bytes(&self) -> &[u8] {
        if self.0.buf.is_null() {
            return &[];
        }
        // SAFETY: the exporter keeps this many bytes in place until the buffer is released. A
        // thread that writes to them meanwhile can only tear the copy, as with any shared buffer.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.0.len as usize) }
    }
}

impl Drop for BufferView {
    fn drop(&mut self) {
        // SAFETY: `PyObject_GetBuffer` filled the view, and the thread is attached.
        unsafe { ffi::PyBuffer_Release(&mut self.0) };
    }
}

/// Returns the expiry for a lifetime in milliseconds, where 0 means never.
fn expiry(store: &Store, milliseconds: u64) -> Expiry {
    match milliseconds {
        0 => Expiry::Never,
        after => Expiry::At(store.now().saturating_add(after).min(i64::MAX as u64)),
    }
}

/// Store a value under a new id and return the id.
///
/// The stored form is a head followed by buffers, each aligned to 64 bytes. For a value that is
/// neither bytes nor a known kind of array, `encode` builds the head and the buffers. If `own` is
/// given, it is the id, and the value replaces any existing value with that id.
#[pyfunction]
#[pyo3(signature = (client, prefix, value, expires, encode, own=None))]
pub(crate) fn put_object<'py>(
    client: &Client,
    prefix: &[u8],
    value: &Bound<'py, PyAny>,
    expires: u64,
    encode: &Bound<'py, PyAny>,
    own: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = value.py();
    let (key, id) = match own {
        Some(own) => (key_of(prefix, own)?, prefix.len()),
        None => known::new_key(py, prefix),
    };
    if known::is_bytes(value) {
        let view = BufferView::of(value)?;
        put(py, client, &key, &known::BYTES_HEAD, &[view], expires)?;
    } else if let Some(head) = known::head_of_array(value)?
        && let Ok(view) = BufferView::of(value)
    {
        put(py, client, &key, head.as_bytes(), &[view], expires)?;
    } else {
        let encoded = encode.call1((value,))?;
        let (head, buffers): (Bound<'py, PyBytes>, Bound<'py, PyTuple>) = encoded.extract()?;
        let views = buffers.iter().map(|buffer| BufferView::of(&buffer));
        let views: SmallVec<[BufferView; 4]> = views.collect::<PyResult<_>>()?;
        put(py, client, &key, head.as_bytes(), &views, expires)?;
    }
    Ok(PyBytes::new(py, &key[id..]))
}

/// Store several values as [`put_object`] does, or none if any of them cannot be stored.
#[pyfunction]
pub(crate) fn put_objects<'py>(
    client: &Client,
    prefix: &[u8],
    values: &Bound<'py, PyAny>,
    expires: u64,
    encode: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let py = values.py();
    let ids = PyList::empty(py);
    let done = values.try_iter()?.try_for_each(|value| {
        let id = put_object(client, prefix, &value?, expires, encode, None)?;
        ids.append(id)
    });
    if let Err(error) = done {
        let shared = client.enter(py)?;
        for id in ids.iter() {
            let key = key_of(prefix, &id)?;
            // Ignore a failed deletion: no caller knows the object's id, and the object may expire
            // later.
            let _ = shared.store.delete(client.database(py), &[&key]);
        }
        return Err(error);
    }
    Ok(ids)
}

fn put(
    py: Python<'_>,
    client: &Client,
    key: &[u8],
    head: &[u8],
    views: &[BufferView],
    expires: u64,
) -> PyResult<()> {
    let pieces: SmallVec<[&[u8]; 4]> = views.iter().map(BufferView::bytes).collect();
    let mut length = head.len();
    for piece in &pieces {
        length = padded(length) + piece.len();
    }
    client.again(py, || {
        let shared = client.enter(py)?;
        let (store, database) = (&shared.store, client.database(py));
        let until = expiry(store, expires);
        let done = if length < PIECES_MIN {
            put_short(store, database, key, head, &pieces, until)
        } else if length < DETACHED_MIN {
            put_long(store, database, key, head, &pieces, (length, until))
        } else {
            py.detach(|| put_long(store, database, key, head, &pieces, (length, until)))
        };
        done.map_err(|error| raise(py, client, store, length, error))
    })
}

fn put_short(
    store: &Store,
    database: usize,
    key: &[u8],
    head: &[u8],
    pieces: &[&[u8]],
    expiry: Expiry,
) -> Result<(), Error> {
    let mut value: SmallVec<[u8; 512]> = SmallVec::from_slice(head);
    for piece in pieces {
        value.resize(padded(value.len()), 0);
        value.extend_from_slice(piece);
    }
    let options = SetOptions {
        condition: Condition::Always,
        expiry,
    };
    store.set_with(database, key, &value, options).map(drop)
}

fn put_long(
    store: &Store,
    database: usize,
    key: &[u8],
    head: &[u8],
    pieces: &[&[u8]],
    (length, expiry): (usize, Expiry),
) -> Result<(), Error> {
    let key = store.key(key);
    store.check_memory_for(length)?;
    let mut staged = store.stage_room(&key, length as u64)?;
    staged.fill(0, head);
    let mut end = head.len();
    for piece in pieces {
        // Zero the padding between pieces, so that it does not expose earlier contents of the
        // memory.
        let start = padded(end);
        let whole = end.next_multiple_of(8);
        staged.fill(whole as u64, &[0; ALIGNMENT][..start - whole]);
        staged.fill(start as u64, piece);
        end = start + piece.len();
    }
    let set = store.set_staged_until(database, &key, staged, expiry);
    set.map_err(|(error, _)| error)
}

/// Returns the stored bytes as a Python object: `bytes` for a copy, otherwise a [`Block`].
fn give<'py>(
    py: Python<'py>,
    (shared, found): (&Use<'_, '_>, Option<StringInPlace>),
) -> PyResult<Option<Bound<'py, PyAny>>> {
    match found {
        None => Ok(None),
        Some(StringInPlace::Refused(first)) => {
            Ok(Some(PyBytes::new(py, &first.to_le_bytes()).into_any()))
        }
        Some(StringInPlace::Copied(bytes)) => Ok(Some(PyBytes::new(py, &bytes).into_any())),
        Some(whole) => {
            let shared = shared.to_shared();
            let (start, length) = shared.store.place_of(&whole);
            let block = Block {
                start: Place(start.cast_mut()),
                length,
                shared,
                whole: GilCell::new(Some(whole)),
            };
            Ok(Some(Bound::new(py, block)?.into_any()))
        }
    }
}

/// Returns the key of an object.
fn key_of(prefix: &[u8], id: &Bound<'_, PyAny>) -> PyResult<SmallVec<[u8; 64]>> {
    let Ok(bytes) = id.cast::<PyBytes>() else {
        let class = id.get_type();
        return Err(PyTypeError::new_err(format!(
            "expected an object id of type bytes, got {}",
            class.name()?
        )));
    };
    let mut key = SmallVec::from_slice(prefix);
    key.extend_from_slice(bytes.as_bytes());
    Ok(key)
}

/// Returns the value of stored bytes. A known kind of array becomes a view, unless `writable` is
/// set. For all other bytes, returns the result of `decode`.
fn value_of<'py>(
    whole: &Bound<'py, PyAny>,
    writable: bool,
    decode: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = whole.py();
    if !writable {
        let array = if let Ok(bytes) = whole.cast::<PyBytes>() {
            known::array_of(py, bytes.as_bytes(), whole)?
        } else if let Ok(block) = whole.cast::<Block>() {
            known::array_of(py, block.get().bytes(), whole)?
        } else {
            None
        };
        if let Some(array) = array {
            return Ok(array);
        }
    }
    decode.call1((whole, writable))
}

/// Return the value with the given id.
///
/// A long value is a view of the store. If `kinds` is given, an object of one of these kinds is
/// removed from the store when it is read. An object of any other kind stays in the store, and
/// `decode` receives only its first eight bytes. The key, the bytes and the expiry time of a
/// removed object are recorded in `taken`.
#[pyfunction]
#[pyo3(signature = (client, prefix, id, kinds, writable, decode, taken=None))]
pub(crate) fn read_object<'py>(
    client: &Client,
    prefix: &[u8],
    id: &Bound<'py, PyAny>,
    kinds: Option<&[u8]>,
    writable: bool,
    decode: &Bound<'py, PyAny>,
    taken: Option<&Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = id.py();
    let key = key_of(prefix, id)?;
    // Keep the store in use until this function returns, because the bytes found are in its memory.
    let (shared, expires, found) = client.again(py, || {
        let shared = client.enter(py)?;
        let (store, database) = (&shared.store, client.database(py));
        let expires = match taken {
            Some(_) => store.expiry(database, &key).ok().flatten().flatten(),
            None => None,
        };
        let found = match kinds {
            None => store.get_in_place(database, &key),
            Some(kinds) => {
                let accepts =
                    |first: u64, _| object_letter(first).is_some_and(|kind| kinds.contains(&kind));
                store.take_in_place(database, &key, accepts)
            }
        };
        let found = found.map_err(|error| raise(py, client, store, 0, error))?;
        Ok((shared, expires, found))
    })?;
    let is_taken = kinds.is_some() && !matches!(found, Some(StringInPlace::Refused(_)));
    let Some(whole) = give(py, (&shared, found))? else {
        return Err(PyKeyError::new_err(id.clone().unbind()));
    };
    if let Some(taken) = taken.filter(|_| is_taken) {
        let entry = (PyBytes::new(py, &key), &whole, expires.unwrap_or(0));
        let kept = entry
            .into_pyobject(py)
            .and_then(|entry| taken.append(entry));
        kept.inspect_err(|_| {
            // Ignore any error from the undo, because the original exception is raised.
            let _ = again(py, client, &key, &whole, expires.unwrap_or(0));
        })?;
    }
    value_of(&whole, writable, decode).inspect_err(|error| {
        if is_taken && error.is_instance_of::<PyValueError>(py) {
            // The damaged object has already been removed from the store, so attach its bytes to
            // the exception. If the exception does not accept attributes, raise it without them.
            let unread = PyList::new(py, [&whole]);
            let told = unread.and_then(|unread| error.value(py).setattr("unread", unread));
            if let (Ok(()), Some(taken)) = (told, taken) {
                let _ = taken.del_item(taken.len() - 1);
            }
        }
    })
}

/// Restores a removed object under its key, unless another object now has that key.
fn again(
    py: Python<'_>,
    client: &Client,
    key: &[u8],
    whole: &Bound<'_, PyAny>,
    expires: u64,
) -> PyResult<()> {
    let bytes = match (whole.cast::<PyBytes>(), whole.cast::<Block>()) {
        (Ok(bytes), _) => bytes.as_bytes(),
        (_, Ok(block)) => block.get().bytes(),
        _ => return Ok(()),
    };
    let until = match expires {
        0 => Expiry::Never,
        at => Expiry::At(at),
    };
    let shared = client.enter(py)?;
    let (store, database) = (&shared.store, client.database(py));
    let _deferred = defer_signals();
    let done = unlimited_patience(|| {
        if store.exists(database, &[key])? > 0 {
            return Ok(());
        }
        match bytes.len() < PIECES_MIN {
            true => put_short(store, database, key, bytes, &[], until),
            false => put_long(store, database, key, bytes, &[], (bytes.len(), until)),
        }
    });
    done.map_err(|error| raise(py, client, store, bytes.len(), error))
}

/// Restores the object in one entry of a `taken` list. The entry contains the object's key, bytes,
/// and expiry time.
pub(crate) fn put_again(py: Python<'_>, client: &Client, entry: &Bound<'_, PyAny>) -> PyResult<()> {
    let (key, whole, expires): (Bound<'_, PyBytes>, Bound<'_, PyAny>, u64) = entry.extract()?;
    again(py, client, key.as_bytes(), &whole, expires)
}

/// Restore the objects that an interrupted call removed, under their original keys.
///
/// Errors are reported as unraisable exceptions.
#[pyfunction]
fn give_back_objects(client: &Client, taken: &Bound<'_, PyList>) {
    for entry in taken.iter().rev() {
        if let Err(error) = put_again(taken.py(), client, &entry) {
            error.write_unraisable(taken.py(), Some(&entry));
        }
    }
}

/// Return the values with the given ids, in order, each read as by [`read_object`].
#[pyfunction]
#[pyo3(signature = (client, prefix, ids, kinds, writable, decode, taken=None))]
pub(crate) fn read_objects<'py>(
    client: &Client,
    prefix: &[u8],
    ids: &Bound<'py, PyAny>,
    kinds: Option<&[u8]>,
    writable: bool,
    decode: &Bound<'py, PyAny>,
    taken: Option<&Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyList>> {
    let values = PyList::empty(ids.py());
    let done = (ids.try_iter()?).try_for_each(|id| {
        let value = read_object(client, prefix, &id?, kinds, writable, decode, taken)?;
        values.append(value)
    });
    if let Err(error) = done {
        let py = ids.py();
        let is_told =
            error.is_instance_of::<PyKeyError>(py) || error.is_instance_of::<PyValueError>(py);
        if kinds.is_some() && is_told {
            // The values have already been removed from the store, so attach them to the exception.
            error.value(py).setattr("taken", values)?;
            if let Some(taken) = taken {
                taken.del_slice(0, taken.len())?;
            }
        }
        return Err(error);
    }
    Ok(values)
}

/// A pointer into the store's memory.
struct Place(*mut u8);

// SAFETY: the pointer is only passed to Python as the start of a buffer, and the store is mapped
// for all threads.
unsafe impl Send for Place {}
// SAFETY: the pointer is only passed to Python as the start of a buffer, and the store is mapped
// for all threads.
unsafe impl Sync for Place {}

/// A value in the store's memory whose bytes can be read in place. The memory remains valid until
/// this object is collected.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Block {
    start: Place,
    length: usize,
    shared: Arc<OpenStore>,
    /// Owns the value's memory; None after the memory is released.
    whole: GilCell<Option<StringInPlace>>,
}

impl Block {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the memory has this many bytes, lives as long as this object, and does not
        // change.
        unsafe { std::slice::from_raw_parts(self.start.0, self.length) }
    }
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        self.length
    }

    /// Export the bytes read-only.
    ///
    /// # Safety
    /// `view` must be a Python buffer structure to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (start, length) = (slf.get().start.0, slf.get().length);
        // SAFETY: the view refers to this object, and the block's memory lives as long as the
        // object and does not change.
        unsafe { fill_view(&slf, view, start, length, true, flags) }
    }

    /// Release a view, which requires no action.
    ///
    /// # Safety
    /// `view` must have been filled by `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {}
}

impl Drop for Block {
    fn drop(&mut self) {
        Python::attach(|py| {
            if let Some(whole) = self.whole.with(py, Option::take) {
                self.shared.store.let_go(whole);
            }
        });
    }
}

/// Store memory that becomes a value when it is sealed. The memory is freed if this object is
/// collected unsealed.
#[pyclass(frozen, module = "undercroft._native")]
pub(crate) struct Draft {
    key: SmallVec<[u8; 64]>,
    /// The offset of the id in the key.
    id: usize,
    /// The start of the memory that the program fills.
    start: Place,
    length: usize,
    shared: Arc<OpenStore>,
    state: GilCell<Filling>,
}

struct Filling {
    /// The memory, or None after sealing.
    memory: Option<SuspendedBlock>,
    /// The number of views of the memory.
    views: usize,
}

/// Reserve memory under a new id for a value, which consists of a head and `length` bytes that the
/// program fills.
#[pyfunction]
pub(crate) fn draft_object(
    py: Python<'_>,
    client: &Client,
    prefix: &[u8],
    head: &[u8],
    length: usize,
) -> PyResult<Draft> {
    let (key, id) = known::new_key(py, prefix);
    let first = padded(head.len());
    let whole = first.saturating_add(length);
    let mut start = head.to_vec();
    start.resize(first, 0);
    let (shared, memory) = client.again(py, || {
        let shared = client.shared(py)?;
        let store = &shared.store;
        let staged = store
            .check_memory_for(whole)
            .and_then(|()| store.stage_room(&store.key(&key), whole as u64));
        let mut staged = staged.map_err(|error| raise(py, client, store, whole, error))?;
        staged.fill(0, &start);
        let memory = staged.put_down();
        Ok((shared, memory))
    })?;
    let start = Place(shared.store.place_of_staged(&memory).wrapping_add(first));
    Ok(Draft {
        key,
        id,
        start,
        length,
        state: GilCell::new(Filling {
            memory: Some(memory),
            views: 0,
        }),
        shared,
    })
}

#[pymethods]
impl Draft {
    fn __len__(&self) -> usize {
        self.length
    }

    /// The id that the value will have.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.key[self.id..])
    }

    /// Publish the value, so that other processes can read it and no process can change it.
    fn seal(&self, py: Python<'_>, client: &Client, expires: u64) -> PyResult<()> {
        let taken = self.state.with(py, |state| match state.views {
            0 => Ok(state.memory.take()),
            views => Err(views),
        });
        let memory = taken.map_err(|views| {
            PyBufferError::new_err(format!(
                "{views} arrays or views could still change the object: delete them before \
                 sealing it"
            ))
        })?;
        let Some(memory) = memory else {
            return Err(PyValueError::new_err("the object is already sealed"));
        };
        let store = &self.shared.store;
        if !store.is_own(&memory) {
            self.state.with(py, |state| state.memory = Some(memory));
            return Err(PyValueError::new_err(
                "only the process that created the draft can use it; create a new one after a fork",
            ));
        }
        let (key, length) = (store.key(&self.key), memory.length() as usize);
        let until = expiry(store, expires);
        let set = store.set_staged_until(client.database(py), &key, store.take_up(memory), until);
        set.map_err(|(error, staged)| {
            let memory = staged.put_down();
            self.state.with(py, |state| state.memory = Some(memory));
            raise(py, client, store, length, error)
        })
    }

    /// Export the bytes for writing.
    ///
    /// # Safety
    /// `view` must be a Python buffer structure to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let draft = slf.get();
        let lends = draft.state.with(slf.py(), |state| {
            state.views += usize::from(state.memory.is_some());
            state.memory.is_some()
        });
        if !lends {
            return Err(PyBufferError::new_err(
                "the object is sealed: get it to read it",
            ));
        }
        // SAFETY: the memory belongs to this process until it is sealed, and it cannot be sealed
        // while views exist.
        let filled = unsafe { fill_view(&slf, view, draft.start.0, draft.length, false, flags) };
        if filled.is_err() {
            draft.state.with(slf.py(), |state| state.views -= 1);
        }
        filled
    }

    /// Decrement the number of views.
    ///
    /// # Safety
    /// `view` must have been filled by `__getbuffer__`.
    unsafe fn __releasebuffer__(&self, py: Python<'_>, _view: *mut ffi::Py_buffer) {
        self.state.with(py, |state| state.views -= 1);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        Python::attach(|py| {
            if let Some(memory) = self.state.with(py, |state| state.memory.take()) {
                self.shared.store.give_up(memory);
            }
        });
    }
}

/// Fills a Python buffer structure for an object's bytes.
///
/// # Safety
/// `view` must be writable. `start` must be valid for `length` bytes for as long as `owner` lives.
unsafe fn fill_view<T>(
    owner: &Bound<'_, T>,
    view: *mut ffi::Py_buffer,
    start: *mut u8,
    length: usize,
    is_read_only: bool,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("expected a view to fill, got none"));
    }
    // SAFETY: the caller guarantees that the memory lives as long as `owner`, and the view holds a
    // reference to `owner`.
    let filled = unsafe {
        (*view).obj = ptr::null_mut();
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            start.cast(),
            length as ffi::Py_ssize_t,
            c_int::from(is_read_only),
            flags,
        )
    };
    match filled {
        0 => Ok(()),
        _ => Err(PyErr::fetch(owner.py())),
    }
}

/// Adds the classes and functions for objects to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Block>()?;
    module.add_class::<Draft>()?;
    module.add_function(wrap_pyfunction!(put_object, module)?)?;
    module.add_function(wrap_pyfunction!(put_objects, module)?)?;
    module.add_function(wrap_pyfunction!(read_object, module)?)?;
    module.add_function(wrap_pyfunction!(read_objects, module)?)?;
    module.add_function(wrap_pyfunction!(give_back_objects, module)?)?;
    module.add_function(wrap_pyfunction!(draft_object, module)?)
}
