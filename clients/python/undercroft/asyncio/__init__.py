"""Clients for asyncio, with the API of redis.asyncio."""

from undercroft.asyncio.remote import Redis

__all__ = ["Redis"]
