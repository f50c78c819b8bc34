"""redis-py's connections to a store in this process, for redis-py's clients.

A connection passes the bytes that it would send to a server to its
:class:`undercroft._native.Peer`, which runs the commands and returns the replies in the same
format. redis-py's code does everything else.
"""

from __future__ import annotations

import inspect
import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.connection import URL_QUERY_ARGUMENT_PARSERS, AbstractConnection
from redis.exceptions import ConnectionError, TimeoutError

from undercroft._native import Client, Peer
from undercroft.embedded.address import OPTIONS, SCHEME, TERMS, database_of, told
from undercroft.embedded.options import without_meaning
from undercroft.frameworks.green import is_patched, wait
from undercroft.remote.connection import _UNSET, CLOSED, Parser, _Plugged, make_reader, plugged

# The maximum number of bytes to receive at a time.
_READ = 1 << 24


def parse_url(url: str) -> dict[str, Any]:
    """Return the arguments for redis-py's connections to the store at a URL.

    The URL's query can contain this package's store options and redis-py's connection options.
    """
    parts = urlsplit(url)
    options: dict[str, Any] = {}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        read: Any = OPTIONS.get(name) or URL_QUERY_ARGUMENT_PARSERS.get(name)
        try:
            options[name] = text if read is None else read(text)
        except (TypeError, ValueError) as error:
            raise ValueError(f"invalid value for {name!r} in {url!r}: {error}") from None
    if parts.path and not parts.netloc:
        options["store"] = unquote(parts.path)
    else:
        store, db = database_of(f"{SCHEME}{unquote(parts.netloc + parts.path)}")
        options["store"] = store
        if db is not None:
            options.setdefault("db", db)
    return options


class Place:
    """A mixin for synchronous and asyncio connections to a store."""

    # There is no socket that several tasks could share.
    is_within = True

    # Attributes of redis-py's connections.
    db: Any
    client_name: Any

    _terms: dict[str, Any]

    def take_options(self, store: str | os.PathLike[str], options: dict[str, Any]) -> None:
        """Remove the store's options, and those that stores ignore, from a connection's options."""
        terms = {name: options.pop(name, None) for name in TERMS}
        given = told(store, terms, without_meaning)
        self._terms = {name: value for name, value in given.items() if value is not None}
        known: set[str] = set()
        for kind in type(self).__mro__:
            made: Any = vars(kind).get("__init__", object.__init__)
            known |= inspect.signature(made).parameters.keys()
        for name in [*options]:
            if name in ("host", "port") or (name not in known and name in without_meaning()):
                del options[name]

    def open(self) -> Client:
        """Open the store, creating it if it does not exist."""
        return Client(**self._terms, like_redis_py=True)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        """Return the parts of the connection's repr."""
        pieces = [("store", self._terms["store"]), ("db", self.db)]
        if self.client_name:
            pieces.append(("client_name", self.client_name))
        return pieces

    def _host_error(self) -> str:
        return str(self._terms["store"])

    def _error_message(self, exception: BaseException) -> str:
        return f"Error while connecting to {self._host_error()}: {exception}"


class Socket:
    """The part of a socket's interface that redis-py uses, for a store in this process."""

    def __init__(self, peer: Peer, timeout: float | None) -> None:
        """Connect to a peer, with a timeout in seconds for receiving."""
        self.peer = peer
        self._timeout = timeout
        # redis-py calls this method on its sockets.
        self.sendall = peer.send

    def settimeout(self, timeout: float | None) -> None:
        """Set the timeout for receiving, in seconds."""
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        """Return the timeout for receiving, in seconds."""
        return self._timeout

    def recv(self, most: int, flags: int = 0) -> bytes:  # noqa: ARG002
        """Return at most ``most`` bytes, or no bytes if the connection is closed."""
        if not is_patched():
            return self.peer.receive(most, self._timeout)
        if not wait(self.peer, self._timeout):
            raise TimeoutError("Timeout reading from socket")
        return self.peer.receive(most, 0)

    def recv_into(self, buffer: Any, most: int = 0, flags: int = 0) -> int:
        """Receive bytes into a buffer and return their number."""
        data = self.recv(most or len(buffer), flags)
        buffer[: len(data)] = data
        return len(data)

    def fileno(self) -> int:
        """Return -1, as a closed socket does, because there is no descriptor."""
        return -1

    def getpeername(self) -> str:
        """Return an empty string, as an unnamed socket does."""
        return ""

    def getsockname(self) -> str:
        """Return an empty string, as an unnamed socket does."""
        return ""

    def shutdown(self, how: int) -> None:  # noqa: ARG002
        """Close the connection."""
        self.peer.close()

    def close(self) -> None:
        """Close the connection."""
        self.peer.close()


