"""Channels by way of a server for asyncio: threads make the steps, and other tasks run."""

from __future__ import annotations

import asyncio
import contextlib
from queue import Empty, Full
from typing import TYPE_CHECKING, Any

from undercroft._native import ChannelClosed
from undercroft.channel import Channel as SyncChannel
from undercroft.channel import Delivery as SyncDelivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType
    from typing import Self

# Seconds that one step waits at most: so long a thread may be in use for a task that is gone.
_SLICE = 1.0


class Delivery:
    """A message in the hands of a task, until it says that it is done with it."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: SyncDelivery) -> None:
        """Made by :meth:`RemoteChannel.get` with ``ack=True``."""
        self._delivery = delivery

    @property
    def value(self) -> Any:
        """The message."""
        return self._delivery.value

    async def ack(self) -> bool:
        """Say that the message is done with. Return whether it was not yet."""
        return await asyncio.to_thread(self._delivery.ack)

    async def release(self) -> bool:
        """Give the message back: it is the next one that is taken."""
        return await asyncio.to_thread(self._delivery.release)

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
        end = self._delivery.ack if exc_type is None else self._delivery.release
        await asyncio.to_thread(end)


class RemoteChannel:
    """What :class:`undercroft.asyncio.Channel` is for a ``redis://`` URL.

    A message is held until it has reached its task: one that is cancelled gives it back.
    """

    def __init__(self, name: str, store: str, **options: Any) -> None:
        """Take the arguments of :class:`undercroft.Channel`."""
        self._channel = SyncChannel(name, store, **options)
        self.name, self.maxsize = self._channel.name, self._channel.maxsize

    async def _until(
        self, step: Callable[[float], Any], missing: type[Exception], timeout: float | None
    ) -> Any:
        """Return what a step returns once it does not raise that something is missing."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        while True:
            left = _SLICE if until is None else max(0.0, min(_SLICE, until - loop.time()))
            made = loop.run_in_executor(None, step, left)
            try:
                return await asyncio.shield(made)
            except asyncio.CancelledError:
                made.add_done_callback(_given_back)
                raise
            except missing:
                if until is not None and loop.time() >= until:
                    raise

    async def put(self, value: Any, timeout: float | None = None) -> None:
        """Put a value behind all others, as :meth:`undercroft.asyncio.Channel.put` does."""
        channel = self._channel
        await self._until(lambda left: channel.put(value, timeout=left), Full, timeout)

    async def get(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Take the first value, as :meth:`undercroft.asyncio.Channel.get` does."""
        channel = self._channel
        held = await self._until(lambda left: channel.get(timeout=left, ack=True), Empty, timeout)
        delivery = Delivery(held)
        if not ack:
            # A task that is cancelled here has not got it, and it may be acknowledged all the same.
            await delivery.ack()
        return delivery.value if not ack else delivery

    async def qsize(self) -> int:
        """Return how many messages wait to be taken, without those that are held. O(1)."""
        return await asyncio.to_thread(self._channel.qsize)

    async def close(self) -> None:
        """End the channel for all processes, as :meth:`undercroft.Channel.close` does."""
        await asyncio.to_thread(self._channel.close)

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

    def __repr__(self) -> str:
        """Return the channel's name and size."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"<{kind}({self.name!r}, maxsize={self.maxsize})>"


def _given_back(made: asyncio.Future[Any]) -> None:
    """Give back what a step has taken for a task that is gone."""
    if made.cancelled() or made.exception() is not None:
        return
    held = made.result()
    if isinstance(held, SyncDelivery):
        loop = made.get_loop()
        with contextlib.suppress(RuntimeError):
            loop.run_in_executor(None, held.release)
