"""Reports released locks to the tasks that wait for locks in a store in this process."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from undercroft._native import Subscription
from undercroft.embedded.async_retries import patiently
from undercroft.extensions.async_lines import Lines

if TYPE_CHECKING:
    import asyncio

    from undercroft._native import Client


class Releases(Lines):
    """The tasks of one event loop that wait for locks in one store.

    Only the loop and the tasks reference this object, so closing the loop destroys the tasks.
    """

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        """Create an object without waiting tasks."""
        super().__init__(loop)
        self._client = client
        self._receiver: Subscription | None = None
        self._descriptor: int | None = None
        # The channels that the receiver is subscribed to.
        self._heard: set[bytes] = set()

    async def _hear(self, channel: bytes, seconds: float | None) -> None:  # noqa: ARG002
        """Subscribe to all channels in use, which never blocks on a store."""
        if channel in self._heard:
            return
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

    def _ignore(self, channel: bytes) -> None:
        if self._receiver is None:
            return
        # Ignore a failure: the receiver then merely gets messages that no task is waiting for.
        with suppress(RedisError):
            self._receiver.command(("UNSUBSCRIBE", channel))
            self._heard.discard(channel)

    def _close(self) -> None:
        native, self._receiver = self._receiver, None
        descriptor, self._descriptor = self._descriptor, None
        self._heard.clear()
        if descriptor is not None and not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        if native is not None:
            native.close()

    def _look(self) -> None:
        """Process the received messages."""
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
            # The woken tasks check their locks, and raise an error that persists.
            self._close()
            self._wake_all()
