"""Redis data structures in shared memory, with redis-py's API."""

from typing import TYPE_CHECKING, Any

from undercroft.base import Redis
from undercroft.connection import (
    BlockingConnectionPool,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)
from undercroft.remote import RemoteRedis

if TYPE_CHECKING:
    from undercroft.client import EmbeddedRedis

__all__ = [
    "BlockingConnectionPool",
    "Connection",
    "ConnectionPool",
    "EmbeddedRedis",
    "Redis",
    "RemoteRedis",
    "SSLConnection",
    "UnixDomainSocketConnection",
]


def __getattr__(name: str) -> Any:
    # Only what works in this process needs the native module.
    if name == "EmbeddedRedis":
        from undercroft.client import EmbeddedRedis

        return EmbeddedRedis
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
