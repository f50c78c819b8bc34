"""Queues of tasks that wait for locks; each release of a lock wakes the first task in its queue."""

from __future__ import annotations

import asyncio
import os

# The longest timer, in seconds, that event loops accept.
_LONGEST = 86400.0


class Place:
    """A task's place in the queue for a lock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: bytes) -> None:
        """Create a place that has not been woken."""
        self.channel = channel
        self.future: asyncio.Future[None] = loop.create_future()
        self._loop = loop

    async def woken(self, seconds: float) -> None:
        """Wait until a release, even an earlier one, wakes this task or the time is up."""
        await woken(self._loop, self.future, seconds)
        self.future = self._loop.create_future()


class Lines:
    """The queues of one event loop's tasks for the locks in one store or on one server.

    Waiting tasks share one subscriber. A release wakes the first task in the queue. A task that
    leaves the queue without the lock wakes the next task.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create an object without queues."""
        self._loop = loop
        self._process = os.getpid()
        self._lines: dict[bytes, dict[Place, None]] = {}

    @property
    def usable(self) -> bool:
        """Whether this process created the object, rather than the parent of a fork."""
        return os.getpid() == self._process

    async def enter(self, channel: bytes, seconds: float | None = None) -> Place:
        """Join the queue. If the subscription succeeds in time, no later release is missed."""
        place = Place(self._loop, channel)
        self._lines.setdefault(channel, {})[place] = None
        try:
            await self._hear(channel, seconds)
        except BaseException:
            self.leave(place, False)
            raise
        return place

    def leave(self, place: Place, taken: bool) -> None:
        """Leave the queue. ``taken`` states whether the task acquired the lock."""
        # A forked child has a copy of the coroutine, but the place in the queue belongs to the
        # parent.
        if not self.usable:
            return
        line = self._lines[place.channel]
        del line[place]
        if line:
            if not taken:
                self._wake(place.channel)
            return
        del self._lines[place.channel]
        if self._lines:
            self._ignore(place.channel)
        else:
            self._close()

    async def _hear(self, channel: bytes, seconds: float | None) -> None:
        """Start receiving messages from a channel."""
        raise NotImplementedError

    def _ignore(self, channel: bytes) -> None:
        """Stop receiving messages from a channel."""
        raise NotImplementedError

    def _close(self) -> None:
        """Stop receiving messages."""
        raise NotImplementedError

    def _wake(self, channel: bytes) -> None:
        """Wake the first task in the queue that has not been woken."""
        if self._loop.is_closed():
            return
        for place in self._lines.get(channel, ()):
            if not place.future.done():
                wake(place.future)
                return

    def _wake_all(self) -> None:
        for line in self._lines.values():
            for place in line:
                wake(place.future)


async def woken(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[None], seconds: float | None
) -> None:
    """Wait until the future has a result, but not longer than ``seconds`` seconds."""
    if seconds is None:
        return await future
    late = loop.call_later(min(seconds, _LONGEST), wake, future)
    try:
        return await future
    finally:
        late.cancel()


def wake(future: asyncio.Future[None]) -> None:
    """Wake the task that waits for a future."""
    if not future.done():
        future.set_result(None)
