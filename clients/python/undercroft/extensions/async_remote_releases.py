"""Reports released locks to the tasks that wait for locks on a server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from undercroft.extensions.async_lines import Lines

if TYPE_CHECKING:
    from collections.abc import Coroutine

# The maximum number of seconds to wait for a server to confirm a subscription.
_CONFIRMED = 5.0
_TASKS: set[asyncio.Task[None]] = set()


class RemoteReleases(Lines):
    """The tasks of one event loop that wait for locks on one server.

    Waiting tasks share one connection of redis-py's pool. Without a connection, or without
    permission to subscribe, they check their locks every ``sleep`` seconds.
    """

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Create an object without a connection."""
        super().__init__(loop)
        self._client = client
        self._receiver: _Receiver | None = None

    async def _hear(self, channel: bytes, seconds: float | None) -> None:
        if self._receiver is None:
            self._receiver = _Receiver(self, self._client.pubsub())
        most = _CONFIRMED if seconds is None else min(seconds, _CONFIRMED)
        # Wait for the confirmation, after which no release can be missed.
        with suppress(RedisError, OSError):
            async with asyncio.timeout(most):
                await self._receiver.subscribe(channel)

    def _ignore(self, channel: bytes) -> None:
        if self._receiver is not None:
            self._receiver.forget(channel)

    def _close(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None and not self._loop.is_closed():
            receiver.close()

    def heard(self, channel: bytes) -> None:
        """Wake the first waiter for a lock that was, or may have been, released."""
        self._wake(channel)

    def ended(self, receiver: _Receiver) -> None:
        """Wake all tasks, because they must check their locks without the receiver."""
        if receiver is self._receiver:
            self._receiver = None
            self._wake_all()


class _Receiver:
    """A connection that receives messages, and the task that reads them."""

    def __init__(self, releases: RemoteReleases, messages: Any) -> None:
        self._releases = releases
        self._messages = messages
        self._encode = messages.encoder.encode
        # The requested subscriptions, each with an event that is set by its confirmation.
        self._confirmed: dict[bytes, asyncio.Event] = {}
        # Serializes the tasks that open the connection or send commands.
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._reading: asyncio.Task[None] | None = None

    async def subscribe(self, channel: bytes) -> None:
        """Subscribe to a channel, and wait for the confirmation."""
        async with self._turn:
            if self._is_closed:
                return
            confirmed = self._confirmed.get(channel)
            if confirmed is None:
                await self._messages.subscribe(channel)
                confirmed = self._confirmed[channel] = asyncio.Event()
                if self._reading is None:
                    self._reading = self._begin(self._read())
        await confirmed.wait()

    def forget(self, channel: bytes) -> None:
        """Unsubscribe from a channel, unless a task has subscribed to it again by then."""
        if self._confirmed.pop(channel, None) is not None:
            self._begin(self._unsubscribe(channel))

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        if self._reading is None:
            # The task that was about to subscribe was cancelled, so no task reads.
            self._begin(self._messages.aclose())
        else:
            self._reading.cancel()

    def _begin(self, step: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(step)
        # Keep a reference, because an event loop has only weak references to its tasks.
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)
        return task

    async def _unsubscribe(self, channel: bytes) -> None:
        # Ignore a failure here: the reading task gets the error as well.
        with suppress(RedisError, OSError):
            async with self._turn:
                if not self._is_closed and channel not in self._confirmed:
                    await self._messages.unsubscribe(channel)

    async def _read(self) -> None:
        messages = self._messages
        try:
            while True:
                told = await messages.get_message(timeout=None)
                if told is None or told["type"] not in ("message", "subscribe"):
                    continue
                channel = self._encode(told["channel"])
                if channel in self._confirmed:
                    self._confirmed[channel].set()
                # A reopened connection subscribes again, and releases may have been missed in
                # between.
                self._releases.heard(channel)
        except (RedisError, OSError, UnicodeError):
            # The woken tasks check their locks, and raise an error that persists.
            pass
        finally:
            self._is_closed = True
            for confirmed in self._confirmed.values():
                confirmed.set()
            self._releases.ended(self)
            with suppress(RedisError, OSError):
                await messages.aclose()
