"""Objects: arrays, bytes and messages that processes exchange without copying."""

from __future__ import annotations

import functools
import os
from contextlib import suppress
from math import prod
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from undercroft._native import (
    Client,
    begin_ids,
    draft_object,
    give_back_objects,
    put_object,
    put_objects,
    read_object,
    read_objects,
)
from undercroft.embedded.store import Store
from undercroft.objects.encoding import (
    BYTES_HEAD,
    PickleRefused,
    array_head,
    decode,
    encode,
    numpy_module,
    readable,
)
from undercroft.objects.waits import wait_in_place

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

__all__ = ["ObjectDraft", "Objects", "PickleRefused"]


def _renew_ids() -> None:
    """Start a new range of ids, distinct from those of other processes and of the parent."""
    begin_ids(token_urlsafe(9).encode())


_renew_ids()
os.register_at_fork(after_in_child=_renew_ids)


def is_remote(store: Any) -> bool:
    """Return whether a URL or client refers to a server rather than a store in shared memory."""
    if isinstance(store, str):
        scheme, colon, _ = store.partition("://")
        return bool(colon) and scheme != "undercroft" and "/" not in scheme
    return hasattr(store, "connection_pool") and not isinstance(store, Client)


def milliseconds(ttl: float | timedelta | None) -> int:
    """Return a time to live in milliseconds; 0 means that an object never expires."""
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
        numpy = numpy_module()
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
            from undercroft.objects.remote import RemoteObjects

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
        self._expires = milliseconds(ttl)
        self._encode = functools.partial(encode, pickles=pickle)
        self._decode = functools.partial(decode, pickles=pickle)
        self._kinds = readable(pickle)
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
        expires = self._expires if ttl is None else milliseconds(ttl)
        if id is None:
            return put_object(self._client, self._prefix, value, expires, self._encode)
        put_object(self._client, self._prefix, value, expires, self._encode, id)
        self._announce(id)
        return id

    def put_many(
        self, values: Iterable[Any], *, ttl: float | timedelta | None = None
    ) -> list[bytes]:
        """Store several values and return their ids. If any value cannot be stored, none are."""
        expires = self._expires if ttl is None else milliseconds(ttl)
        return put_objects(self._client, self._prefix, values, expires, self._encode)

    def create(
        self, shape: int | tuple[int, ...], dtype: Any = "float64", *, ttl: float | None = None
    ) -> ObjectDraft:
        """Create an array to fill in place; its items are arbitrary until then."""
        kind = numpy_module().dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(length < 0 for length in shape):
            raise ValueError(f"expected lengths of at least 0, got shape {shape}")
        return self._draft(array_head(kind, shape), prod(shape) * kind.itemsize, ttl, (kind, shape))

    def create_bytes(self, length: int, *, ttl: float | None = None) -> ObjectDraft:
        """Create a byte object to fill in place; its bytes are arbitrary until then."""
        if length < 0:
            raise ValueError(f"expected a length of at least 0, got {length}")
        return self._draft(BYTES_HEAD, length, ttl, None)

    def _draft(
        self, head: bytes, length: int, ttl: float | None, shape: tuple[Any, tuple[int, ...]] | None
    ) -> ObjectDraft:
        expires = self._expires if ttl is None else milliseconds(ttl)
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
        put_object(self._client, self._prefix, value, milliseconds(ttl), self._encode, id)

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
