"""Objects: arrays, bytes and messages that processes exchange without copying.

A value is stored under one key in the store. It consists of a head, which describes it, and its
buffers, each of which starts at a multiple of 64 bytes. The head starts with eight bytes: three
that identify an object, one for its kind, and four for the length of the description that follows.

The kinds are bytes, an array, a tree of plain values, the kinds of `object_kinds`, and a pickle. A
pickle is read only if pickles are enabled.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import os
import struct
import sys
from contextlib import suppress
from math import prod
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from undercroft._native import (
    Block,
    Client,
    array_heads,
    array_shapes,
    begin_ids,
    draft_object,
    give_back_objects,
    know_arrays,
    put_object,
    put_objects,
    read_object,
    read_objects,
)
from undercroft.extensions.object_kinds import KINDS, LIBRARIES, describe, restore
from undercroft.extensions.object_waits import wait_in_place
from undercroft.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

    Whole = bytes | bytearray | Block

__all__ = ["ObjectDraft", "Objects", "PickleRefused"]

_MAGIC = b"\xc1UO"
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


def _renew_ids() -> None:
    """Start a new range of ids, distinct from those of other processes and of the parent."""
    begin_ids(token_urlsafe(9).encode())


_renew_ids()
os.register_at_fork(after_in_child=_renew_ids)


def _padded(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def _head(kind: bytes, description: bytes) -> bytes:
    return _START.pack(_MAGIC + kind, len(description)) + description


_BYTES_HEAD = _head(_BYTES, b"")


def _numpy() -> Any:
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


def _readable(pickles: bool) -> bytes:
    """Return the kinds that can be read because their libraries are installed."""
    kinds = _BYTES + _ARRAY + _TREE + KINDS + (_PICKLE if pickles else b"")
    for library, needing in {"numpy": _ARRAY, "msgpack": _TREE, **LIBRARIES}.items():
        if importlib.util.find_spec(library) is None:
            kinds = kinds.translate(None, needing)
    return kinds


@functools.lru_cache(_KNOWN_MAX)
def _describe(dtype: Any, shape: tuple[int, ...]) -> bytes:
    """Return the description of an array's type and shape."""
    numpy = _numpy()
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
    numpy = _numpy()
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


def _array_head(dtype: Any, shape: tuple[int, ...]) -> bytes:
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
        array = _numpy().ascontiguousarray(array)
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


def _encode(value: Any, *, pickles: bool) -> tuple[bytes, tuple[Any, ...]]:
    """Return a value's head and buffers."""
    kind = type(value)
    if kind in (bytes, bytearray, memoryview):
        return _BYTES_HEAD, (_bytes_of(value),)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray and not (pickles and value.dtype.hasobject):
        return _array_head(value.dtype, value.shape), (_lendable(value),)
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


def _decode(whole: Whole, writable: bool, *, pickles: bool) -> Any:
    """Return the stored value, whose buffers are views of the stored bytes."""
    if writable:
        whole = bytearray(whole)
    view = whole if type(whole) is bytes else memoryview(whole)
    start = bytes(view[:8])
    if len(start) < 8 or start[:3] != _MAGIC:
        raise ValueError(f"expected an object, got a value that begins with {start!r}")
    kind, end = start[3:4], 8 + int.from_bytes(start[4:], "little")
    if kind == _ARRAY:
        head = bytes(view[: min(end, 9 + _DESCRIPTION_MAX)])
        known = array_shapes.get(head)
        if known is None:
            shape, dtype = _parse(head[8:])
            first = _padded(end)
            if len(array_shapes) >= _KNOWN_MAX:
                array_shapes.clear()
            known = (shape, dtype, first, first + prod(shape) * dtype.itemsize)
            array_shapes[head] = known
        return _array(whole, *known[:3])
    view = memoryview(whole)
    if kind == _BYTES:
        return view[_padded(end) :]
    if kind in KINDS:
        return restore(kind, bytes(view[8:end]), view[_padded(end) :])
    if kind not in (_TREE, _PICKLE):
        raise ValueError(f"expected an object of a known kind, got {start!r}")
    if kind == _PICKLE and not pickles:
        raise _refusal()
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
            place = _padded(place)
            places.append((place, length))
            place += length
    if not behind <= end <= place <= len(view):
        raise ValueError(f"expected an object with {count} buffers, got one of {len(view)} bytes")
    return view[behind:end], places


def _refusal() -> PickleRefused:
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
    numpy = sys.modules.get("numpy") or _numpy()
    if not prod(shape) or not dtype.itemsize:
        return numpy.empty(shape, dtype)
    try:
        return numpy.ndarray(shape, dtype, whole, start)
    except TypeError as error:
        raise ValueError(
            f"expected an array of shape {shape} and type {dtype}, got {len(whole)} bytes"
        ) from error


def is_remote(store: Any) -> bool:
    """Return whether a URL or client refers to a server rather than a store in shared memory."""
    if isinstance(store, str):
        scheme, colon, _ = store.partition("://")
        return bool(colon) and scheme != "undercroft" and "/" not in scheme
    return hasattr(store, "connection_pool") and not isinstance(store, Client)


