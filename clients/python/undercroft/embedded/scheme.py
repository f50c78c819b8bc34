"""redis-py's own functions that take a URL, taught the scheme of stores in shared memory."""

from __future__ import annotations

import threading
from typing import Any

import redis.asyncio.connection
import redis.connection

import undercroft.asyncio.store_connection
from undercroft.embedded import store_connection
from undercroft.embedded.address import SCHEME

_lock = threading.Lock()
# What redis-py reads URLs with, by the module in which it looks that up.
_taught: dict[Any, Any] = {}


def _reading(module: Any, kind: type[Any]) -> Any:
    theirs = module.parse_url

    def parse_url(url: str) -> Any:
        if url.startswith(SCHEME):
            return {"connection_class": kind} | store_connection.parse_url(url)
        return theirs(url)

    return parse_url


def register_scheme() -> None:
    """Let ``redis.from_url`` and its like take URLs that begin with ``undercroft://``.

    These are the methods ``from_url`` of redis-py's clients and pools, those for asyncio among
    them, and whatever calls them: the clients are redis-py's, and the commands run in this process.
    It holds for the whole process until :func:`unregister_scheme`; called twice it changes nothing.
    """
    with _lock:
        if not _taught:
            kinds: dict[Any, type[Any]] = {
                redis.connection: store_connection.StoreConnection,
                redis.asyncio.connection: undercroft.asyncio.store_connection.StoreConnection,
            }
            for module, kind in kinds.items():
                reading = _reading(module, kind)
                _taught[module] = module.parse_url, reading
                module.parse_url = reading


def unregister_scheme() -> None:
    """Let redis-py refuse such URLs again, as before :func:`register_scheme`.

    Pools that were made meanwhile go on.
    """
    with _lock:
        for module, (theirs, reading) in _taught.items():
            # What somebody else has put there since then stays.
            if module.parse_url is reading:
                module.parse_url = theirs
        _taught.clear()
