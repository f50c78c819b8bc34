"""Locks in a store in this process, whose waits run in the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from undercroft._native import Locked
from undercroft.embedded.async_retries import parked
from undercroft.extensions.async_remote_lock import Woken
from undercroft.extensions.lock import AsyncScript, channel


class Lock(Woken):
    """A lock in a store in this process, whose scripts are single native calls."""

    lua_release: Any = AsyncScript(Woken.LUA_RELEASE_SCRIPT)
    lua_extend: Any = AsyncScript(Woken.LUA_EXTEND_SCRIPT)
    lua_reacquire: Any = AsyncScript(Woken.LUA_REACQUIRE_SCRIPT)

    def register_scripts(self) -> None:
        """Do nothing: redis-py's scripts keep the first client alive, and with it its store."""

    def _channel(self) -> bytes:
        return channel(self.redis.store, self.name)

    async def do_release(self, expected_token: Any) -> None:
        """Release the lock and wake the tasks that wait for it."""
        release: Any = super().do_release
        await release(expected_token)
        store = self.redis.store
        told = self._channel(), b""
        try:
            store.publish(*told)
        except Locked as refused:
            # Publish the release even if the task is cancelled, because the lock is already
            # released.
            await asyncio.shield(parked(store, refused, store.publish, *told))
