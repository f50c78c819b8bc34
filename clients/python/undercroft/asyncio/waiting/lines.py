"""Tasks that wait for locks, in a line for each lock, and are woken when it is released."""

from __future__ import annotations

import asyncio
import os

# Event loops do not take any number of seconds.
_LONGEST = 86400.0


class Place:
    """A task's place in the line for a lock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: bytes) -> None:
        """Stand there, not yet woken."""
        self.channel = channel
        self.future: asyncio.Future[None] = loop.create_future()
        self._loop = loop

    async def woken(self, seconds: float) -> None:
        """Wait until a release is this task's turn, was since the last call, or time has passed."""
        await woken(self._loop, self.future, seconds)
        self.future = self._loop.create_future()


class Lines:
    """The lines of one event loop's tasks for the locks of one store or server.

    They have one receiver of messages together, while a task waits. A release wakes the first in
    line; one that leaves without the lock lets the next one look.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin without a line."""
        self._loop = loop
        self._process = os.getpid()
        self._lines: dict[bytes, dict[Place, None]] = {}

    @property
    def usable(self) -> bool:
        """Whether it is this process', not that of one that forked."""
        return os.getpid() == self._process

    async def enter(self, channel: bytes, seconds: float | None = None) -> Place:
        """Get in line: from here on no release is missed, if that is arranged in this time."""
        place = Place(self._loop, channel)
        self._lines.setdefault(channel, {})[place] = None
        try:
            await self._hear(channel, seconds)
        except BaseException:
            self.leave(place, False)
            raise
        return place

    def leave(self, place: Place, taken: bool) -> None:
        """Get out of line, with the lock or without it."""
        # A forked child has a copy of the coroutine, but its place is the parent's.
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
        """Receive the messages of a channel from here on."""
        raise NotImplementedError

    def _ignore(self, channel: bytes) -> None:
        """Receive the messages of a channel no more."""
        raise NotImplementedError

    def _close(self) -> None:
        """Receive no more messages."""
        raise NotImplementedError

    def _wake(self, channel: bytes) -> None:
        """Wake the first in line that has not been woken."""
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
    """Wait until there may be an answer, or the time may be up."""
    if seconds is None:
        return await future
    late = loop.call_later(min(seconds, _LONGEST), wake, future)
    try:
        return await future
    finally:
        late.cancel()


def wake(future: asyncio.Future[None]) -> None:
    """Let the task go on that waits for a future."""
    if not future.done():
        future.set_result(None)
