"""Clients for asyncio, with the API of redis.asyncio.

- `awaited`: what is entered, awaited and closed as redis-py's asyncio objects are.
- `base`: the class that all clients for asyncio have in common, which makes the kind that is meant.
- `call`: a command that was sent, as what redis-py's methods give: something to await.
- `channel`: channels whose messages and room are awaited.
- `connection`: redis-py's asyncio connections, with this package's codec between object and byte.
- `embedded`: the asyncio client of a store in this process: commands finish at once, messages are
  awaited.
- `factory`: which classes clients for asyncio are.
- `line`: commands and calls of one connection: packed and put in line, and answered in order.
- `lines`: tasks that wait for locks, in a line for each lock, and are woken when it is released.
- `link`: one connection that many tasks use at once, their commands in one write per turn.
- `lock`: locks of a store in this process, which are waited for in the event loop.
- `native`: what both asyncio clients of a store are: its native methods, done when awaited.
- `objects`: objects for asyncio: in a store in this process, or on a server.
- `parking`: calls that met a lock and are tried again.
- `releases`: tasks that wait for locks of a store in this process, and how they hear of a release.
- `remote_channel`: channels by way of a server, for asyncio: threads make the steps.
- `remote`: the asyncio client of a server: redis-py's, whose calls share one connection.
- `remote_lock`: locks of a server, and how all locks for asyncio are waited for.
- `remote_objects`: objects on a server, for asyncio.
- `remote_releases`: tasks that wait for locks of a server, and how they hear of a release.
- `rescue`: reads that wait for a large or slow reply, sent again over another connection.
- `share`: the connection that the clients of one pool share on one event loop.
- `store`: the asyncio client of a store that needs no redis-py.
- `topology`: asyncio clients of a Redis Cluster, and of the master that a Sentinel names.
- `waiting`: tasks that wait for keys of a store in this process, each in its place in the queue.
- `within`: redis-py's asyncio connections to a store in this process.
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
    from undercroft.asyncio.store import Store
    from undercroft.asyncio.topology import RedisCluster, Sentinel
    from undercroft.asyncio.within import BlockingConnectionPool, ConnectionPool, StoreConnection

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
    "BlockingConnectionPool": "within",
    "ConnectionPool": "within",
    "Channel": "channel",
    "EmbeddedRedis": "embedded",
    "Objects": "objects",
    "Redis": "factory",
    "RedisCluster": "topology",
    "RemoteRedis": "remote",
    "Sentinel": "topology",
    "Store": "store",
    "StoreConnection": "within",
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
