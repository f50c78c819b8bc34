"""The concrete classes of asyncio clients, loaded on first use."""

from __future__ import annotations

from typing import Any

from undercroft.asyncio.base import Redis
from undercroft.base import Factory

__all__ = ["Redis", "StrictRedis"]


def _embedded() -> type[Redis]:
    from undercroft.asyncio.embedded import EmbeddedRedis

    return EmbeddedRedis


def _remote() -> type[Redis]:
    from undercroft.asyncio.remote import RemoteRedis

    return RemoteRedis


def _from_topology(url: str, **options: Any) -> Any:
    from undercroft.asyncio.servers import topology

    return topology.from_url(url, **options)


Redis._factory = Factory(_embedded, _remote, _from_topology)
# An alias that redis-py also defines.
StrictRedis = Redis
