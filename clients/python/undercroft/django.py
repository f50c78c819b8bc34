"""A cache for Django, on a store in shared memory or on a server.

    CACHES = {
        "default": {
            "BACKEND": "undercroft.django.Cache",
            "LOCATION": "undercroft://cache",
        }
    }

Any URL of :meth:`undercroft.Redis.from_url` will do, ``OPTIONS`` are its options, and
``serializer`` among them is what it is to Django's own Redis cache.
"""

from __future__ import annotations

import re
from typing import Any

from django.core.cache.backends.redis import (  # type: ignore[import-untyped]
    RedisCache,
    RedisCacheClient,
)

import undercroft

__all__ = ["Cache", "CacheClient"]


class CacheClient(RedisCacheClient):  # type: ignore[misc]
    """The commands that a cache consists of: Django's, by clients of this package."""

    def __init__(self, servers: list[str], serializer: Any = None, **options: Any) -> None:
        """Take the URLs: the first is written to, the others are read from."""
        super().__init__(servers, serializer)
        self._client_options = options
        self._clients: dict[int, undercroft.Redis] = {}

    def get_client(self, key: object = None, *, write: bool = False) -> undercroft.Redis:  # noqa: ARG002
        """Return the client to write or read with, always the same one of a URL."""
        index = self._get_connection_pool_index(write)
        client = self._clients.get(index)
        if client is None:
            client = undercroft.Redis.from_url(self._servers[index], **self._client_options)
            # Of two threads that make one at once both go on with the same.
            client = self._clients.setdefault(index, client)
        return client


class Cache(RedisCache):  # type: ignore[misc]
    """Django's cache on Redis, on a store in shared memory or on a server."""

    def __init__(self, server: str | list[str], params: dict[str, Any]) -> None:
        """Take ``LOCATION`` and the other settings of a cache."""
        if isinstance(server, str):
            # Several URLs in one text, as Django has it; but the hosts of one URL stay together.
            server = re.split(r"[;,](?=[\w+]+://)", server)
        super().__init__(server, params)
        self._class = CacheClient
