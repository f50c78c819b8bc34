"""A Flask-Caching cache in shared memory or on a server.

    app.config["CACHE_TYPE"] = "undercroft.flask_caching.Cache"
    app.config["CACHE_REDIS_URL"] = "undercroft://cache"

The URL is any URL that :meth:`undercroft.Redis.from_url` accepts. ``CACHE_OPTIONS`` are its
options, and ``CACHE_REDIS_DB`` sets the option ``db``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask_caching.backends.rediscache import RedisCache

import undercroft

if TYPE_CHECKING:
    from flask import Flask

__all__ = ["Cache"]

DEFAULT_URL = "undercroft://cache"


class Cache(RedisCache):
    """Flask-Caching's Redis cache on a store in shared memory or on a server."""

    @classmethod
    def factory(
        cls, app: Flask, config: dict[str, Any], args: list[Any], kwargs: dict[str, Any]
    ) -> Cache:
        """Return the cache that an application's settings specify."""
        del app, args
        options = config.get("CACHE_OPTIONS") or {}
        # Separate the cache's own arguments from the client's options, which Flask-Caching merges
        # into `kwargs`.
        own = {name: value for name, value in kwargs.items() if name not in options}
        url = config.get("CACHE_REDIS_URL")
        if not url:
            for name in ("CACHE_REDIS_HOST", "CACHE_REDIS_PORT", "CACHE_REDIS_PASSWORD"):
                if config.get(name):
                    raise ValueError(f"expected only CACHE_REDIS_URL; remove {name}")
            url = DEFAULT_URL
        if (db := config.get("CACHE_REDIS_DB")) is not None:
            options = {"db": db} | options
        return cls(
            host=undercroft.Redis.from_url(url, **options),
            key_prefix=config.get("CACHE_KEY_PREFIX"),
            **own,
        )
