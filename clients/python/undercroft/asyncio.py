"""Clients for asyncio, with the API of redis.asyncio.

Names are imported on first use.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis.asyncio import (
        Connection,
        SentinelConnectionPool,
        SentinelManagedConnection,
        SentinelManagedSSLConnection,
        SSLConnection,
        UnixDomainSocketConnection,
        default_backoff,
    )
    from redis.exceptions import (
        AuthenticationError,
        AuthenticationWrongNumberOfArgsError,
        BusyLoadingError,
        ChildDeadlockedError,
        ConnectionError,
        DataError,
        InvalidResponse,
        OutOfMemoryError,
        PubSubError,
        ReadOnlyError,
        RedisError,
        ResponseError,
        TimeoutError,
        WatchError,
    )

    from undercroft.async_base import Redis
    from undercroft.channels.async_channel import Channel
    from undercroft.embedded.async_client import EmbeddedRedis
    from undercroft.embedded.async_connection import (
        BlockingConnectionPool,
        ConnectionPool,
        StoreConnection,
    )
    from undercroft.embedded.async_store import Store
    from undercroft.objects.async_embedded import Objects
    from undercroft.remote.async_client import RemoteRedis
    from undercroft.remote.async_topology import RedisCluster, Sentinel

    # An alias that redis-py also defines.
    StrictRedis = Redis

__all__ = [
    "AuthenticationError",
    "AuthenticationWrongNumberOfArgsError",
    "BlockingConnectionPool",
    "BusyLoadingError",
    "Channel",
    "ChildDeadlockedError",
    "Connection",
    "ConnectionError",
    "ConnectionPool",
    "DataError",
    "EmbeddedRedis",
    "InvalidResponse",
    "Objects",
    "OutOfMemoryError",
    "PubSubError",
    "ReadOnlyError",
    "Redis",
    "RedisCluster",
    "RedisError",
    "RemoteRedis",
    "ResponseError",
    "SSLConnection",
    "Sentinel",
    "SentinelConnectionPool",
    "SentinelManagedConnection",
    "SentinelManagedSSLConnection",
    "Store",
    "StoreConnection",
    "StrictRedis",
    "TimeoutError",
    "UnixDomainSocketConnection",
    "WatchError",
    "default_backoff",
    "from_url",
]

# The modules that define this package's own names. All other names come from redis-py.
_HOME = {
    "BlockingConnectionPool": "embedded.async_connection",
    "ConnectionPool": "embedded.async_connection",
    "Channel": "channels.async_channel",
    "EmbeddedRedis": "embedded.async_client",
    "Objects": "objects.async_embedded",
    "Redis": "async_base",
    "RedisCluster": "remote.async_topology",
    "RemoteRedis": "remote.async_client",
    "Sentinel": "remote.async_topology",
    "Store": "embedded.async_store",
    "StoreConnection": "embedded.async_connection",
    "StrictRedis": "async_base",
}


def from_url(url: str, **options: Any) -> "Redis":
    """Return a client for a URL, as :meth:`Redis.from_url` does."""
    from undercroft.async_base import Redis

    return Redis.from_url(url, **options)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is not None:
        found = getattr(importlib.import_module(f"undercroft.{home}"), name)
    elif name.startswith("_"):
        found = None
    else:
        # Look up all other names in redis-py at run time, because they differ between its versions.
        # Exclude redis-py's modules: some have the same name as a module of this package.
        found = getattr(importlib.import_module("redis.asyncio"), name, None)
        if found is None and name in __all__:
            found = getattr(importlib.import_module("redis.exceptions"), name, None)
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
