"""Clients for asyncio, with the API of redis.asyncio.

- `awaited`: makes an object awaitable and closable, as redis-py's asyncio objects are.
- `base`: the common base class of all asyncio clients, which picks the client class.
- `channel`: channels that tasks can wait on.
- `connection`: redis-py's asyncio connections with this package's codec.
- `embedded`: the asyncio client for a store in this process, whose commands run in the calling
  coroutine.
- `factory`: the concrete classes of asyncio clients.
- `multiplexing`: shares one connection to a server among many tasks.
- `native`: the base class of both asyncio clients for a store, with their native methods.
- `objects`: objects for asyncio, in a store in this process or on a server.
- `remote`: redis-py's asyncio client for a server, whose calls share one connection.
- `servers`: the helper modules for asyncio server clients.
- `store`: the asyncio store client that does not need redis-py.
- `store_connection`: redis-py's asyncio connections to a store in this process.
- `waiting`: makes tasks wait for keys, for locks, and for retries.
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

    from undercroft.asyncio.channel import Channel
    from undercroft.asyncio.embedded import EmbeddedRedis
    from undercroft.asyncio.factory import Redis
    from undercroft.asyncio.objects import Objects
    from undercroft.asyncio.remote import RemoteRedis
    from undercroft.asyncio.servers.topology import RedisCluster, Sentinel
    from undercroft.asyncio.store import Store
    from undercroft.asyncio.store_connection import (
        BlockingConnectionPool,
        ConnectionPool,
        StoreConnection,
    )

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
    "BlockingConnectionPool": "store_connection",
    "ConnectionPool": "store_connection",
    "Channel": "channel",
    "EmbeddedRedis": "embedded",
    "Objects": "objects",
    "Redis": "factory",
    "RedisCluster": "servers.topology",
    "RemoteRedis": "remote",
    "Sentinel": "servers.topology",
    "Store": "store",
    "StoreConnection": "store_connection",
    "StrictRedis": "factory",
}


def from_url(url: str, **options: Any) -> "Redis":
    """Return a client for a URL, as :meth:`Redis.from_url` does."""
    from undercroft.asyncio.factory import Redis

    return Redis.from_url(url, **options)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is not None:
        found = getattr(importlib.import_module(f"undercroft.asyncio.{home}"), name)
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
