"""Objects for asyncio, in a store in this process or on a server.

Calls on a store are short and run in the event loop. Long values are copied in a thread, so that
the loop's other tasks can run.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from undercroft._native import Subscription
from undercroft.awaited import Awaited
from undercroft.embedded.async_retries import left, patiently, settled
from undercroft.objects.embedded import ObjectDraft, is_remote
from undercroft.objects.embedded import Objects as SyncObjects
from undercroft.objects.waits import LOOK_EMBEDDED, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta


__all__ = ["AsyncDraft", "Objects"]

# Values longer than this number of bytes are copied in a thread.
_LONG = 256 << 10


class _Silent(SyncObjects):
    """Objects in a store whose messages to waiters are published by the event loop."""

    _is_embedded = False

    def _announce(self, id: bytes) -> None:
        """Do nothing: the event loop publishes the message."""

    def announce(self, id: bytes) -> None:
        """Wake the waiters for an object that now exists."""
        self._client._execute(("PUBLISH", self._prefix + id, b""), {})


def _weight(value: Any) -> int:
    """Return the estimated number of bytes moved by copying a value."""
    kind = type(value)
    if kind in (bytes, bytearray):
        return len(value)
    if kind is dict:
        return sum(map(_weight, value.values()))
    if kind in (list, tuple):
        return sum(map(_weight, value))
    size = getattr(value, "nbytes", 0)
    return size if isinstance(size, int) else 0


class _Copying:
    """A value that a thread stores for a task. The task can be cancelled in the meantime."""

    def __init__(self, objects: SyncObjects, value: Any, ttl: Any, id: bytes | None) -> None:
        self._objects, self._value, self._ttl, self._id = objects, value, ttl, id
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._found: bytes | None = None

    def run(self) -> bytes:
        found = self._objects.put(self._value, ttl=self._ttl, id=self._id)
        with self._lock:
            self._found = found
            if self._is_abandoned:
                self._objects.delete(found)
        return found

    def abandon(self) -> None:
        """Delete the value once it is stored, because no caller received its id."""
        with self._lock:
            self._is_abandoned = True
            if self._found is not None:
                self._objects.delete(self._found)


class AsyncDraft:
    """An object that is filled in place, like :class:`undercroft.objects.embedded.ObjectDraft`."""

    def __init__(self, objects: Objects, draft: ObjectDraft) -> None:
        """Wrap a draft that :meth:`Objects.create` or :meth:`Objects.create_bytes` returns."""
        self._objects, self._draft = objects, draft

    @property
    def id(self) -> bytes:
        """The object's id, which :meth:`Objects.wait` accepts even before the object is sealed."""
        return self._draft.id

    @property
    def array(self) -> Any:
        """The array to fill. No references to it may remain when the object is sealed."""
        return self._draft.array

    @property
    def buffer(self) -> memoryview:
        """The view to fill. It must be released or unreferenced when the object is sealed."""
        return self._draft.buffer

    async def seal(self) -> bytes:
        """Publish the object to other clients and return its id."""
        return await self._objects._seal(self._draft)


