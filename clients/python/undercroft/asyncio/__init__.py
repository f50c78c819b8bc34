"""Clients for asyncio, with the API of redis.asyncio.

- `awaited`: what is entered, awaited and closed as redis-py's asyncio objects are.
- `base`: the class that all clients for asyncio have in common, which makes the kind that is meant.
- `channel`: channels whose messages and room are awaited.
- `connection`: redis-py's asyncio connections, with this package's codec between object and byte.
- `embedded`: the asyncio client of a store in this process: commands finish at once, messages are
  awaited.
- `factory`: which classes clients for asyncio are.
- `multiplexing`: one connection to a server that many tasks use at once.
- `native`: what both asyncio clients of a store are: its native methods, done when awaited.
- `objects`: objects for asyncio: in a store in this process, or on a server.
- `remote`: the asyncio client of a server: redis-py's, whose calls share one connection.
- `servers`: what asyncio clients of servers are made of.
- `store`: the asyncio client of a store that needs no redis-py.
- `store_connection`: redis-py's asyncio connections to a store in this process.
- `waiting`: tasks that wait for keys, for locks and to try again.
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

    # redis-py's other name for its client.
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

# Where the package's own names are. All others are redis-py's.
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
    """Return a client of what a URL names, as :meth:`Redis.from_url` does."""
    from undercroft.asyncio.factory import Redis

    return Redis.from_url(url, **options)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is not None:
        found = getattr(importlib.import_module(f"undercroft.asyncio.{home}"), name)
    elif name.startswith("_"):
        found = None
    else:
        # What else redis-py has is not the same in all of its versions. Its modules are not meant:
        # some have the names of this package's.
        found = getattr(importlib.import_module("redis.asyncio"), name, None)
        if found is None and name in __all__:
            found = getattr(importlib.import_module("redis.exceptions"), name, None)
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
