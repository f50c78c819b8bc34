"""Tests that tensors, Arrow values and arrays of numbers keep their type and are read in place."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from undercroft import Objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from test_objects import used_memory
else:
    from test_objects import used_memory


@pytest.fixture
def objects(path: str) -> Iterator[Objects]:
    with Objects(f"undercroft://{path}") as opened:
        yield opened


def both_ways(objects: Objects, value: Any) -> Iterator[Any]:
    """Yield a value as it is read: by itself, nested in other values, and as a copy."""
    yield objects.take(objects.put(value))
    yield objects.take(objects.put({"in": [value, b"beside"]}))["in"][0]
    yield objects.take(objects.put((value,)), writable=True)[0]
    yield objects.take(objects.put(value), writable=True)


@pytest.mark.parametrize("letter", "bBhHiIlLqQfd")
@pytest.mark.parametrize("count", [0, 1, 40_000])
def test_arrays_of_numbers_are_read_back(objects: Objects, letter: str, count: int) -> None:
    value = array.array(letter, [number % 100 for number in range(count)])
    for number, found in enumerate(both_ways(objects, value)):
        assert isinstance(found, memoryview)
        assert found.format == letter
        assert found.tolist() == value.tolist()
        assert found.readonly == (number < 2)


def test_arrays_of_ctypes_and_mapped_files(objects: Objects) -> None:
    value = (ctypes.c_long * 3 * 2)((1, 2, 3), (4, 5, 6))
    for found in both_ways(objects, value):
        assert found.tolist() == [[1, 2, 3], [4, 5, 6]]
    with mmap.mmap(-1, 4096) as mapped:
        mapped[:3] = b"abc"
        assert objects.take(objects.put(mapped)) == b"abc" + bytes(4093)
    for wrong in (array.array("u", "text"), (ctypes.c_char_p * 2)()):
        with pytest.raises(TypeError, match="array of numbers, got one of format"):
            objects.put(wrong)


def test_damaged_objects_raise_errors(objects: Objects) -> None:
    for number, value in enumerate(
        [
            b"\xc1UOv\x00\0\0\0",
            b"\xc1UOv\x0c\0\0\0('d', (99,))" + bytes(99),
            b"\xc1UOv\x0c\0\0\0('P', (1,)) " + bytes(60),
            b"\xc1UOv\x0b\0\0\0('d',(-1,))" + bytes(60),
            b"\xc1UOv\xff\xff\xff\xff((((((",
        ]
    ):
        objects._client.set(b"object:%d" % number, value)
        with pytest.raises(ValueError, match="expected"):
            objects.get(b"%d" % number)


@pytest.mark.filterwarnings("error")
def test_tensors_are_read_in_place(objects: Objects) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    names = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int64", "bool"]
    names += ["complex64", "float8_e4m3fn"]
    chance = torch.Generator().manual_seed(7)
    for name in names:
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        for shape in ((), (0, 3), (5,), (3, 4), (100, 300)):
            value = torch.randint(0, 2, shape, generator=chance).to(dtype)
            for found in both_ways(objects, value):
                assert type(found) is torch.Tensor
                assert found.dtype == dtype
                assert found.shape == value.shape
                assert (
                    torch.equal(found.view(torch.uint8), value.view(torch.uint8))
                    if shape
                    else (found.item() == value.item())
                )
    value = torch.arange(100_000.0).reshape(1000, 100)
    strided = value.t()[::3]
    assert torch.equal(objects.take(objects.put(strided)), strided)
    learned = torch.ones(5, requires_grad=True)
    assert not objects.take(objects.put(learned)).requires_grad
    flipped = torch.ones(3, dtype=torch.complex64).conj()
    assert torch.equal(objects.take(objects.put(flipped)), flipped)
    for wrong in (torch.ones(3, device="meta"), torch.eye(3).to_sparse()):
        with pytest.raises(TypeError, match="dense tensor"):
            objects.put(wrong)
    # The tensor's memory remains in the store as long as any tensor refers to it.
    taken = objects.take(objects.put(value))
    part = taken[5:]
    del taken
    gc.collect()
    held = used_memory(objects)
    assert torch.equal(part, value[5:])
    del part
    gc.collect()
    assert held - used_memory(objects) > value.nbytes
    copy = objects.get(objects.put(value), writable=True)
    copy += 1


def test_arrows_buffers_and_tables(objects: Objects) -> None:
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for length in (0, 5, 300_000):
        value = arrow.py_buffer(bytes(range(256)) * length)
        for found in both_ways(objects, value):
            assert isinstance(found, arrow.Buffer)
            assert found.equals(value)
    columns = {"number": list(range(50_000)), "text": ["a", None] * 25_000}
    table, batch = arrow.table(columns), arrow.record_batch(columns)
    for value in (table, batch, table.slice(5, 100), arrow.table({}), batch.slice(0, 0)):
        for found in both_ways(objects, value):
            assert type(found) is type(value)
            assert found.equals(value)
    column = objects.take(objects.put(table))["number"]
    gc.collect()
    held = used_memory(objects)
    assert column.to_pylist() == columns["number"]
    del column
    gc.collect()
    assert held - used_memory(objects) > 8 * 50_000
    objects._client.set("object:bad", b"\xc1UOs\x05\0\0\0table" + bytes(100))
    with pytest.raises(ValueError, match="Arrow stream"):
        objects.get(b"bad")


def test_objects_are_exchanged_by_dlpack(objects: Objects) -> None:
    """NumPy exports read-only arrays only to consumers that support DLPack 1."""
    put = np.arange(100_000.0)
    found = objects.get(objects.put(put))
    with pytest.raises(BufferError):
        found.__dlpack__()
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        again = np.from_dlpack(found)
        assert not again.flags.writeable
        assert again.ctypes.data == found.ctypes.data
    copy = objects.take(objects.put(put), writable=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.from_dlpack(copy).ctypes.data == copy.ctypes.data
