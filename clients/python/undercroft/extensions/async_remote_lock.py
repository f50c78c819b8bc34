"""Locks on a server, and the waiting logic of all asyncio locks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.asyncio.lock import Lock as RedisLock
from redis.exceptions import RedisError

from undercroft.extensions.lock import channel, pause, terms

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from undercroft.extensions.async_lines import Lines, Place

# The maximum number of seconds that a cancelled task waits while it releases its lock.
_GIVEN_BACK = 5.0
_TASKS: set[asyncio.Task[Any]] = set()


class Woken(RedisLock):
    """redis-py's lock, whose release wakes the first waiter in the queue.

    A message announces the release, and waiters track the lock's expiry themselves. If the key is
    removed without a lock's ``release()``, waiters notice after at most ``sleep`` seconds.
    """

    # The lock's client: an EmbeddedRedis or a RemoteRedis.
    redis: Any
    lua_release: Any

    async def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: Any = None,
    ) -> bool:
        """Acquire the lock, waiting for it if ``blocking``. Return whether it was acquired."""
        token, blocking, blocking_timeout = terms(self, token, blocking, blocking_timeout)
        loop = asyncio.get_running_loop()
        until = None if blocking_timeout is None else loop.time() + blocking_timeout
        lines: Lines | None = None
        place: Place | None = None
        taken, may_be_taken = False, True
        try:
            while not (taken := await self.do_acquire(token)):
                may_be_taken = False
                left = None if until is None else until - loop.time()
                if not blocking or (left is not None and left <= 0):
                    return False
                if lines is None or place is None:
                    lines = self.redis.releases()
                    place = await lines.enter(self._channel(), left)
                else:
                    seconds = pause(await self.redis.pttl(self.name), self.sleep)
                    await place.woken(seconds if left is None else min(seconds, left))
                may_be_taken = True
            self.local.token = token
            return True
        except BaseException as error:
            # The task may have been cancelled, or a signal handler may have raised, after the lock
            # was acquired.
            taken = False
            # A coroutine that is being closed cannot await the release.
            if may_be_taken and not isinstance(error, GeneratorExit):
                await self._give_back(token)
            raise
        finally:
            if lines is not None and place is not None:
                lines.leave(place, taken)

    def _channel(self) -> bytes:
        """Return the name of the channel that announces the lock's release."""
        return channel(self.redis, self.name)

    async def _give_back(self, token: bytes) -> None:
        """Release the lock if this token owns it, even if the task is cancelled again."""

        async def give_back() -> None:
            with suppress(RedisError):
                await self.do_release(token)

        await asyncio.wait({_begin(give_back())}, timeout=_GIVEN_BACK)


class RemoteLock(Woken):
    """A lock on a server."""

    async def do_release(self, expected_token: Any) -> None:
        """Release the lock, and wake its waiters if the user is permitted to publish."""
        # Complete both steps even if this task is cancelled.
        await asyncio.shield(_begin(self._released(expected_token)))

    async def _released(self, token: Any) -> None:
        release: Any = super().do_release
        await release(token)
        with suppress(RedisError):
            await self.redis.publish(self._channel(), b"")


def _begin(step: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(step)
    # Keep a reference, because an event loop has only weak references to its tasks.
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)
    return task
