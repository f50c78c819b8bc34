//! Allows `undercroft.Objects` to store bytes and arrays without running Python code. Contains
//! tables of array heads by type and shape, tables of the descriptions in those heads, and a
//! generator of ids. `undercroft.objects.embedded` adds new table entries.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple, PyType};
use smallvec::SmallVec;

use crate::threads::gil_cell::GilCell;

/// The first bytes of every object. The next byte is its kind.
const MAGIC: [u8; 3] = *b"\xc1UO";
/// The head of a bytes object, which has no description.
pub(crate) const BYTES_HEAD: [u8; 8] = *b"\xc1UOb\0\0\0\0";
/// The maximum length in bytes of a head that is looked up.
const HEAD_MAX: usize = 1024;

/// NumPy's array class, set when the first array is stored or read.
static NDARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
/// Maps an array's type and shape to its head.
static HEADS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// Maps an array's head to its shape, its type, and the start and end offsets of its data.
static SHAPES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
static IDS: PyOnceLock<GilCell<Ids>> = PyOnceLock::new();

/// A generator of ids that are unique across processes, including forked children.
#[derive(Default)]
struct Ids {
    start: Vec<u8>,
    next: u64,
}

/// Returns an object's key, which consists of the prefix and a new id, together with the offset of
/// the id.
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

/// Set the prefix of ids, which must be unique to this process.
///
/// A forked child must call this function again.
#[pyfunction]
fn begin_ids(py: Python<'_>, start: Vec<u8>) {
    let ids = IDS.get_or_init(py, || GilCell::new(Ids::default()));
    ids.with(py, |ids| *ids = Ids { start, next: 0 });
}

/// Register NumPy's array class.
#[pyfunction]
fn know_arrays(class: &Bound<'_, PyType>) {
    let _ = NDARRAY.set(class.py(), class.clone().unbind());
}

/// Returns the head of an array, or None if the value is not an array or its type and shape are
/// unknown.
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

/// Returns the stored array as a read-only view of `owner`, which provides the bytes. Returns None
/// if the bytes are not an array, are damaged, or have an unknown type and shape.
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

/// Whether a value is exactly a `bytes` or a `bytearray` object, whose buffer is stored unchanged.
pub(crate) fn is_bytes(value: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the thread is attached, and the reference keeps the object alive.
    unsafe {
        ffi::PyBytes_CheckExact(value.as_ptr()) != 0
            || value.get_type_ptr() == &raw mut ffi::PyByteArray_Type
    }
}

/// Adds the tables of array heads and the functions for ids to the module.
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
