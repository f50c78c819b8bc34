"""A Django cache in shared memory or on a server."""

from undercroft.frameworks.django import Cache, CacheClient

__all__ = ["Cache", "CacheClient"]
