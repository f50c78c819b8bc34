"""Redis data structures in shared memory, with redis-py's API.

What is asked of the package is imported then, so that a program that uses :class:`Store` alone
does not wait for redis-py.

- `__main__`: the undercroft command, as `python -m undercroft`.
- `_native`: the native half of the package.
- `asyncio`: clients for asyncio, with the API of redis.asyncio.
- `base`: the class that all clients have in common, which makes the kind that its arguments mean.
- `celery`: a result backend for Celery on a store in shared memory.
- `channel`: channels: bounded queues of values between processes.
- `client`: the client of a store: native where it is called most, redis-py's for everything else.
- `connection`: redis-py's connections and pools, with this package's codec between object and byte.
- `django`: a cache for Django, on a store in shared memory or on a server.
- `embedded`: what clients of stores in this process are made of.
- `extensions`: what clients have beyond redis-py's API: feeds, cached functions, locks, objects.
- `factory`: which classes clients of stores and of servers are.
- `flask_caching`: a cache for Flask-Caching, on a store in shared memory or on a server.
- `green`: waits that let other greenlets run, where gevent or eventlet has patched this process.
- `joblib`: a backend of joblib whose workers get and return arrays through a store.
- `mosec`: what the stages of a mosec service hand to each other.
- `objects`: arrays, bytes and messages that processes hand to each other without copying.
- `remote`: the client of a server: redis-py's, with a short way from call to reply.
- `replies`: from a reply to what a method of redis-py's returns.
- `resp`: RESP2 and RESP3 in pure Python: commands as bytes, and bytes as replies.
- `servers`: what clients of servers are made of.
- `sharing`: arrays that processes pickle on their way, which go through a store instead.
- `store`: the client of a store that needs no redis-py.
"""

from __future__ import annotations

import importlib
from types import ModuleType

# As typing's, which takes longer to import than a store to be opened.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from redis import (
        CredentialProvider,
        SentinelConnectionPool,
        UsernamePasswordCredentialProvider,
        default_backoff,
        exceptions,
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

    from undercroft._native import BusyError, CommandError, StoreError, UnavailableError
    from undercroft.channel import Channel, ChannelClosed, Delivery
    from undercroft.client import EmbeddedRedis
    from undercroft.connection import (
        BlockingConnectionPool,
        Connection,
        ConnectionPool,
        SSLConnection,
        UnixDomainSocketConnection,
    )
    from undercroft.embedded.scheme import register_scheme, unregister_scheme
    from undercroft.embedded.store_connection import StoreConnection
    from undercroft.factory import Redis
    from undercroft.objects import Objects, PickleRefused
    from undercroft.remote import RemoteRedis
    from undercroft.servers.topology import (
        RedisCluster,
        Sentinel,
        SentinelManagedConnection,
        SentinelManagedSSLConnection,
    )
    from undercroft.store import Store

    # redis-py's other name for its client.
    StrictRedis = Redis

__all__ = [
    "AuthenticationError",
    "AuthenticationWrongNumberOfArgsError",
    "BlockingConnectionPool",
    "BusyError",
    "BusyLoadingError",
    "Channel",
    "ChannelClosed",
    "ChildDeadlockedError",
    "CommandError",
    "Connection",
    "ConnectionError",
    "ConnectionPool",
    "CredentialProvider",
    "DataError",
    "Delivery",
    "EmbeddedRedis",
    "InvalidResponse",
    "Objects",
    "OutOfMemoryError",
    "PickleRefused",
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
    "StoreError",
    "StrictRedis",
    "TimeoutError",
    "UnavailableError",
    "UnixDomainSocketConnection",
    "UsernamePasswordCredentialProvider",
    "WatchError",
    "__version__",
    "default_backoff",
    "exceptions",
    "from_url",
    "register_scheme",
    "unregister_scheme",
]

# The native module's and the distribution's, which a test holds together.
__version__ = "0.1.0"

# Where the package's own names are. All others are redis-py's.
_HOMES = {
    "_native": ("BusyError", "CommandError", "StoreError", "UnavailableError"),
    "channel": ("Channel", "ChannelClosed", "Delivery"),
    "client": ("EmbeddedRedis",),
    "connection": (
        "BlockingConnectionPool",
        "Connection",
        "ConnectionPool",
        "SSLConnection",
        "UnixDomainSocketConnection",
    ),
    "embedded.scheme": ("register_scheme", "unregister_scheme"),
    "embedded.store_connection": ("StoreConnection",),
    "factory": ("Redis", "StrictRedis"),
    "objects": ("Objects", "PickleRefused"),
    "remote": ("RemoteRedis",),
    "servers.topology": (
        "RedisCluster",
        "Sentinel",
        "SentinelManagedConnection",
        "SentinelManagedSSLConnection",
    ),
    "store": ("Store",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def from_url(url: str, **options: Any) -> Redis:
    """Return a client of what a URL names, as :meth:`Redis.from_url` does."""
    from undercroft.factory import Redis

    return Redis.from_url(url, **options)


def __getattr__(name: str) -> Any:
    if name == "asyncio":
        return importlib.import_module("undercroft.asyncio")
    if name == "exceptions":
        return importlib.import_module("redis.exceptions")
    home = _HOME.get(name)
    if home is not None:
        found = getattr(importlib.import_module(f"undercroft.{home}"), name)
    elif name.startswith("_"):
        found = None
    else:
        # What else redis-py has is not the same in all of its versions. Its modules are not meant:
        # some have the names of this package's, which would then not be imported.
        found = getattr(importlib.import_module("redis"), name, None)
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
