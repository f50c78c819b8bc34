"""Tasks that wait for locks of a store in this process, in line before each of them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from undercroft._native import Subscription
from undercroft.asyncio.parking import patiently
from undercroft.asyncio.waiting import wake, woken

if TYPE_CHECKING:
    from undercroft._native import Client


class Place:
    """A task's place in the line before a lock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, channel: bytes) -> None:
        """Stand there, not yet woken."""
        self.channel = channel
        self.future: asyncio.Future[None] = loop.create_future()
        self._loop = loop

    async def woken(self, seconds: float) -> None:
        """Wait until a release is this task's turn, was since the last call, or time has passed."""
        await woken(self._loop, self.future, seconds)
        self.future = self._loop.create_future()


class Releases:
    """The tasks of one event loop that wait for locks of one store.

    They have one receiver of messages together, while somebody waits. A release wakes the first in
    line; one that leaves without the lock lets the next one look. The loop and the tasks hold
    it, and nothing else does: so a loop that is closed takes its tasks along.
    """

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        """Let nobody wait yet."""
        self._client = client
        self._loop = loop
        self._process = os.getpid()
        self._lines: dict[bytes, dict[Place, None]] = {}
        self._receiver: Subscription | None = None
        self._descriptor: int | None = None
        # What the receiver is subscribed to.
        self._heard: set[bytes] = set()

    @property
    def usable(self) -> bool:
        """Whether it is this process', not that of one that forked."""
        return os.getpid() == self._process

    async def enter(self, channel: bytes) -> Place:
        """Get in line: from here on no release is missed."""
        place = Place(self._loop, channel)
        self._lines.setdefault(channel, {})[place] = None
        try:
            if channel not in self._heard:
                await self._listen()
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
        if self._receiver is None:
            return
        if not self._lines:
            self._close()
            return
        # Where that fails, there are messages that nobody waits for.
        with suppress(RedisError):
            self._receiver.command(("UNSUBSCRIBE", place.channel))
            self._heard.discard(place.channel)

    async def _listen(self) -> None:
        """Subscribe to all that is waited for, in the loop."""
        if self._receiver is None:
            self._receiver = Subscription(self._client)
        native, channels = self._receiver, [*self._lines]
        await patiently(self._client, native.command, ("SUBSCRIBE", *channels))
        if native is not self._receiver:
            return
        if self._descriptor is None:
            descriptor = native.fileno()
            self._loop.add_reader(descriptor, self._look)
            self._descriptor = descriptor
        self._heard.update(channels)

    def _close(self) -> None:
        native, self._receiver = self._receiver, None
        descriptor, self._descriptor = self._descriptor, None
        self._heard.clear()
        if descriptor is not None and not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        if native is not None:
            native.close()

    def _wake(self, channel: bytes) -> None:
        """Wake the first in line that has not been woken."""
        if self._loop.is_closed():
            return
        for place in self._lines.get(channel, ()):
            if not place.future.done():
                wake(place.future)
                return

    def _look(self) -> None:
        """Take what was told."""
        if self._receiver is None:
            return
        native = self._receiver
        try:
            while (told := native.read(0, False)) is not None:
                if told[0] == b"message":
                    self._wake(told[1])
                elif told[0] == b"lost":
                    self._wake_all()
        except RedisError:
            # A task that waits finds out what is wrong, or has to look for itself.
            self._close()
            self._wake_all()

    def _wake_all(self) -> None:
        for line in self._lines.values():
            for place in line:
                wake(place.future)
