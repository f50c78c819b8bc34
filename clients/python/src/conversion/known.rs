//! What `undercroft.Objects` knows of bytes and arrays, so that those need none of Python's code: the heads of arrays by
//! type and shape, what heads say, and ids. `undercroft.objects` fills in what is new.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};
use smallvec::SmallVec;

use crate::threads::gil_cell::GilCell;

/// Begins every object; the byte behind it says of which kind it is.
const MAGIC: [u8; 3] = *b"\xc1UO";
/// The head of bytes: they have no description.
pub(crate) const BYTES_HEAD: [u8; 8] = *b"\xc1UOb\0\0\0\0";
/// Longer heads are not looked up.
const HEAD_MAX: usize = 1024;

/// numpy's class of arrays, once somebody had to do with one.
static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
/// By type and shape of an array: its head.
static HEADS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// By the head of an array: its shape, its type, where its items begin, and where they end.
static SHAPES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
static IDS: PyOnceLock<GilCell<Ids>> = PyOnceLock::new();

/// Ids that no other process makes, nor a child that is forked.
#[derive(Default)]
struct Ids {
    start: Vec<u8>,
    next: u64,
}

/// A new id behind a prefix: the key of an object. Returns where the id begins, too.
pub(crate) fn new_key(py: Python<'_>, prefix: &[u8]) -> (SmallVec<[u8; 64]>, usize) {
    let mut key = SmallVec::from_slice(prefix);
    let ids = IDS.get_or_init(py, || GilCell::new(Ids::default()));
    let number = ids.with(py, |ids| {
        key.extend_from_slice(&ids.start);
        ids.next += 1;
        ids.next - 1
    });
    let mut digits: SmallVec<[u8; 16]> = SmallVec::new();
    let mut rest = number;
    while digits.is_empty() || rest > 0 {
        digits.push(b"0123456789abcdef"[(rest & 15) as usize]);
        rest >>= 4;
    }
    key.extend(digits.into_iter().rev());
    (key, prefix.len())
}

/// Return a new id.
#[pyfunction]
fn new_id(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &new_key(py, b"").0)
}

/// From now on ids begin so: nobody else's do. Called in a forked child again.
#[pyfunction]
fn begin_ids(py: Python<'_>, start: Vec<u8>) {
    let ids = IDS.get_or_init(py, || GilCell::new(Ids::default()));
    ids.with(py, |ids| *ids = Ids { start, next: 0 });
}

/// From now on what is of this class is taken for numpy's arrays.
#[pyfunction]
fn know_arrays(class: &Bound<'_, PyType>) {
    let _ = NDARRAY.set(class.py(), class.clone().unbind());
}

/// The head of an array, where one of its type and shape was met before. None for what is no array, too.
pub(crate) fn head_of_array<'py>(
    value: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = value.py();
    let Some(class) = NDARRAY.get(py) else {
        return Ok(None);
    };
    if value.get_type_ptr() != class.as_ptr().cast() {
        return Ok(None);
    }
    let Some(heads) = HEADS.get(py) else {
        return Ok(None);
    };
    let dtype = value.getattr(intern!(py, "dtype"))?;
    let shape = value.getattr(intern!(py, "shape"))?;
    let head = heads.bind(py).get_item((dtype, shape))?;
    Ok(head.map(|head| head.cast_into()).transpose()?)
}

/// The array that stored bytes are, as a read-only view of `owner`, which lends them. None where they are no array, or
/// one of a type and shape that was not met before, or one that is damaged.
pub(crate) fn array_of<'py>(
    py: Python<'py>,
    bytes: &[u8],
    owner: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some((start, _)) = bytes.split_first_chunk::<8>() else {
        return Ok(None);
    };
    let description = u32::from_le_bytes([start[4], start[5], start[6], start[7]]);
    let head = bytes.get(..8 + description as usize);
    let (Some(head), Some(shapes)) = (head, SHAPES.get(py)) else {
        return Ok(None);
    };
    if start[..3] != MAGIC || start[3] != b'a' || head.len() > HEAD_MAX {
        return Ok(None);
    }
    let Some(known) = shapes.bind(py).get_item(PyBytes::new(py, head))? else {
        return Ok(None);
    };
    let known = known.cast_into::<PyTuple>()?;
    let (first, end): (usize, usize) =
        (known.get_item(2)?.extract()?, known.get_item(3)?.extract()?);
    // An array without items has no buffer.
    if end == first || end > bytes.len() {
        return Ok(None);
    }
    let Some(class) = NDARRAY.get(py) else {
        return Ok(None);
    };
    let (shape, dtype) = (known.get_item(0)?, known.get_item(1)?);
    let array = class
        .bind(py)
        .call1((shape, dtype, owner, known.get_item(2)?))?;
    Ok(Some(array))
}

/// The whole of a value's bytes, where it is one of Python's classes of bytes: what is stored of it is what it lends.
pub(crate) fn is_bytes(value: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the thread is attached, and the object lives.
    unsafe {
        ffi::PyBytes_CheckExact(value.as_ptr()) != 0
            || value.get_type_ptr() == &raw mut ffi::PyByteArray_Type
    }
}

/// Adds all that to the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let heads = HEADS.get_or_init(py, || PyDict::new(py).unbind());
    module.add("array_heads", heads.clone_ref(py))?;
    let shapes = SHAPES.get_or_init(py, || PyDict::new(py).unbind());
    module.add("array_shapes", shapes.clone_ref(py))?;
    module.add_function(wrap_pyfunction!(begin_ids, module)?)?;
    module.add_function(wrap_pyfunction!(new_id, module)?)?;
    module.add_function(wrap_pyfunction!(know_arrays, module)?)
}
