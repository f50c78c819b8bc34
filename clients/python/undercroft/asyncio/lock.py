"""Locks of a store in this process, which are waited for in the event loop."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from redis.asyncio.lock import Lock as RemoteLock

from undercroft._native import Locked
from undercroft.asyncio.parking import parked
from undercroft.lock import EXTEND, REACQUIRE, RELEASE, channel


class Lock(RemoteLock):
    """redis-py's lock, whose waiters are woken when it is released, the first in line.

    They hear of a release by a message, and look by themselves when the lock expires. Where
    it is released in another way than by a lock's ``release()``, they find out after ``sleep``.
    """

    # An EmbeddedRedis, where redis-py expects one of its own clients.
    redis: Any

    lua_release: Any = RELEASE
    lua_extend: Any = EXTEND
    lua_reacquire: Any = REACQUIRE

    def register_scripts(self) -> None:
        """Do nothing: they are known."""

    async def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: Any = None,
    ) -> bool:
        """Get the lock, waiting for it if asked to. Returns whether that succeeded."""
        if token is None:
            token = uuid.uuid1().hex
        token = self.redis.get_encoder().encode(token)
        if blocking is None:
            blocking = self.blocking
        if blocking_timeout is None:
            blocking_timeout = self.blocking_timeout
        taken = await self.do_acquire(token) or (
            blocking and await self._wait(token, blocking_timeout)
        )
        if taken:
            self.local.token = token
        return bool(taken)

    async def _wait(self, token: bytes, timeout: float | None) -> bool:
        """Get the lock once it is free; returns whether that was in time."""
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        releases = self.redis.releases()
        place = await releases.enter(channel(self.redis.store, self.name))
        taken = False
        try:
            while not (taken := await self.do_acquire(token)):
                left = await self.redis.pttl(self.name)
                pause = self.sleep if left < 0 else min(self.sleep, (left + 1) / 1000)
                if until is not None:
                    pause = min(pause, until - loop.time())
                    if pause <= 0:
                        return False
                await place.woken(pause)
            return True
        finally:
            releases.leave(place, taken)

    async def do_release(self, expected_token: Any) -> None:
        """Release the lock, and tell the tasks that wait for it."""
        release: Any = super().do_release
        await release(expected_token)
        store = self.redis.store
        told = channel(store, self.name), b""
        try:
            store.publish(*told)
        except Locked as refused:
            # It is released, and that is told though this task may be cancelled now.
            await asyncio.shield(parked(store, refused, store.publish, *told))
