"""The common base class of all asyncio clients, which picks the client class."""

from __future__ import annotations

from typing import Any, Literal

from redis.commands import AsyncCoreCommands

from undercroft.awaited import Awaited
from undercroft.base import Chosen, Factory
from undercroft.extensions.caches import Caches
from undercroft.extensions.feed import AsyncFeeds


class Redis(Chosen, AsyncFeeds, Caches, Awaited, AsyncCoreCommands):  # type: ignore[misc]
    """An asyncio client with redis-py's methods, for a store in shared memory or for a server.

    As with :class:`undercroft.Redis`, the arguments or the URL determine which kind of client is
    created.
    """

    # redis-py's annotations read this flag: methods return awaitables.
    _is_async_client: Literal[True] = True
    _factory = Factory(
        "undercroft.embedded.async_client",
        "undercroft.remote.async_client",
        "undercroft.remote.async_topology",
    )

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply as redis-py converts it."""
        raise NotImplementedError

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Release the store or the server; using the client again reopens it."""
        raise NotImplementedError


Redis._common = Redis
# An alias that redis-py also defines.
StrictRedis = Redis