class Objects(Awaited):
    """Objects in a store in shared memory or on a server, for asyncio.

    The class accepts the arguments of :class:`undercroft.Objects`, and its methods are coroutines.
    Only :meth:`create` and :meth:`create_bytes` are plain methods; the ``seal`` method of their
    drafts is a coroutine. To use an existing client, pass a :mod:`undercroft.asyncio` client for a
    server, or an :class:`undercroft.Store` that is used for nothing else.
    """

    _objects: Any

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Create objects of the class that suits the URL or client."""
        if cls is Objects and is_remote(args[0] if args else options.get("store")):
            from undercroft.objects.async_remote import RemoteObjects

            made: Any = super().__new__(RemoteObjects)
            return made  # type: ignore[no-any-return]
        return super().__new__(cls)

    def __init__(self, *args: Any, **options: Any) -> None:
        """Open the store, creating it if it does not exist."""
        # Create two clients. Calls in the loop use the first, which never waits for locks. Threads
        # use the second, which waits.
        self._objects = _Silent(*args, **options)
        self._objects._client._hurry(left)
        self._patient = _Silent(*args, **options)
        if self._patient._client is self._objects._client:
            raise TypeError("expected the URL or path of a store, got a client")

    async def put(
        self, value: Any, *, ttl: float | timedelta | None = None, id: bytes | None = None
    ) -> bytes:
        """Store a value and return its id, as :meth:`undercroft.Objects.put` does.

        If a task is cancelled while a thread copies the value, the stored object is deleted, unless
        the caller specified ``id``.
        """
        if _weight(value) < _LONG:
            found: bytes = await self._call(self._objects.put, value, ttl=ttl, id=id)
        else:
            found = await self._put_long(value, ttl, id)
        if id is not None:
            await self._announce(id)
        return found

    async def _put_long(self, value: Any, ttl: float | timedelta | None, id: bytes | None) -> bytes:
        copying = _Copying(self._patient, value, ttl, id)
        try:
            return await asyncio.to_thread(copying.run)
        except asyncio.CancelledError:
            if id is None:
                copying.abandon()
            raise

    async def put_many(
        self, values: Iterable[Any], *, ttl: float | timedelta | None = None
    ) -> list[bytes]:
        """Store several values and return their ids. If any value cannot be stored, none are."""
        ids: list[bytes] = []
        try:
            for value in values:
                ids.append(await self.put(value, ttl=ttl))
        except BaseException:
            self._patient.delete(*ids)
            raise
        return ids

    def create(
        self, shape: int | tuple[int, ...], dtype: Any = "float64", *, ttl: float | None = None
    ) -> AsyncDraft:
        """Create an array to fill in place; its items are arbitrary until then."""
        return AsyncDraft(self, self._objects.create(shape, dtype, ttl=ttl))

    def create_bytes(self, length: int, *, ttl: float | None = None) -> AsyncDraft:
        """Create a byte object to fill in place; its bytes are arbitrary until then."""
        return AsyncDraft(self, self._objects.create_bytes(length, ttl=ttl))

    async def _seal(self, draft: ObjectDraft) -> bytes:
        found: bytes = await self._call(draft.seal)
        await self._announce(found)
        return found

    async def get(self, id: bytes, *, writable: bool = False) -> Any:
        """Return the value with the given id, as :meth:`undercroft.Objects.get` does."""
        if (
            writable
            and await self._call(self._objects._client.strlen, self._objects._key(id)) > _LONG
        ):
            return await asyncio.to_thread(self._patient.get, id, writable=True)
        return await self._call(self._objects.get, id, writable=writable)

    async def get_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return the values with the given ids."""
        return [await self.get(id, writable=writable) for id in ids]

    async def take(self, id: bytes, *, writable: bool = False) -> Any:
        """Return the value with the given id and delete it.

        With ``writable`` the value is copied in the event loop rather than in a thread, so that
        cancelling the task cannot lose a removed value.
        """
        return await self._call(self._objects.take, id, writable=writable)

    async def take_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return the values with the given ids, deleting them one by one."""
        return [await self.take(id, writable=writable) for id in ids]

    async def wait(
        self, ids: Iterable[bytes], timeout: float | None = None, count: int | None = None
    ) -> tuple[list[bytes], list[bytes]]:
        """Wait until objects exist, as :meth:`undercroft.Objects.wait` does."""
        client = self._objects._client
        waiting = Waiting(self._objects, ids, timeout, count, LOOK_EMBEDDED)
        await self._call(waiting.look, client.exists)
        if waiting.is_over or waiting.is_single_look:
            return waiting.result()
        messages = Subscription(client)
        loop = asyncio.get_running_loop()
        some = asyncio.Event()
        try:
            await self._call(messages.command, waiting.subscribing())
            descriptor = messages.fileno()
            loop.add_reader(descriptor, some.set)
            try:
                await self._call(waiting.look, client.exists)
                while not waiting.is_over and not waiting.is_late:
                    some.clear()
                    message = await self._call(messages.read, 0, decode=False)
                    if message is None:
                        with suppress(asyncio.TimeoutError):
                            await asyncio.wait_for(some.wait(), waiting.pause)
                    key = waiting.meant(message)
                    if key is not None and await self._call(client.exists, key):
                        waiting.found([key])
                    if waiting.is_due:
                        await self._call(waiting.look, client.exists)
            finally:
                loop.remove_reader(descriptor)
        finally:
            messages.close()
        return waiting.result()

    async def delete(self, *ids: bytes) -> int:
        """Delete objects and return how many existed. Existing views of them remain valid."""
        found: int = await self._call(self._objects.delete, *ids)
        return found

    async def contains(self, id: bytes) -> bool:
        """Return whether an object with the given id exists."""
        found: bool = await self._call(self._objects.contains, id)
        return found

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: ARG002
        """Close the store. Existing views of its objects remain valid."""
        try:
            await settled(self._objects._client)
        finally:
            self._objects.close()
            self._patient.close()

    async def _announce(self, id: bytes) -> None:
        # Ignore errors: the object is stored, and waiters that miss the message poll.
        with suppress(Exception):
            await self._call(self._objects.announce, id)

    async def _call(self, call: Any, *args: Any, **options: Any) -> Any:
        return await patiently(self._objects._client, call, *args, **options)
