"""Clients for asyncio, with the API of redis.asyncio."""

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

from undercroft.asyncio.base import Redis
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