class StoreParser(Parser):
    """Reads replies of either protocol from a peer in this process."""

    _peer: Peer | None = None
    # Disable the base class's method, which waits on a socket.
    message: Any = None

    def on_connect(self, connection: Any) -> None:
        """Start reading from a connection's peer."""
        sock = connection._sock
        self._sock = sock
        self._peer = sock.peer
        self.encoder = connection.encoder
        self._reader = make_reader(connection.encoder, self.parse_error)

    def on_disconnect(self) -> None:
        """Release the peer and discard the received data."""
        super().on_disconnect()
        self._peer = None

    def quiet(self) -> bool:
        """Return whether the connection is open and has no unread data."""
        replies, peer = self._reader, self._peer
        if replies is None or peer is None or replies.has_data():
            return False
        return not peer.ready()

    def can_read(self, timeout: float | None = 0) -> bool:
        """Return whether data is available, waiting up to ``timeout`` seconds for it."""
        replies, peer = self._reader, self._peer
        if replies is None or peer is None:
            raise ConnectionError(CLOSED)
        if replies.has_data():
            return True
        if not (peer.ready() if timeout == 0 else wait(peer, timeout)):
            return False
        return self._receive(replies, 0, patient=False)

    def _receive(self, replies: Any, timeout: Any, patient: bool = True) -> bool:
        """Receive available data, waiting for data until the timeout."""
        peer = self._peer
        if peer is None:
            raise ConnectionError(CLOSED)
        data = peer.take()
        if data is None:
            sock: Any = self._sock
            seconds = sock.gettimeout() if timeout is _UNSET else timeout
            if not wait(peer, seconds):
                if patient:
                    raise TimeoutError("Timeout reading from socket")
                return False
            data = peer.receive(_READ, 0)
        if not data:
            raise ConnectionError(CLOSED)
        replies.feed(data)
        return True


class StoreConnection(_Plugged, Place, AbstractConnection):
    """A redis-py connection whose commands run in this process.

    :class:`undercroft.EmbeddedRedis` describes ``store``, ``capacity``, ``maxmemory``,
    ``maxmemory_policy`` and ``timeout``. All other options are those of redis-py's connections;
    network options are ignored.
    """

    def __init__(self, store: str | os.PathLike[str], **options: Any) -> None:
        """Create a connection, which opens the store on first use."""
        self.take_options(store, options)
        self.socket_timeout = options.pop("socket_timeout", None)
        super().__init__(**options)
        # Set this attribute, which only TCP connections have up to redis-py 5.0.
        self.socket_timeout = self.socket_timeout
        self.pid: int = os.getpid()

    def set_parser(self, parser_class: Any) -> None:
        """Set the parser, replacing redis-py's parsers with this module's."""
        take: Any = AbstractConnection.set_parser
        take(self, plugged(parser_class, StoreParser))

    def _connect(self) -> Any:
        return Socket(Peer(self.open()), self.socket_timeout)


def pool_options(options: dict[str, Any], url: str) -> dict[str, Any]:
    """Return the options for a store's connection pool; the URL's options take precedence."""
    return {"connection_class": StoreConnection} | options | parse_url(url)
