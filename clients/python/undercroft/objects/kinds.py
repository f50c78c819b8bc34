"""Value types in objects other than bytes and NumPy arrays: tensors, Arrow data, number arrays.

A value is stored as a short description and one buffer, and is read as a view of the store. A
library is imported only for its own values.
"""

from __future__ import annotations

import array
import ast
import ctypes
import functools
import importlib
import mmap
import struct
import sys
from math import prod
from typing import Any, NamedTuple

__all__ = ["KINDS", "LIBRARIES", "Described", "describe", "restore"]

# The letters that identify the types in an object's head.
NUMBERS, TENSOR, ARROW_BUFFER, ARROW_STREAM = b"v", b"t", b"w", b"s"
KINDS = NUMBERS + TENSOR + ARROW_BUFFER + ARROW_STREAM
# The libraries that reading values requires, with the letters of their types.
LIBRARIES = {"torch": TENSOR, "pyarrow": ARROW_BUFFER + ARROW_STREAM}
# The numeric format characters that memoryview supports.
_FORMATS = "bBhHiIlLqQfd?"
_DESCRIPTION_MAX = 16 << 10


class Described(NamedTuple):
    """The stored form of a value."""

    kind: bytes
    description: bytes
    buffer: Any
    length: int


def describe(value: Any) -> Described | None:
    """Return the stored form of a value, or None if its type is not supported here."""
    torch, arrow = sys.modules.get("torch"), sys.modules.get("pyarrow")
    if torch is not None and isinstance(value, torch.Tensor):
        return _tensor(torch, value)
    if arrow is not None:
        if isinstance(value, arrow.Buffer):
            return Described(ARROW_BUFFER, b"", value, value.size)
        if isinstance(value, (arrow.RecordBatch, arrow.Table)):
            stream = arrow.BufferOutputStream()
            with arrow.ipc.new_stream(stream, value.schema) as writer:
                writer.write(value)
            written = stream.getvalue()
            name = b"table" if isinstance(value, arrow.Table) else b"batch"
            return Described(ARROW_STREAM, name, written, written.size)
    if isinstance(value, (array.array, ctypes.Array, mmap.mmap)):
        return _numbers(memoryview(value))
    return None


def _numbers(view: memoryview) -> Described:
    letter = view.format.removeprefix("<" if sys.byteorder == "little" else ">")
    # The sizes of ctypes' format characters differ from memoryview's, so find a character of the
    # same size.
    same = [known for known in _FORMATS if struct.calcsize(known) == view.itemsize]
    if letter not in same:
        letter = next((each for each in same if each.isupper() == letter.isupper()), "")
    if not letter or view.format.lstrip("<>") not in tuple(_FORMATS) or not view.c_contiguous:
        raise TypeError(f"expected an array of numbers, got one of format {view.format!r}")
    return Described(NUMBERS, _said(letter, view.shape or ()), view, view.nbytes)


def _tensor(torch: Any, tensor: Any) -> Described:
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.is_quantized:
        raise TypeError(
            f"expected a dense tensor in CPU memory, got {tensor.device}, {tensor.layout}, "
            f"{tensor.dtype}"
        )
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    items = plain.reshape(-1).view(torch.uint8).numpy()
    name = str(tensor.dtype).removeprefix("torch.")
    return Described(TENSOR, _said(name, tuple(tensor.shape)), items, items.nbytes)


def _said(name: str, shape: tuple[int, ...]) -> bytes:
    return repr((name, shape)).encode()


@functools.lru_cache(1024)
def _parsed(description: bytes) -> tuple[str, tuple[int, ...]]:
    """Return the item type's name and the shape in a description."""
    try:
        if len(description) > _DESCRIPTION_MAX:
            raise ValueError(f"{len(description)} bytes are too many")
        name, shape = ast.literal_eval(description.decode())
        if not isinstance(name, str) or any(type(n) is not int or n < 0 for n in shape):
            raise ValueError("neither")
        return name, tuple(shape)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(
            f"expected the type and shape of a tensor, got {description[:80]!r}"
        ) from error


def restore(kind: bytes, description: bytes, view: memoryview) -> Any:
    """Return the value with the given stored form, as a view of the bytes."""
    if kind == NUMBERS:
        letter, shape = _parsed(description)
        if letter not in tuple(_FORMATS) or prod(shape) * struct.calcsize(letter) != len(view):
            raise _wrong(description, view)
        cast: Any = view.cast
        return cast(letter, shape) if 0 not in shape and len(shape) > 1 else cast(letter)
    if kind == TENSOR:
        return _restored_tensor(description, view)
    arrow = _library("pyarrow")
    buffer = arrow.py_buffer(view)
    if kind == ARROW_BUFFER:
        return buffer
    try:
        reader = arrow.ipc.open_stream(buffer)
        return reader.read_all() if description == b"table" else reader.read_next_batch()
    except (arrow.ArrowInvalid, StopIteration, OSError) as error:
        raise ValueError(f"expected an Arrow stream: {error}") from error


def _restored_tensor(description: bytes, view: memoryview) -> Any:
    torch = _library("torch")
    name, shape = _parsed(description)
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or prod(shape) * dtype.itemsize != len(view):
        raise _wrong(description, view)
    if not len(view):
        return torch.empty(shape, dtype=dtype)
    # torch warns about read-only memory because its tensors cannot be read-only. Pass a ctypes
    # array at the same address, which keeps the view alive.
    lent: Any = view
    if view.readonly:
        numpy = _library("numpy")
        place = numpy.frombuffer(view, "u1").__array_interface__["data"][0]
        lent = (ctypes.c_char * len(view)).from_address(place)
        lent.view = view
    tensor = torch.frombuffer(lent, dtype=torch.uint8).view(dtype)
    return tensor.reshape(shape)


def _wrong(description: bytes, view: memoryview) -> ValueError:
    return ValueError(
        f"expected the size that {description[:80]!r} describes, got {len(view)} bytes"
    )


def _library(name: str) -> Any:
    try:
        return sys.modules.get(name) or importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"reading this object needs {name}, which is not installed: pip install {name}"
        ) from error
