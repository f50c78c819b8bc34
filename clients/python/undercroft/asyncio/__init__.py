"""Clients for asyncio, with the API of redis.asyncio.

- `base`: the class that all clients for asyncio have in common, which makes the kind that is meant.
- `call`: a command that was sent, as what redis-py's methods give: something to await.
- `connection`: redis-py's asyncio connections, with this package's codec between object and byte.
- `embedded`: the asyncio client of a store in this process: commands finish at once, messages are
  awaited.
- `factory`: which classes clients for asyncio are.
- `line`: commands and calls of one connection: packed and put in line, and answered in order.
- `link`: one connection that many tasks use at once, their commands in one write per turn.
- `lock`: locks of a store in this process, which are waited for in the event loop.
- `parking`: calls that met a lock and are tried again.
- `releases`: tasks that wait for locks of a store in this process, in line before each of them.
- `remote`: the asyncio client of a server: redis-py's, whose calls share one connection.
- `topology`: asyncio clients of a Redis Cluster, and of the master that a Sentinel names.
- `waiting`: tasks that wait for keys of a store in this process, each in its place in the queue.
"""

from types import ModuleType
from typing import TYPE_CHECKING, Any

import redis.asyncio
from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    ConnectionPool,
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

from undercroft.asyncio.factory import Redis
from undercroft.asyncio.remote import RemoteRedis
from undercroft.asyncio.topology import RedisCluster, Sentinel

if TYPE_CHECKING:
    from undercroft.asyncio.embedded import EmbeddedRedis

__all__ = [
    "AuthenticationError",
    "AuthenticationWrongNumberOfArgsError",
    "BlockingConnectionPool",
    "BusyLoadingError",
    "ChildDeadlockedError",
    "Connection",
    "ConnectionError",
    "ConnectionPool",
    "DataError",
    "EmbeddedRedis",
    "InvalidResponse",
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
    "StrictRedis",
    "TimeoutError",
    "UnixDomainSocketConnection",
    "WatchError",
    "default_backoff",
    "from_url",
]

# redis-py's other name for its client.
StrictRedis = Redis


def from_url(url: str, **options: Any) -> Redis:
    """Return a client of what a URL names, as :meth:`Redis.from_url` does."""
    return Redis.from_url(url, **options)


def __getattr__(name: str) -> Any:
    # Only what works in this process needs the native module.
    if name == "EmbeddedRedis":
        from undercroft.asyncio.embedded import EmbeddedRedis

        return EmbeddedRedis
    # What else redis-py has, which is not the same in all of its versions, but no modules: some
    # have the names of this package's.
    found = None if name.startswith("_") else getattr(redis.asyncio, name, None)
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
