"""Channels on a server for asyncio, whose steps run in threads while other tasks run."""

from __future__ import annotations

import asyncio
import contextlib
from queue import Empty, Full
from typing import TYPE_CHECKING, Any

from undercroft._native import ChannelClosed
from undercroft.channels.channel import Channel as SyncChannel
from undercroft.channels.channel import Delivery as SyncDelivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType
    from typing import Self

# The maximum number of seconds that a step waits before it frees the thread of a cancelled task.
_SLICE = 1.0


class Delivery:
    """A message that a task holds until it acknowledges or releases the message."""

    __slots__ = ("_delivery",)

    def __init__(self, delivery: SyncDelivery) -> None:
        """Wrap a message that :meth:`RemoteChannel.get` holds with ``ack=True``."""
        self._delivery = delivery

    @property
    def value(self) -> Any:
        """The message."""
        return self._delivery.value

    async def ack(self) -> bool:
        """Acknowledge the message. Return whether it was still held."""
        return await asyncio.to_thread(self._delivery.ack)

    async def release(self) -> bool:
        """Return the message to the front of the channel. Return whether it was still held."""
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
        """Acknowledge the message, or return it to the channel after an exception."""
        end = self._delivery.ack if exc_type is None else self._delivery.release
        await asyncio.to_thread(end)


class RemoteChannel:
    """The :class:`undercroft.asyncio.Channel` for a ``redis://`` URL.

    A message is held until its task receives it. If the task is cancelled, the message returns to
    the channel.
    """

    def __init__(self, name: str, store: str, **options: Any) -> None:
        """Open the channel; the arguments are those of :class:`undercroft.Channel`."""
        self._channel = SyncChannel(name, store, **options)
        self.name, self.maxsize = self._channel.name, self._channel.maxsize

    async def _until(
        self, step: Callable[[float], Any], missing: type[Exception], timeout: float | None
    ) -> Any:
        """Retry a step while it raises ``missing``, and return its result."""
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
        """Append a value to the channel, as :meth:`undercroft.asyncio.Channel.put` does."""
        channel = self._channel
        await self._until(lambda left: channel.put(value, timeout=left), Full, timeout)

    async def get(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Remove and return the first value, as :meth:`undercroft.asyncio.Channel.get` does."""
        channel = self._channel
        held = await self._until(lambda left: channel.get(timeout=left, ack=True), Empty, timeout)
        delivery = Delivery(held)
        if not ack:
            # If the task is cancelled here, the message may be acknowledged although the task did
            # not receive it.
            await delivery.ack()
        return delivery.value if not ack else delivery

    async def qsize(self) -> int:
        """Return the number of messages in the channel, excluding held messages. O(1)."""
        return await asyncio.to_thread(self._channel.qsize)

    async def close(self) -> None:
        """Close the channel for all processes, as :meth:`undercroft.Channel.close` does."""
        await asyncio.to_thread(self._channel.close)

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

    def __repr__(self) -> str:
        """Return a string with the channel's name and size."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"<{kind}({self.name!r}, maxsize={self.maxsize})>"


def _given_back(made: asyncio.Future[Any]) -> None:
    """Return to the channel the message that a step received for a cancelled task."""
    if made.cancelled() or made.exception() is not None:
        return
    held = made.result()
    if isinstance(held, SyncDelivery):
        loop = made.get_loop()
        with contextlib.suppress(RuntimeError):
            loop.run_in_executor(None, held.release)
