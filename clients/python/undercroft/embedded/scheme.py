"""Adds the URL scheme of stores in shared memory to redis-py's own functions."""

from __future__ import annotations

import threading
from typing import Any

import redis.asyncio.connection
import redis.connection

from undercroft.embedded import async_connection, connection
from undercroft.embedded.address import SCHEME

_lock = threading.Lock()
# redis-py's original URL parser and its replacement, by the module that calls the parser.
_taught: dict[Any, Any] = {}


def _reading(module: Any, kind: type[Any]) -> Any:
    theirs = module.parse_url

    def parse_url(url: str) -> Any:
        if url.startswith(SCHEME):
            return {"connection_class": kind} | connection.parse_url(url)
        return theirs(url)

    return parse_url


def register_scheme() -> None:
    """Make ``redis.from_url`` and similar functions accept ``undercroft://`` URLs.

    This affects the ``from_url`` methods of redis-py's clients and pools, including those for
    asyncio, and all their callers. The resulting clients are redis-py's, and their commands run in
    this process.

    The change applies to the entire process until :func:`unregister_scheme` is called. A second
    call has no effect.
    """
    with _lock:
        if not _taught:
            kinds: dict[Any, type[Any]] = {
                redis.connection: connection.StoreConnection,
                redis.asyncio.connection: async_connection.StoreConnection,
            }
            for module, kind in kinds.items():
                reading = _reading(module, kind)
                _taught[module] = module.parse_url, reading
                module.parse_url = reading


def unregister_scheme() -> None:
    """Undo :func:`register_scheme`, so that redis-py rejects ``undercroft://`` URLs again.

    Existing pools continue to work.
    """
    with _lock:
        for module, (theirs, reading) in _taught.items():
            # Do not replace a parser that other code has installed since then.
            if module.parse_url is reading:
                module.parse_url = theirs
        _taught.clear()
