"""The common base class of both asyncio clients for a store, with their native methods.

Native calls never wait. A call that finds a lock held by another process raises ``Locked``, and
this module retries it.
"""

from __future__ import annotations

import asyncio
import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any

from undercroft._native import METHODS, TAKING_METHODS, Client, Locked
from undercroft.awaited import Awaited
from undercroft.embedded.async_keys import Waits
from undercroft.embedded.async_retries import left, parked, patiently, settled
from undercroft.extensions.caches import Caches
from undercroft.extensions.feed import AsyncFeeds

if TYPE_CHECKING:
    from collections.abc import Callable

    from undercroft.extensions.feed import Asked, Form, Words


class Native(AsyncFeeds, Caches, Awaited):
    """An asyncio client for a store."""

    store: Any

    def _use(self, store: Client) -> None:
        store._hurry(left)
        self.store = store
        self._waits: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waits]
        self._waits = weakref.WeakKeyDictionary()

    async def wait_for(
        self, client: Client, args: tuple[Any, ...], decode: bool, taken: list[Any]
    ) -> Any:
        """Run a command that can wait for keys, and return its raw reply.

        Items that the command removes from the store are recorded in ``taken``, so that the caller
        can restore them.
        """
        return await self.waiting().run(client, args, decode, taken)

    def waiting(self) -> Waits:
        """Return the object through which tasks of the running loop wait for keys."""
        loop = asyncio.get_running_loop()
        waiting = self._waits.get(loop)
        if waiting is None:
            waiting = self._waits[loop] = Waits(self.store)
        return waiting

    async def _feed_rows(
        self, key: Any, asked: Asked, form: Form, attributes: bool
    ) -> bytes | None:
        store = self.store
        rows: bytes | None
        rows = await patiently(store, store._feed_rows, key, asked, form, attributes)
        return rows

    async def _feed_add(self, words: Words, items: Any) -> Any:
        return await patiently(self.store, self.store._feed_add, words, items)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: ARG002
        """Release the store. Using the client again reopens it.

        First finishes the work that earlier calls left undone because other processes held locks.
        """
        waiting = self._waits.pop(asyncio.get_running_loop(), None)
        if waiting is not None:
            waiting.close()
        try:
            await settled(self.store)
        finally:
            self.store.close()

    def __repr__(self) -> str:
        """Return a string with the store's path and the database."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"<{kind}({str(self.store.path)!r}, db={self.store.db})>"


def _awaited(name: str) -> Callable[..., Any]:
    """Return a coroutine function for the store's method with this name."""

    @wraps(getattr(Client, name))
    async def method(self: Native, *args: Any, **options: Any) -> Any:
        store = self.store
        try:
            return getattr(store, name)(*args, **options)
        except Locked as refused:
            return await parked(store, refused, getattr(store, name), *args, **options)

    return method


def _taking(name: str, taking: str) -> Callable[..., Any]:
    """Return a coroutine function for a method that removes data and returns it."""
    native = getattr(Client, taking)
    command = name.upper()

    @wraps(getattr(Client, name))
    async def method(self: Native, *args: Any, **options: Any) -> Any:
        store, taken = self.store, []  # type: ignore[var-annotated]
        try:
            try:
                return native(store, taken, *args, **options)
            except Locked as refused:
                return await parked(store, refused, native, store, taken, *args, **options)
        except BaseException:
            # Only typed calls need `args` for the rollback, and typed calls have no keyword
            # arguments.
            store._give_back(taken, command, *args)
            raise

    method.takes = True  # type: ignore[attr-defined]
    return method


for _, _name in METHODS:
    setattr(Native, _name, _awaited(_name))
for _name, _native in TAKING_METHODS:
    setattr(Native, _name, _taking(_name, _native))
