"""Channels for asyncio: other tasks run while a task waits for a message or for room."""

from __future__ import annotations

import asyncio
import os
from queue import Empty, Full
from typing import TYPE_CHECKING, Any

from undercroft._native import ChannelClosed, ChannelLink, MovedError
from undercroft.channels.channel import (
    _NAME,
    _REMOTE,
    _UNSENT,
    Messages,
    _run_embedded,
    expect_own,
    expect_store,
)
from undercroft.embedded.async_native import Native
from undercroft.embedded.async_retries import patiently
from undercroft.embedded.async_store import Store
from undercroft.objects.embedded import Objects, is_remote
from undercroft.objects.encoding import decode, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

__all__ = ["Channel", "Delivery"]

# The number of seconds between a waiting reader's checks for messages that dead processes hold. A
# waiting writer of a long value extends the value's expiry at the same interval.
_SLICE = 1.0


class Delivery:
    """A message that a task holds until it acknowledges or releases the message.

    Leaving an ``async with`` block acknowledges the message, or returns it to the channel if the
    block raised an exception.
    """

    __slots__ = ("_channel", "_consumer", "_done", "_item", "_process", "value")

    def __init__(self, channel: Channel, consumer: bytes, item: bytes, value: Any) -> None:
        """Wrap a message that :meth:`Channel.get` holds with ``ack=True``."""
        self._channel, self._consumer, self._item = channel, consumer, item
        self._done, self._process = False, os.getpid()
        self.value = value

    async def ack(self) -> bool:
        """Acknowledge the message. Return whether it was still held."""
        return await self._end(goes_back=False)

    async def release(self) -> bool:
        """Return the message to the front of the channel. Return whether it was still held."""
        return await self._end(goes_back=True)

    async def _end(self, *, goes_back: bool) -> bool:
        if self._done:
            return False
        expect_own(self._process)
        ended = await self._channel._end_hold(self._consumer, self._item, goes_back)
        self._done = True
        return ended

    async def __aenter__(self) -> Self:
        """Return the delivery itself."""
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Acknowledge the message, or return it to the channel after an exception."""
        # In a forked child, only propagate the exception: the message belongs to the parent.
        if exc_type is None or self._process == os.getpid():
            await self._end(goes_back=exc_type is not None)


class Channel(Messages):
    """An asyncio channel in a store in shared memory.

    ``store`` is a store's URL or path, a :mod:`undercroft.asyncio` client for a store, or a
    ``redis://`` URL, which reaches the channel through a server. The other arguments are those of
    :class:`undercroft.Channel`. Both classes can use the same channel at the same time. If a task
    is cancelled while it waits, it has neither received nor put a message.
    """

    def __new__(cls, name: str, store: Any = None, **_options: Any) -> Self:  # noqa: ARG004
        """Create a channel of the class that suits the URL."""
        if cls is Channel and isinstance(store, str) and store.startswith(_REMOTE):
            from undercroft.channels.async_remote import RemoteChannel

            made: Any = super().__new__(RemoteChannel)
            return made  # type: ignore[no-any-return]
        return super().__new__(cls)

    def __init__(
        self,
        name: str,
        store: Any = None,
        *,
        maxsize: int = 1000,
        ttl: float | timedelta | None = None,
        pickle: bool = False,
        **options: Any,
    ) -> None:
        """Open the store, creating it if needed; the first message creates the channel."""
        encoded, most = self._begin(name, maxsize, ttl, pickle)
        expect_store(name, store)
        if isinstance(store, str) and is_remote(store):
            raise ValueError(f"expected a store in shared memory, got {store!r}")
        if store is None or not isinstance(store, Native):
            store = Store(**options) if store is None else Store(store, **options)
        elif options:
            raise TypeError("expected no options together with an existing client")
        self._owner = store
        self._client = store.store
        self._link = ChannelLink(self._client, encoded, most, pickle)
        self._prefix = self._items + b":object:"
        self._objects = Objects(self._client, pickle=pickle, prefix=self._prefix.decode())

    async def _call(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return await patiently(self._client, call, *args, **options)

    async def _run(self, *words: Any) -> Any:
        return await self._call(_run_embedded, self._client, *words)

    async def _until(
        self, call: Callable[[], Any], missing: type[Exception], timeout: float | None
    ) -> Any:
        """Retry a call while it raises ``missing``, and return its result."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            try:
                return await self._call(call)
            except missing:
                left = _SLICE if until is None else min(_SLICE, until - loop.time())
                if left <= 0:
                    raise
            await self._owner.waiting().look(self._client, self._link, missing is Full, left)

    async def put(self, value: Any, timeout: float | None = None) -> None:
        """Append a value to the channel, waiting until the channel has room.

        Raises ``queue.Full`` if the channel is still full at the timeout, and
        :class:`ChannelClosed` if the channel is closed.
        """
        item = self._pack(value)
        if item is not None:
            await self._until(lambda: self._link.put_item(item, False, None), Full, timeout)
            return None
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            try:
                return await self._put_named(value, timeout)
            except MovedError:
                timeout = None if until is None else max(0.0, until - loop.time())
            except MemoryError:
                if await self._run("EXISTS", self._closed):
                    raise ChannelClosed("the channel is closed") from None
                raise

    async def _put_named(self, value: Any, timeout: float | None) -> None:
        within = self._link.removals()
        id = await self._call(self._objects.put, value, ttl=_UNSENT)

        def put() -> None:
            # Extend the value's expiry, because the writer may have waited a long time.
            self._client.pexpire(self._prefix + id, round(_UNSENT * 1000))
            self._link.put_item(_NAME + id, False, None, within)

        try:
            await self._until(put, Full, timeout)
        except BaseException:
            await self._call(self._objects.delete, id)
            raise
        if self._expires:
            await self._call(self._client.pexpire, self._prefix + id, self._expires)
        else:
            await self._call(self._client.persist, self._prefix + id)

    async def get(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Remove and return the first value, waiting until there is one.

        With ``ack`` it returns a :class:`Delivery` instead, which holds the message until it is
        acknowledged. If this process dies before the acknowledgment, the message is delivered
        again.

        Raises ``queue.Empty`` if no message arrives before the timeout, :class:`ChannelClosed` if
        the channel is closed and empty, and :class:`undercroft.PickleRefused` for a pickle if
        pickles are not enabled.
        """
        take = self._link.hold if ack else self._link.get
        taken: list[Any] = []
        try:
            while True:
                found = await self._until(lambda: take(taken, False, None), Empty, timeout)
                if type(found) is tuple:
                    held = await self._of_held(taken, found[0], found[1], ack)
                    if held is not None:
                        return held if ack else held.value
                elif found is None:
                    raise refusal()
                elif type(found) is bytes:
                    return decode(found, False, pickles=self._pickles)
                else:
                    return found
        except BaseException:
            self._link.give_back(taken)
            raise

    async def _of_held(
        self, taken: list[Any], consumer: bytes, item: bytes, ack: bool
    ) -> Delivery | None:
        """Return a held message with its value, or None if the value has expired.

        Only long values, which are stored separately, can expire.
        """
        try:
            if item[:1] != _NAME:
                value = self._unpack(item)
            elif ack:
                value = await self._call(self._objects.get, item[1:])
            else:
                value = await self._call(self._objects._take, taken, item[1:])
        except KeyError:
            await self._call(self._link.end_hold, consumer, item, False)
            taken.clear()
            return None
        if not ack:
            await self._call(self._link.end_hold, consumer, item, False, taken)
        return Delivery(self, consumer, item, value)

    async def _end_hold(self, consumer: bytes, item: bytes, goes_back: bool) -> bool:
        if item[:1] == _NAME and not goes_back:
            # Delete the value while this process still holds the message. If this process dies
            # before the next line, readers skip the message.
            await self._call(self._objects.delete, item[1:])
        ended: bool = await self._call(self._link.end_hold, consumer, item, goes_back)
        return ended

    async def qsize(self) -> int:
        """Return the number of messages in the channel, excluding held messages. O(1)."""
        return int(await self._run("LLEN", self._items))

    async def close(self) -> None:
        """Close the channel for all processes, as :meth:`undercroft.Channel.close` does."""
        await self._call(self._link.close)

    def __aiter__(self) -> AsyncIterator[Any]:
        """Iterate over values until the channel is closed and empty."""
        return self._all()

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """Iterate over held messages until the channel is closed and empty.

        Each message is acknowledged when the loop requests the next one, and returned to the
        channel if the loop exits. Use ``contextlib.aclosing`` to return the message as soon as the
        loop exits.
        """
        while True:
            try:
                delivery = await self.get(ack=True)
            except ChannelClosed:
                return
            try:
                yield delivery
            except BaseException:
                # The loop exited early, or the generator was closed.
                await delivery.release()
                raise
            await delivery.ack()

    async def _all(self) -> AsyncIterator[Any]:
        while True:
            try:
                value = await self.get()
            except ChannelClosed:
                return
            yield value