def _milliseconds(ttl: float | timedelta | None) -> int:
    if ttl is None:
        return 0
    seconds = ttl if isinstance(ttl, (int, float)) else ttl.total_seconds()
    if not 0 < seconds < 2**53:
        raise ValueError(f"expected a time to live of more than 0 seconds, got {ttl!r}")
    return max(1, round(seconds * 1000))


class ObjectDraft:
    """An object that is filled in place and becomes visible when :meth:`seal` is called.

    Its memory is freed if the draft is garbage collected unsealed, or if its process dies.
    """

    def __init__(
        self,
        objects: Objects,
        id: bytes,
        draft: Any,
        expires: int,
        shape: tuple[Any, tuple[int, ...]] | None,
    ) -> None:
        """Wrap a draft that :meth:`Objects.create` or :meth:`Objects.create_bytes` returns."""
        self._objects, self._id, self._draft = objects, id, draft
        self._expires, self._shape = expires, shape

    @property
    def id(self) -> bytes:
        """The object's id, which :meth:`Objects.wait` accepts even before the object is sealed."""
        return self._id

    @property
    def array(self) -> Any:
        """The array to fill. No references to it may remain when the object is sealed."""
        if self._shape is None:
            raise TypeError(
                "expected a draft of an array, got one of bytes; fill its buffer instead"
            )
        dtype, shape = self._shape
        numpy = _numpy()
        if not prod(shape) or not dtype.itemsize:
            return numpy.empty(shape, dtype)
        return numpy.frombuffer(self._lent(), dtype, prod(shape)).reshape(shape)

    @property
    def buffer(self) -> memoryview:
        """The view to fill. It must be released or unreferenced when the object is sealed."""
        return memoryview(self._lent())

    def _lent(self) -> Any:
        return self._draft

    def seal(self) -> bytes:
        """Publish the object to other clients and return its id. O(1), regardless of its size.

        Raises ``BufferError`` while an array or view could still change the object.
        """
        self._draft.seal(self._objects._client, self._expires)
        self._objects._announce(self._id)
        return self._id


