"""Redis data structures in shared memory, with redis-py's API.

Names are imported on first use, so that a program that uses only :class:`Store` does not load
redis-py.

- `__main__`: runs the undercroft command for `python -m undercroft`.
- `_native`: the native extension module.
- `asyncio`: clients for asyncio, with the API of redis.asyncio.
- `base`: the common base class of all clients, which picks the client class from its arguments.
- `celery`: a Celery result backend that stores results in shared memory.
- `channel`: channels, which are bounded queues of values between processes.
- `client`: the client for a store, with native methods for common commands and redis-py's methods
  for all others.
- `connection`: redis-py's connections and pools with this package's codec.
- `django`: a Django cache in shared memory or on a server.
- `embedded`: the helper modules for store clients.
- `extensions`: additions to redis-py's API: feeds, cached functions, locks, objects.
- `factory`: the concrete classes of store and server clients.
- `flask_caching`: a Flask-Caching cache in shared memory or on a server.
- `green`: waits that allow other greenlets to run in a process patched by gevent or eventlet.
- `joblib`: a joblib backend whose workers receive and return arrays through a store.
- `mosec`: passes results between the stages of a mosec service through a store.
- `objects`: arrays, bytes and messages that processes exchange without copying.
- `remote`: redis-py's client for a server, with less overhead per call.
- `replies`: converts replies to the results of redis-py's methods.
- `resp`: RESP2 and RESP3 in pure Python: encodes commands and decodes replies.
- `servers`: the helper modules for server clients.
- `sharing`: sends pickled arrays through a store.
- `store`: the store client that does not need redis-py.
"""

from __future__ import annotations

import importlib
from types import ModuleType

# Defined here because importing typing takes longer than opening a store.
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

    # An alias that redis-py also defines.
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

# The version of the distribution and of the native module. A test checks that they are equal.
__version__ = "0.1.0"

# The modules that define this package's own names. All other names come from redis-py.
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
    """Return a client for a URL, as :meth:`Redis.from_url` does."""
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
        # Look up all other names in redis-py at run time, because they differ between its versions.
        # Exclude redis-py's modules: some have the same name as a module of this package and would
        # hide it.
        found = getattr(importlib.import_module("redis"), name, None)
    if found is None or isinstance(found, ModuleType):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
