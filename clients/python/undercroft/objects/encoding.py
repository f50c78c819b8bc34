"""The format of an object, and its conversion from and to Python's values.

A value is stored under one key in the store. It consists of a head, which describes it, and its
buffers, each of which starts at a multiple of 64 bytes. The head starts with eight bytes: three
that identify an object, one for its kind, and four for the length of the description that follows.

The kinds are bytes, an array, a tree of plain values, the kinds of `kinds`, and a pickle. A pickle
is read only if pickles are enabled.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import struct
import sys
from math import prod
from typing import TYPE_CHECKING, Any

from undercroft._native import Block, array_heads, array_shapes, know_arrays
from undercroft.objects.kinds import KINDS, LIBRARIES, describe, restore

if TYPE_CHECKING:
    from collections.abc import Iterable

    Whole = bytes | bytearray | Block

MAGIC = b"\xc1UO"
_BYTES, _ARRAY, _TREE, _PICKLE = b"b", b"a", b"m", b"p"
_ALIGNMENT = 64
_START = struct.Struct("<4sI")
# The msgpack extension codes in a tree: a buffer of bytes, a buffer of an array, a tuple.
_BYTES_CODE, _ARRAY_CODE, _TUPLE_CODE, _OTHER_CODE = 1, 2, 3, 4
# Types that a tree can contain.
_PLAIN = frozenset({dict, list, tuple, str, int, float, bool, type(None)})
# The maximum number of array shapes and types whose heads are cached.
_KNOWN_MAX = 1024
# The maximum length of an array's description, enough for a record type with a thousand fields.
_DESCRIPTION_MAX = 16 << 10


class PickleRefused(ValueError):  # noqa: N818
    """An object is a pickle, and the reader has not enabled pickles."""


def padded(length: int) -> int:
    """Return an offset, increased to the next multiple of the alignment."""
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _head(kind: bytes, description: bytes) -> bytes:
    return _START.pack(MAGIC + kind, len(description)) + description


BYTES_HEAD = _head(_BYTES, b"")


def numpy_module() -> Any:
    """Return numpy, or raise an error that says how to install it."""
    try:
        import numpy
    except ImportError as error:
        raise ImportError(
            "arrays in objects need numpy, which is not installed: pip install numpy"
        ) from error
    know_arrays(numpy.ndarray)
    return numpy


def _msgpack() -> Any:
    try:
        return importlib.import_module("msgpack")
    except ImportError as error:
        raise ImportError(
            "objects that are dicts, lists, tuples or plain values need msgpack: pip install "
            "undercroft[objects]"
        ) from error


def readable(pickles: bool) -> bytes:
    """Return the kinds that can be read because their libraries are installed."""
    kinds = _BYTES + _ARRAY + _TREE + KINDS + (_PICKLE if pickles else b"")
    for library, needing in {"numpy": _ARRAY, "msgpack": _TREE, **LIBRARIES}.items():
        if importlib.util.find_spec(library) is None:
            kinds = kinds.translate(None, needing)
    return kinds


@functools.lru_cache(_KNOWN_MAX)
def _describe(dtype: Any, shape: tuple[int, ...]) -> bytes:
    """Return the description of an array's type and shape."""
    numpy = numpy_module()
    if dtype.hasobject:
        raise TypeError(
            f"expected an array of numbers or of bytes, got one of Python objects ({dtype})"
        )
    described = numpy.lib.format.dtype_to_descr(dtype)
    if numpy.lib.format.descr_to_dtype(described) != dtype:
        raise TypeError(f"expected an array of a built-in numpy type, got {dtype}")
    text = repr((described, shape)).encode()
    if len(text) > _DESCRIPTION_MAX:
        raise TypeError(
            f"expected a type whose description has at most {_DESCRIPTION_MAX} bytes, got "
            f"{len(text)}"
        )
    return text


@functools.lru_cache(_KNOWN_MAX)
def _parse(description: bytes) -> tuple[tuple[int, ...], Any]:
    """Return the shape and type that a description contains."""
    numpy = numpy_module()
    try:
        if len(description) > _DESCRIPTION_MAX:
            raise ValueError(f"{len(description)} bytes are too many")
        described, shape = ast.literal_eval(description.decode())
        dtype = numpy.lib.format.descr_to_dtype(described)
        return tuple(shape), dtype
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(
            f"expected the type and shape of an array, got {description[:80]!r}"
        ) from error


