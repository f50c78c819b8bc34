"""Channels on a server for asyncio, whose steps run in threads while other tasks run."""

from __future__ import annotations

import asyncio
import contextlib
from queue import Empty, Full
from typing import TYPE_CHECKING, Any

from undercroft.channels.async_channel import Channel, Delivery
from undercroft.channels.channel import Channel as SyncChannel
from undercroft.channels.channel import Delivery as SyncDelivery

if TYPE_CHECKING:
    from collections.abc import Callable

# The maximum number of seconds that a step waits before it frees the thread of a cancelled task.
_SLICE = 1.0


class RemoteChannel(Channel):
    """The :class:`undercroft.asyncio.Channel` for a ``redis://`` URL.

    A message is held until its task receives it. If the task is cancelled, the message returns to
    the channel.
    """

    def __init__(self, name: str, store: str, **options: Any) -> None:
        """Open the channel; the arguments are those of :class:`undercroft.Channel`."""
        self._channel = SyncChannel(name, store, **options)
        self.name, self.maxsize = self._channel.name, self._channel.maxsize

    async def _end_hold(self, consumer: bytes, item: bytes, goes_back: bool) -> bool:
        return await asyncio.to_thread(self._channel._end_hold, consumer, item, goes_back)

    async def _in_thread(
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
        await self._in_thread(lambda left: channel.put(value, timeout=left), Full, timeout)

    async def get(self, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Remove and return the first value, as :meth:`undercroft.asyncio.Channel.get` does."""
        channel = self._channel
        held = await self._in_thread(
            lambda left: channel.get(timeout=left, ack=True), Empty, timeout
        )
        delivery = Delivery(self, held._consumer, held._item, held.value)
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


def _given_back(made: asyncio.Future[Any]) -> None:
    """Return to the channel the message that a step received for a cancelled task."""
    if made.cancelled() or made.exception() is not None:
        return
    held = made.result()
    if isinstance(held, SyncDelivery):
        loop = made.get_loop()
        with contextlib.suppress(RuntimeError):
            loop.run_in_executor(None, held.release)
