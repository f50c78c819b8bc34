"""redis-py's asyncio connections to a store in this process.

When redis-py writes commands, they run immediately, and their replies are added to the stream that
redis-py reads. The event loop adds messages and the replies to blocking commands.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import redis.asyncio
from redis.asyncio.connection import AbstractConnection

from undercroft._native import Locked, Peer
from undercroft.embedded.async_retries import left, parked
from undercroft.embedded.connection import Place, parse_url
from undercroft.remote.async_connection import _Plugged

if TYPE_CHECKING:
    from collections.abc import Iterable

    from undercroft._native import Client

# The number of seconds before a retry if another process holds a lock or the stream is full.
_RETRY = 0.01
# The number of unread bytes above which the stream accepts no more data.
_MOST = 1 << 20
# The longest timer, in seconds, that event loops accept.
_LONGEST = 86400.0


class Writer:
    """A stand-in for redis-py's stream writer, which runs the commands written to it."""

    def __init__(self, client: Client, reader: asyncio.StreamReader) -> None:
        """Create a writer that runs commands on a client's store and replies to a reader."""
        self._client = client
        self._peer = Peer(client)
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._watched: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._refused: Locked | None = None
        self._is_parked = False
        self._closed = False

    def write(self, data: bytes) -> None:
        """Run encoded commands until one finds a lock held."""
        try:
            self._peer.send(data)
        except Locked as refused:
            self._refused = refused
        else:
            self._fill()

    def writelines(self, data: Iterable[bytes]) -> None:
        """Run encoded commands until one finds a lock held."""
        self.write(b"".join(data))

    async def drain(self) -> None:
        """Wait until the commands that found a lock held have run."""
        refused, self._refused = self._refused, None
        if refused is not None:
            # Await the call, because a thread may run the commands and the loop must not block.
            self._is_parked = True
            try:
                await parked(self._client, refused, self._peer.ready)
            finally:
                self._is_parked = False
            self._fill()

    def close(self) -> None:
        """Close the connection."""
        if self._closed:
            return
        self._closed = True
        if not self._loop.is_closed():
            self._watch([], None)
            self._reader.feed_eof()
        self._peer.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed."""
        return self._closed

    async def wait_closed(self) -> None:
        """Return immediately, because `close` takes effect immediately."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ARG002
        """Return the default, because there is no socket."""
        return default

    def _fill(self) -> None:
        """Move replies to the stream, and make the loop watch for more replies."""
        if self._closed or self._is_parked:
            return
        buffered: bytearray = self._reader._buffer  # type: ignore[attr-defined]
        try:
            while len(buffered) <= _MOST:
                data = self._peer.take()
                if data is None:
                    self._watch(*self._peer.watched())
                    return
                if not data:
                    self._watch([], None)
                    self._reader.feed_eof()
                    return
                self._reader.feed_data(data)
        except Locked:
            pass
        except Exception as error:
            self._watch([], None)
            self._reader.set_exception(error)
            return
        self._watch([], _RETRY)

    def _watch(self, descriptors: list[int], seconds: float | None) -> None:
        """Call `_fill` again when a descriptor is readable or after ``seconds`` seconds."""
        if descriptors != self._watched:
            for descriptor in self._watched:
                if descriptor not in descriptors:
                    self._loop.remove_reader(descriptor)
            for descriptor in descriptors:
                if descriptor not in self._watched:
                    self._loop.add_reader(descriptor, self._fill)
            self._watched = descriptors
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if seconds is not None:
            self._timer = self._loop.call_later(min(seconds, _LONGEST), self._fill)


class StoreConnection(_Plugged, Place, AbstractConnection):
    """An asyncio redis-py connection whose commands run in this process.

    Its options are those of :class:`undercroft.StoreConnection`.
    """

    def __init__(self, *, store: str | os.PathLike[str], **options: Any) -> None:
        """Create a connection, which opens the store on first use."""
        self.take_options(store, options)
        super().__init__(**options)

    async def _connect(self) -> None:
        client = self.open()
        client._hurry(left)
        reader: Any = asyncio.StreamReader(limit=_MOST)
        writer: Any = Writer(client, reader)
        self._reader, self._writer = reader, writer


def pool_options(options: dict[str, Any], url: str) -> dict[str, Any]:
    """Return the options for a store's connection pool; the URL's options take precedence."""
    return {"connection_class": StoreConnection} | options | parse_url(url)


# The number of positional parameters before `connection_class` in a blocking pool.
_BEFORE_CLASS = 2


def _chosen(connection_class: Any, options: dict[str, Any]) -> Any:
    """Return the connection class for a pool, given its argument and options."""
    if connection_class is not None:
        return connection_class
    return StoreConnection if "store" in options else redis.asyncio.Connection


class ConnectionPool(redis.asyncio.ConnectionPool):
    """redis-py's connection pool, which also supports stores in this process."""

    def __init__(self, connection_class: Any = None, **options: Any) -> None:
        """Create a pool as redis-py does. With ``store``, its connections use that store."""
        super().__init__(_chosen(connection_class, options), **options)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> ConnectionPool:
        """Return a pool of connections to the server or store that a URL names."""
        if url.startswith("undercroft://"):
            return cls(**pool_options(options, url))
        return super().from_url(url, **options)


class BlockingConnectionPool(redis.asyncio.BlockingConnectionPool):
    """redis-py's blocking pool, whose users wait while all its connections are in use."""

    def __init__(self, *args: Any, connection_class: Any = None, **options: Any) -> None:
        """Create a pool as redis-py does. With ``store``, its connections use that store."""
        if len(args) < _BEFORE_CLASS:
            options["connection_class"] = _chosen(connection_class, options)
        super().__init__(*args, **options)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> BlockingConnectionPool:
        """Return a pool of connections to the server or store that a URL names."""
        if url.startswith("undercroft://"):
            return cls(**pool_options(options, url))
        return super().from_url(url, **options)