def array_head(dtype: Any, shape: tuple[int, ...]) -> bytes:
    """Return the head of an array, which is cached. O(1) for a known type and shape."""
    known = array_heads.get((dtype, shape))
    if known is None:
        known = _head(_ARRAY, _describe(dtype, shape))
        if len(array_heads) >= _KNOWN_MAX:
            array_heads.clear()
        array_heads[dtype, shape] = known
    return known


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _lendable(array: Any) -> Any:
    """Return an object whose buffer contains an array's items in C order."""
    if not array.flags.c_contiguous:
        array = numpy_module().ascontiguousarray(array)
    # View the items as bytes, because Python's buffer protocol supports neither times nor records.
    return array if array.dtype.kind in "biufc" else array.reshape(-1).view("u1")


def _bytes_of(value: Any) -> Any:
    if type(value) is memoryview and not value.c_contiguous:
        raise ValueError(
            "expected contiguous bytes, got a memoryview with strides; copy it with bytes()"
        )
    return value


class _Tree:
    """A value encoded by msgpack, with its buffers kept separate."""

    def __init__(self) -> None:
        self.msgpack = _msgpack()
        self.buffers: list[Any] = []
        self.lengths: list[int] = []

    def pack(self, value: Any) -> bytes:
        try:
            packed: bytes = self.msgpack.packb(self.walk(value))
        except OverflowError as error:
            raise ValueError("integer is outside -2**63 to 2**64 - 1; store it as str") from error
        except (RecursionError, ValueError) as error:
            if isinstance(error, RecursionError) or "recursion" in str(error):
                raise ValueError(
                    "value is nested too deeply; flatten it or store it as bytes"
                ) from None
            raise
        return packed

    def walk(self, value: Any) -> Any:
        kind = type(value)
        if kind in (str, int, float, bool, type(None)):
            return value
        if kind is dict:
            return {self.key(key): self.walk(item) for key, item in value.items()}
        if kind is list:
            return [self.walk(item) for item in value]
        if kind is tuple:
            items = self.msgpack.packb([self.walk(item) for item in value])
            return self.msgpack.ExtType(_TUPLE_CODE, items)
        if kind in (bytes, bytearray, memoryview):
            number = self.add(_bytes_of(value), memoryview(value).nbytes)
            return self.msgpack.ExtType(_BYTES_CODE, self.msgpack.packb(number))
        if _is_array(value):
            number = self.add(_lendable(value), value.nbytes)
            described = self.msgpack.packb([number, _describe(value.dtype, value.shape)])
            return self.msgpack.ExtType(_ARRAY_CODE, described)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic):
            return self.walk(value.item())
        other = describe(value)
        if other is not None:
            number = self.add(other.buffer, other.length)
            described = self.msgpack.packb([number, other.kind, other.description])
            return self.msgpack.ExtType(_OTHER_CODE, described)
        raise TypeError(
            "expected bytes, an array, a dict, list or tuple of these, or a plain value "
            f"(str, int, float, bool, None), got {kind.__qualname__}"
        )

    def key(self, key: Any) -> Any:
        if type(key) in (str, int, float, bool, bytes, type(None)):
            return key
        raise TypeError(
            f"expected a key of a dict to be str, bytes or a number, got {type(key).__qualname__}"
        )

    def add(self, buffer: Any, length: int) -> int:
        self.buffers.append(buffer)
        self.lengths.append(length)
        return len(self.lengths) - 1


def _with_lengths(lengths: list[int], rest: bytes) -> bytes:
    return struct.pack(f"<I{len(lengths)}Q", len(lengths), *lengths) + rest


def encode(value: Any, *, pickles: bool) -> tuple[bytes, tuple[Any, ...]]:
    """Return a value's head and buffers."""
    kind = type(value)
    if kind in (bytes, bytearray, memoryview):
        return BYTES_HEAD, (_bytes_of(value),)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray and not (pickles and value.dtype.hasobject):
        return array_head(value.dtype, value.shape), (_lendable(value),)
    other = describe(value) if kind not in _PLAIN else None
    if other is not None:
        return _head(other.kind, other.description), (other.buffer,)
    tree = _Tree() if not pickles or "msgpack" in sys.modules else None
    try:
        if tree is not None:
            packed = tree.pack(value)
            return _head(_TREE, _with_lengths(tree.lengths, packed)), tuple(tree.buffers)
    except (TypeError, ValueError):
        if not pickles:
            raise
    return _pickle(value)


