"""Channels for asyncio: what waits for a message, or for room, lets other tasks run."""

from __future__ import annotations

import asyncio
import os
from queue import Empty, Full
from typing import TYPE_CHECKING, Any

from undercroft._native import ChannelClosed, ChannelLink, MovedError
from undercroft.asyncio.native import Native
from undercroft.asyncio.store import Store
from undercroft.asyncio.waiting.retries import patiently
from undercroft.channel import (
    _NAME,
    _REMOTE,
    _UNSENT,
    Messages,
    _run_embedded,
    expect_own,
    expect_store,
)
from undercroft.objects import Objects, _decode, _refusal, is_remote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

__all__ = ["Channel", "Delivery"]

# A task that waits for a message looks so often for those that the dead hold; one with a long value
# tells so often that this is still to be put.
_SLICE = 1.0


class Delivery:
    """A message in the hands of a task, until it says that it is done with it.

    Leaving an ``async with`` block acknowledges it, or gives it back where the block raised.
    """

    __slots__ = ("_channel", "_consumer", "_done", "_item", "_process", "value")

    def __init__(self, channel: Channel, consumer: bytes, item: bytes, value: Any) -> None:
        """Made by :meth:`Channel.get` with ``ack=True``."""
        self._channel, self._consumer, self._item = channel, consumer, item
        self._done, self._process = False, os.getpid()
        self.value = value

    async def ack(self) -> bool:
        """Say that the message is done with. Return whether it was not yet."""
        return await self._end(goes_back=False)

    async def release(self) -> bool:
        """Give the message back: it is the next one that is taken."""
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
        """Acknowledge the message, or give it back where something was raised."""
        # A forked child that leaves by an exception says that, and its parent goes on.
        if exc_type is None or self._process == os.getpid():
            await self._end(goes_back=exc_type is not None)


class Channel(Messages):
    """A channel of a store in shared memory for asyncio.

    ``store`` is a URL or path of a store, a client of :mod:`undercroft.asyncio` for one, or a
    ``redis://`` URL, for the same by way of a server. The rest is as :class:`undercroft.Channel`
    has it, and both may be used for one channel. A task that is cancelled while it waits has taken
    and put nothing.
    """

    def __new__(cls, name: str, store: Any = None, **options: Any) -> Any:
        """Make a channel of the kind that a URL means."""
        if cls is Channel and isinstance(store, str) and store.startswith(_REMOTE):
            from undercroft.asyncio.servers.channel import RemoteChannel

            return RemoteChannel(name, store, **options)
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
        """Open a store, or create it; the channel is there when something was put."""
        encoded, most = self._begin(name, maxsize, ttl, pickle)
        expect_store(name, store)
        if isinstance(store, str) and is_remote(store):
            raise ValueError(f"expected a store in shared memory, got {store!r}")
        if store is None or not isinstance(store, Native):
            store = Store(**options) if store is None else Store(store, **options)
        elif options:
            raise TypeError("expected no options beside a client that is there already")
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
        """Return what a call returns once it does not raise that something is missing."""
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
        """Put a value behind all others, once there is room for it.

        Raises ``queue.Full`` where there is none in time, :class:`ChannelClosed` where the channel
        is closed.
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
            # It may have waited for long.
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
        """Take the first value, once there is one.

        With ``ack`` return a :class:`Delivery` instead, which holds the message until it is
        acknowledged: where this process dies before, another one is given it.

        Raises ``queue.Empty`` where there is none in time, :class:`ChannelClosed` where the channel
        is closed and empty, :class:`undercroft.PickleRefused` for a pickle that was not asked for.
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
                    raise _refusal()
                elif type(found) is bytes:
                    return _decode(found, False, pickles=self._pickles)
                else:
                    return found
        except BaseException:
            self._link.give_back(taken)
            raise

    async def _of_held(
        self, taken: list[Any], consumer: bytes, item: bytes, ack: bool
    ) -> Delivery | None:
        """Return what is held, its value with it; None where its long value has expired."""
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
            # It is held for sure. Where this process dies behind it, the message is passed over.
            await self._call(self._objects.delete, item[1:])
        ended: bool = await self._call(self._link.end_hold, consumer, item, goes_back)
        return ended

    async def qsize(self) -> int:
        """Return how many messages wait to be taken, without those that are held. O(1)."""
        return int(await self._run("LLEN", self._items))

    async def close(self) -> None:
        """End the channel for all processes, as :meth:`undercroft.Channel.close` does."""
        await self._call(self._link.close)

    def __aiter__(self) -> AsyncIterator[Any]:
        """Take values until the channel is closed and empty."""
        return self._all()

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """Take messages to be acknowledged, until the channel is closed and empty.

        Each is acknowledged when the loop asks for the next one, and given back where the loop
        is left; leave it under ``contextlib.aclosing``, so that this is at once.
        """
        while True:
            try:
                delivery = await self.get(ack=True)
            except ChannelClosed:
                return
            try:
                yield delivery
            except BaseException:
                # The loop was left, or the generator closed.
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
