"""A Django cache in shared memory or on a server.

    CACHES = {
        "default": {
            "BACKEND": "undercroft.django.Cache",
            "LOCATION": "undercroft://cache",
        }
    }

``LOCATION`` is any URL that :meth:`undercroft.Redis.from_url` accepts, and ``OPTIONS`` are its
options. The option ``serializer`` works as in Django's own Redis cache.
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
    """Django's cache client, whose commands run on clients of this package."""

    def __init__(self, servers: list[str], serializer: Any = None, **options: Any) -> None:
        """Set the servers' URLs. Writes go to the first server, reads to the others."""
        super().__init__(servers, serializer)
        self._client_options = options
        self._clients: dict[int, undercroft.Redis] = {}

    def get_client(self, key: object = None, *, write: bool = False) -> undercroft.Redis:  # noqa: ARG002
        """Return the client for writes or for reads. Each URL has one cached client."""
        index = self._get_connection_pool_index(write)
        client = self._clients.get(index)
        if client is None:
            client = undercroft.Redis.from_url(self._servers[index], **self._client_options)
            # If two threads create a client simultaneously, both use the client that was stored
            # first.
            client = self._clients.setdefault(index, client)
        return client


class Cache(RedisCache):  # type: ignore[misc]
    """Django's Redis cache on a store in shared memory or on a server."""

    def __init__(self, server: str | list[str], params: dict[str, Any]) -> None:
        """Configure the cache from ``LOCATION`` and its other settings."""
        if isinstance(server, str):
            # Django allows several URLs in one string. Do not split at separators between the hosts
            # of one URL.
            server = re.split(r"[;,](?=[\w+]+://)", server)
        super().__init__(server, params)
        self._class = CacheClient
