"""Makes tasks wait for keys in a store in this process, in the store's queues of waiters."""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import TYPE_CHECKING, Any

from undercroft._native import Wait, Waiters
from undercroft.embedded.async_retries import patiently
from undercroft.extensions.async_lines import wake, woken

if TYPE_CHECKING:
    from undercroft._native import ChannelLink, Client

# The number of seconds before a retry if the time is up but a lock delays the reply.
_RETRY = 0.1


class _Futures(dict[Wait, asyncio.Future[None]]):
    """The futures that wake waiting tasks.

    Only the event loop references this object, and only while a task waits. Closing the loop
    therefore destroys its waiting tasks, and they return items that they have received.
    """


class Waits:
    """The tasks of one event loop that wait for keys in one store.

    The tasks use the same queues of waiters as threads, other processes and the server's clients.
    The loop watches one descriptor while a task waits. A task collects its reply only when it runs.
    If it is cancelled before that, the items in the reply return to the store.
    """

    def __init__(self, client: Client) -> None:
        """Create an object without waiting tasks."""
        self._client = client
        self._native = Waiters(client)
        self._futures: weakref.ref[_Futures] | None = None
        self._process = os.getpid()

    async def run(
        self, client: Client, args: tuple[Any, ...], decode: bool, taken: list[Any]
    ) -> Any:
        """Run a command and return its reply, recording the removed items in ``taken``."""
        wait = await patiently(client, self._native.begin, client, args, decode, taken)
        return await self._ended(wait, taken) if type(wait) is Wait else wait

    async def look(
        self, client: Client, link: ChannelLink, for_room: bool, timeout: float | None
    ) -> None:
        """Wait until a channel may have a message or room, but not longer than the timeout."""
        begin = self._native.begin_look
        wait = await patiently(client, begin, client, link, for_room, timeout)
        if wait is not None:
            await self._ended(wait, [])

    async def _ended(self, wait: Wait, taken: list[Any]) -> Any:
        """Return the reply that ends a wait."""
        loop = asyncio.get_running_loop()
        try:
            futures = self._listen(loop)
            seconds = wait.seconds
            while True:
                future = futures[wait] = loop.create_future()
                await woken(loop, future, seconds)
                # Return without another await, so that removed items always reach the caller.
                reply = self._native.finish(wait, taken)
                if reply is not wait:
                    return reply
                seconds = _RETRY if wait.seconds == 0 else wait.seconds
        finally:
            # A forked child has a copy of the coroutine, but the place in the queue belongs to the
            # parent.
            if os.getpid() == self._process:
                self._native.give_up(wait)
                self._forget(loop, wait)

    def _waiting(self) -> _Futures | None:
        return None if self._futures is None else self._futures()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> _Futures:
        """Return the futures of the loop's waiting tasks, and watch the descriptor for them."""
        futures = self._waiting()
        if futures is None:
            futures = _Futures()
            loop.add_reader(self._native.fileno(), self._look, futures)
            self._futures = weakref.ref(futures)
            # Check immediately, because an event may have occurred before the descriptor was
            # watched.
            loop.call_soon(self._look, futures)
        return futures

    def _forget(self, loop: asyncio.AbstractEventLoop, wait: Wait) -> None:
        futures = self._waiting()
        if futures is None:
            return
        futures.pop(wait, None)
        if not futures:
            self._futures = None
            if not loop.is_closed():
                loop.remove_reader(self._native.fileno())

    def _look(self, futures: _Futures) -> None:
        """Wake the tasks whose wait may have ended."""
        if not futures:
            return
        found = self._native.look()
        for wait in found:
            if wait in futures:
                wake(futures[wait])
        if found:
            # One call to `look` does not always find all ended waits. Schedule another call, which
            # follows the tasks woken here.
            asyncio.get_running_loop().call_soon(self._look, futures)

    def close(self) -> None:
        """Fail the waiting tasks, because the client was closed."""
        for future in (self._waiting() or {}).values():
            if not future.done():
                reason = "Connection closed by its client."
                future.set_exception(self._client._unavailable(reason))
