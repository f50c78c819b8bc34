"""Clients for asyncio, with the API of redis.asyncio."""

from typing import TYPE_CHECKING, Any

from undercroft.asyncio.base import Redis
from undercroft.asyncio.remote import RemoteRedis
from undercroft.asyncio.topology import RedisCluster

if TYPE_CHECKING:
    from undercroft.asyncio.embedded import EmbeddedRedis

__all__ = ["EmbeddedRedis", "Redis", "RedisCluster", "RemoteRedis", "StrictRedis", "from_url"]

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
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