class Objects:
    """Objects in a store in shared memory, or on a server, which receives and sends copies.

    :class:`undercroft.Store` describes ``store``, ``db`` and further options. With ``redis://``,
    ``rediss://``, ``unix://`` or ``redis+sentinel://`` the options are redis-py's.

    ``ttl`` is the number of seconds after which an object expires if it is not taken, unless
    :meth:`put` specifies another ``ttl``. With None, objects never expire. With ``pickle=True``,
    values that are neither bytes, arrays nor trees of plain values are pickled, and pickles can be
    read. Without it, :class:`Objects` rejects such values and pickles.

    One object can be used by several threads, and after a fork.
    """

    _client: Any
    _is_embedded = True

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Create objects of the class that suits the URL or client."""
        if cls._is_embedded and is_remote(args[0] if args else options.get("store")):
            from undercroft.base import merged
            from undercroft.servers.objects import RemoteObjects

            made: Self = super().__new__(merged(cls, Objects, RemoteObjects))
            return made
        return super().__new__(cls)

    def __init__(
        self,
        store: str | os.PathLike[str] | Client | None = None,
        *,
        ttl: float | timedelta | None = None,
        pickle: bool = False,
        prefix: str = "object:",
        **options: Any,
    ) -> None:
        """Open the store, creating it if needed. The keys of its objects start with ``prefix``."""
        self._client = self._opened(store, options)
        self._expires = _milliseconds(ttl)
        self._encode = functools.partial(_encode, pickles=pickle)
        self._decode = functools.partial(_decode, pickles=pickle)
        self._kinds = _readable(pickle)
        self._prefix = prefix.encode()

    def _opened(self, store: Any, options: dict[str, Any]) -> Any:
        """Return the client for a store."""
        if not isinstance(store, Client):
            return Store(**options) if store is None else Store(store, **options)
        if options:
            raise TypeError("expected no options together with an existing client")
        return store

    def put(
        self, value: Any, *, ttl: float | timedelta | None = None, id: bytes | None = None
    ) -> bytes:
        """Store a value and return its id of about 15 bytes. O(bytes): buffers are copied once.

        With ``id`` the caller chooses the id, so that other processes can :meth:`wait` for it. An
        existing object with that id is replaced. Raises ``MemoryError`` if the store is full, and
        ``TypeError`` for a value that cannot be stored.
        """
        expires = self._expires if ttl is None else _milliseconds(ttl)
        if id is None:
            return put_object(self._client, self._prefix, value, expires, self._encode)
        put_object(self._client, self._prefix, value, expires, self._encode, id)
        self._announce(id)
        return id

    def put_many(
        self, values: Iterable[Any], *, ttl: float | timedelta | None = None
    ) -> list[bytes]:
        """Store several values and return their ids. If any value cannot be stored, none are."""
        expires = self._expires if ttl is None else _milliseconds(ttl)
        return put_objects(self._client, self._prefix, values, expires, self._encode)

    def create(
        self, shape: int | tuple[int, ...], dtype: Any = "float64", *, ttl: float | None = None
    ) -> ObjectDraft:
        """Create an array to fill in place; its items are arbitrary until then."""
        kind = _numpy().dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(length < 0 for length in shape):
            raise ValueError(f"expected lengths of at least 0, got shape {shape}")
        return self._draft(
            _array_head(kind, shape), prod(shape) * kind.itemsize, ttl, (kind, shape)
        )

    def create_bytes(self, length: int, *, ttl: float | None = None) -> ObjectDraft:
        """Create a byte object to fill in place; its bytes are arbitrary until then."""
        if length < 0:
            raise ValueError(f"expected a length of at least 0, got {length}")
        return self._draft(_BYTES_HEAD, length, ttl, None)

    def _draft(
        self, head: bytes, length: int, ttl: float | None, shape: tuple[Any, tuple[int, ...]] | None
    ) -> ObjectDraft:
        expires = self._expires if ttl is None else _milliseconds(ttl)
        draft = draft_object(self._client, self._prefix, head, length)
        return ObjectDraft(self, draft.id, draft, expires, shape)

    def get(self, id: bytes, *, writable: bool = False) -> Any:
        """Return the value with the given id.

        Arrays are returned as read-only views of the store, and bytes as a ``memoryview``. With
        ``writable`` they are copies. The memory of a view stays valid until the view is garbage
        collected, even if the object is deleted or this client is closed.

        Raises ``KeyError`` if the object does not exist, and :class:`PickleRefused` for a pickle if
        pickles are not enabled.
        """
        return read_object(self._client, self._prefix, id, None, writable, self._decode)

    def get_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return the values with the given ids."""
        return read_objects(self._client, self._prefix, ids, None, writable, self._decode)

    def take(self, id: bytes, *, writable: bool = False) -> Any:
        """Return the value with the given id and delete it. O(1) from 32 KiB on.

        If several callers take the same object, only one of them receives it. Raises the errors of
        :meth:`get`. After a rejected pickle, or if the library for the object's kind is missing,
        the object still exists. An object that cannot be read for another reason is deleted, and
        the error's ``unread`` list contains its bytes.
        """
        taken: list[Any] = []
        try:
            return read_object(
                self._client, self._prefix, id, self._kinds, writable, self._decode, taken
            )
        except BaseException:
            give_back_objects(self._client, taken)
            raise

    def _take(self, taken: list[Any], id: bytes) -> Any:
        """Take a value, recording it in ``taken`` so that the caller can undo the call."""
        return read_object(self._client, self._prefix, id, self._kinds, False, self._decode, taken)

    def _put(self, value: Any, id: bytes, ttl: float) -> None:
        """Store a value under an id without waking waiters."""
        put_object(self._client, self._prefix, value, _milliseconds(ttl), self._encode, id)

    def take_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return the values with the given ids, deleting them one by one.

        If an object does not exist or cannot be read, the error's ``taken`` list contains the
        values that were already removed. Its ``unread`` list contains the bytes of a removed object
        that could not be read.
        """
        taken: list[Any] = []
        try:
            return read_objects(
                self._client, self._prefix, ids, self._kinds, writable, self._decode, taken
            )
        except BaseException:
            give_back_objects(self._client, taken)
            raise

    def wait(
        self, ids: Iterable[bytes], timeout: float | None = None, count: int | None = None
    ) -> tuple[list[bytes], list[bytes]]:
        """Wait until objects exist; return the ids of existing objects and of missing objects.

        Waits for ``count`` of the objects, or for all of them, but at most ``timeout`` seconds.
        :meth:`ObjectDraft.seal`, and :meth:`put` with an id, wake the caller. Each id is returned
        once, in the given order. Another process may take an object before the caller reads it.
        """
        return wait_in_place(self, ids, timeout, count)

    def delete(self, *ids: bytes) -> int:
        """Delete objects and return how many existed. Existing views of them remain valid."""
        return self._client.delete(*map(self._key, ids)) if ids else 0

    def contains(self, id: bytes) -> bool:
        """Return whether an object with the given id exists."""
        return bool(self._client.exists(self._key(id)))

    __contains__ = contains

    def close(self) -> None:
        """Close the store. Existing views of its objects remain valid."""
        self._client.close()

    def __enter__(self) -> Self:
        """Return these objects."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    def _announce(self, id: bytes) -> None:
        """Wake the waiters for an object that now exists."""
        # Ignore errors: the object is stored, and waiters that miss the message poll.
        with suppress(Exception):
            self._client._execute(("PUBLISH", self._prefix + id, b""), {})

    def _key(self, id: bytes) -> bytes:
        if not isinstance(id, bytes):
            raise TypeError(f"expected an object id of type bytes, got {type(id).__name__}")
        return self._prefix + id
