"""The names of redis-py's options, which a store in shared memory ignores."""

from __future__ import annotations

import inspect

import redis
import redis.asyncio
import redis.asyncio.connection
import redis.connection

# Options that name a server in addition to the store, and are therefore rejected.
_PLACES = frozenset({"host", "port", "path", "unix_socket_path", "connection_pool"})


_found: set[str] = set()


def without_meaning() -> set[str]:
    """Return the names of redis-py's connection options, which stores ignore."""
    # Compute the names once, and only if a redis-py connection option is used.
    if not _found:
        _found.update(_names())
    return _found


def _names() -> set[str]:
    known: set[str] = set(redis.connection.URL_QUERY_ARGUMENT_PARSERS)
    for module in (redis, redis.asyncio):
        connections = (module.Connection, module.SSLConnection, module.UnixDomainSocketConnection)
        pools = (module.ConnectionPool, module.BlockingConnectionPool)
        for made in (module.Redis, *connections, *pools):
            for kind in made.__mro__:
                known |= inspect.signature(kind.__init__).parameters.keys()
    return known - _PLACES - {"self", "args", "kwargs"}
