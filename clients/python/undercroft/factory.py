"""The concrete classes of store and server clients, loaded on first use."""

from __future__ import annotations

from typing import Any

from undercroft.base import Factory, Redis

__all__ = ["Redis", "StrictRedis"]


def _embedded() -> type[Redis]:
    try:
        from undercroft.client import EmbeddedRedis
    except ImportError as error:
        raise ImportError(
            "stores in shared memory need undercroft's native module, which cannot be imported; "
            f"servers work without it ({error})"
        ) from error
    return EmbeddedRedis


def _remote() -> type[Redis]:
    from undercroft.remote import RemoteRedis

    return RemoteRedis


def _from_topology(url: str, **options: Any) -> Any:
    from undercroft.servers import topology

    return topology.from_url(url, **options)


Redis._factory = Factory(_embedded, _remote, _from_topology)
# An alias that redis-py also defines.
StrictRedis = Redis
