"""Redis data structures in shared memory, with redis-py's API."""

from undercroft.client import Redis

__all__ = ["Redis"]
