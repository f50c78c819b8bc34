"""Redis data structures in shared memory, with redis-py's API.

Names are imported on first use, so that a program that uses only :class:`Store` does not load
redis-py.

- `__main__`: runs the undercroft command for `python -m undercroft`.
- `_native`: the native extension module.
- `async_base`, `asyncio`: the common base class of asyncio clients; the names of their package.
- `awaited`: makes an object awaitable and closable, as redis-py's asyncio objects are.
- `base`: the common base class of all clients, which picks the client class from its arguments.
- `celery`, `django`, `flask_caching`, `joblib`, `mosec`: the names of the classes in `frameworks`
  that programs import or write in their settings.
- `channels`: channels, which are bounded queues of values between processes.
- `embedded`: clients for a store in this process.
- `extensions`: additions to redis-py's API: feeds, cached functions, locks.
- `frameworks`: integrations with frameworks.
- `objects`: arrays, bytes and messages that processes exchange without copying.
- `remote`: clients for a server.
- `sharing`: sends pickled arrays through a store.

A module whose name begins with `async_` is the asyncio variant of the module next to it. Programs
import this module, `undercroft.asyncio`, `undercroft.sharing` and the modules for frameworks; all
other modules are private.
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

    from undercroft._native import (
        BusyError,
        ChannelClosed,
        CommandError,
        StoreError,
        UnavailableError,
    )
    from undercroft.base import Redis
    from undercroft.channels.channel import Channel, Delivery
    from undercroft.embedded.client import EmbeddedRedis
    from undercroft.embedded.connection import StoreConnection
    from undercroft.embedded.scheme import register_scheme, unregister_scheme
    from undercroft.embedded.store import Store
    from undercroft.objects.embedded import Objects
    from undercroft.objects.encoding import PickleRefused
    from undercroft.remote.client import RemoteRedis
    from undercroft.remote.connection import (
        BlockingConnectionPool,
        Connection,
        ConnectionPool,
        SSLConnection,
        UnixDomainSocketConnection,
    )
    from undercroft.remote.topology import (
        RedisCluster,
        Sentinel,
        SentinelManagedConnection,
        SentinelManagedSSLConnection,
    )

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
    "_native": ("BusyError", "ChannelClosed", "CommandError", "StoreError", "UnavailableError"),
    "base": ("Redis", "StrictRedis"),
    "channels.channel": ("Channel", "Delivery"),
    "embedded.client": ("EmbeddedRedis",),
    "embedded.connection": ("StoreConnection",),
    "embedded.scheme": ("register_scheme", "unregister_scheme"),
    "embedded.store": ("Store",),
    "objects.embedded": ("Objects",),
    "objects.encoding": ("PickleRefused",),
    "remote.client": ("RemoteRedis",),
    "remote.connection": (
        "BlockingConnectionPool",
        "Connection",
        "ConnectionPool",
        "SSLConnection",
        "UnixDomainSocketConnection",
    ),
    "remote.topology": (
        "RedisCluster",
        "Sentinel",
        "SentinelManagedConnection",
        "SentinelManagedSSLConnection",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def from_url(url: str, **options: Any) -> Redis:
    """Return a client for a URL, as :meth:`Redis.from_url` does."""
    from undercroft.base import Redis

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