def _pickle(value: Any) -> tuple[bytes, tuple[Any, ...]]:
    import pickle

    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    raw = tuple(buffer.raw() for buffer in buffers)
    lengths = [view.nbytes for view in raw]
    return _head(_PICKLE, _with_lengths(lengths, pickled)), raw


def decode(whole: Whole, writable: bool, *, pickles: bool) -> Any:
    """Return the stored value, whose buffers are views of the stored bytes."""
    if writable:
        whole = bytearray(whole)
    view = whole if type(whole) is bytes else memoryview(whole)
    start = bytes(view[:8])
    if len(start) < 8 or start[:3] != MAGIC:
        raise ValueError(f"expected an object, got a value that begins with {start!r}")
    kind, end = start[3:4], 8 + int.from_bytes(start[4:], "little")
    if kind == _ARRAY:
        head = bytes(view[: min(end, 9 + _DESCRIPTION_MAX)])
        known = array_shapes.get(head)
        if known is None:
            shape, dtype = _parse(head[8:])
            first = padded(end)
            if len(array_shapes) >= _KNOWN_MAX:
                array_shapes.clear()
            known = (shape, dtype, first, first + prod(shape) * dtype.itemsize)
            array_shapes[head] = known
        return _array(whole, *known[:3])
    view = memoryview(whole)
    if kind == _BYTES:
        return view[padded(end) :]
    if kind in KINDS:
        return restore(kind, bytes(view[8:end]), view[padded(end) :])
    if kind not in (_TREE, _PICKLE):
        raise ValueError(f"expected an object of a known kind, got {start!r}")
    if kind == _PICKLE and not pickles:
        raise refusal()
    if kind == _TREE:
        _msgpack()
    body, places = _parts(view, end)
    if kind == _PICKLE:
        import pickle

        return pickle.loads(body, buffers=[view[at : at + size] for at, size in places])
    return _unpack(whole, view, body, places)


def _parts(view: memoryview, end: int) -> tuple[memoryview, list[tuple[int, int]]]:
    """Return the msgpack or pickle bytes, and the offset and length of each buffer."""
    count = int.from_bytes(view[8:12], "little")
    behind = 12 + 8 * count
    place, places = end, []
    if behind <= end <= len(view):
        for (length,) in struct.iter_unpack("<Q", view[12:behind]):
            place = padded(place)
            places.append((place, length))
            place += length
    if not behind <= end <= place <= len(view):
        raise ValueError(f"expected an object with {count} buffers, got one of {len(view)} bytes")
    return view[behind:end], places


def refusal() -> PickleRefused:
    """Return the error for a pickle if pickles are not enabled."""
    return PickleRefused(
        "the object is a pickle, which can run arbitrary code when loaded; if you trust every "
        "writer of this store, read it with Objects(..., pickle=True)"
    )


def _unpack(whole: Whole, view: memoryview, body: memoryview, places: list[tuple[int, int]]) -> Any:
    msgpack = _msgpack()

    def extension(code: int, data: bytes) -> Any:
        if code == _TUPLE_CODE:
            return tuple(load(data))
        if code == _BYTES_CODE:
            at, size = places[load(data)]
            return view[at : at + size]
        if code == _ARRAY_CODE:
            number, description = load(data)
            return _array(whole, *_parse(description), places[number][0])
        if code == _OTHER_CODE:
            number, kind, description = load(data)
            at, size = places[number]
            return restore(kind, description, view[at : at + size])
        raise ValueError(
            f"expected an object of this version, got extension {code}, which a newer version "
            "wrote; upgrade undercroft"
        )

    def load(data: Any) -> Any:
        return msgpack.unpackb(data, ext_hook=extension, strict_map_key=False)

    return load(body)


def _array(whole: Whole, shape: tuple[int, ...], dtype: Any, start: int) -> Any:
    numpy = sys.modules.get("numpy") or numpy_module()
    if not prod(shape) or not dtype.itemsize:
        return numpy.empty(shape, dtype)
    try:
        return numpy.ndarray(shape, dtype, whole, start)
    except TypeError as error:
        raise ValueError(
            f"expected an array of shape {shape} and type {dtype}, got {len(whole)} bytes"
        ) from error


def joined(head: bytes, buffers: Iterable[Any]) -> bytes:
    """Return a head and its padded buffers as one byte string."""
    parts: list[Any] = [head]
    end = len(head)
    for buffer in buffers:
        start = padded(end)
        parts += (bytes(start - end), buffer)
        end = start + memoryview(buffer).nbytes
    return b"".join(parts)
