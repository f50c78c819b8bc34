"""redis-py's connections to a store in this process, for clients and programs that are redis-py's.

A connection sends what it would send to a server to its :class:`undercroft._native.Peer`, which
runs it and answers in the same bytes. Everything between those and the caller is redis-py's.
"""

from __future__ import annotations

import inspect
import os
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from redis.connection import URL_QUERY_ARGUMENT_PARSERS, AbstractConnection
from redis.exceptions import ConnectionError, TimeoutError

from undercroft._native import Client, Peer
from undercroft.connection import _UNSET, CLOSED, Parser, _Plugged, make_reader, plugged
from undercroft.embedded.address import OPTIONS, SCHEME, database_of, told
from undercroft.embedded.options import without_meaning
from undercroft.green import is_patched, wait

# What a connection tells the store, beside which one it is.
_TERMS = ("capacity", "maxmemory", "maxmemory_policy", "strict", "on_removed", "timeout")
# Bytes that are received at once.
_READ = 1 << 24


def parse_url(url: str) -> dict[str, Any]:
    """Return what redis-py's connections to the store at a URL are made with.

    The URL's query may hold this package's options of stores and redis-py's of connections.
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
    """What connections of both kinds know of their store."""

    # There is no socket that others could use.
    is_within = True

    # What redis-py's connections have.
    db: Any
    client_name: Any

    _terms: dict[str, Any]

    def take_options(self, store: str | os.PathLike[str], options: dict[str, Any]) -> None:
        """Take what is the store's out of a connection's options, and what means nothing."""
        terms = {name: options.pop(name, None) for name in _TERMS}
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
        """Open the store, or create it."""
        return Client(**self._terms, like_redis_py=True)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        """Return what the connection's text shows."""
        pieces = [("store", self._terms["store"]), ("db", self.db)]
        if self.client_name:
            pieces.append(("client_name", self.client_name))
        return pieces

    def _host_error(self) -> str:
        return str(self._terms["store"])

    def _error_message(self, exception: BaseException) -> str:
        return f"Error while connecting to {self._host_error()}: {exception}"


class Socket:
    """What redis-py uses of a socket, for a connection to a store in this process."""

    def __init__(self, peer: Peer, timeout: float | None) -> None:
        """Send to a peer, and receive from it for so many seconds."""
        self.peer = peer
        self._timeout = timeout
        # As redis-py does with a socket.
        self.sendall = peer.send

    def settimeout(self, timeout: float | None) -> None:
        """Set how many seconds a receiver waits."""
        self._timeout = timeout

    def gettimeout(self) -> float | None:
        """Return how many seconds a receiver waits."""
        return self._timeout

    def recv(self, most: int, flags: int = 0) -> bytes:  # noqa: ARG002
        """Return so many bytes at most; none where the connection has ended."""
        if not is_patched():
            return self.peer.receive(most, self._timeout)
        if not wait(self.peer, self._timeout):
            raise TimeoutError("Timeout reading from socket")
        return self.peer.receive(most, 0)

    def recv_into(self, buffer: Any, most: int = 0, flags: int = 0) -> int:
        """Put bytes into a buffer and return how many they are."""
        data = self.recv(most or len(buffer), flags)
        buffer[: len(data)] = data
        return len(data)

    def fileno(self) -> int:
        """Return what a closed socket returns: there is no descriptor."""
        return -1

    def getpeername(self) -> str:
        """Return nothing, as a socket without a name does."""
        return ""

    def getsockname(self) -> str:
        """Return nothing, as a socket without a name does."""
        return ""

    def shutdown(self, how: int) -> None:  # noqa: ARG002
        """End the connection."""
        self.peer.close()

    def close(self) -> None:
        """End the connection."""
        self.peer.close()


class StoreParser(Parser):
    """Reads replies of either protocol that a peer in this process gives."""

    _peer: Peer | None = None
    # There is no socket to wait for.
    message: Any = None

    def on_connect(self, connection: Any) -> None:
        """Begin to read from a connection's peer."""
        sock = connection._sock
        self._sock = sock
        self._peer = sock.peer
        self.encoder = connection.encoder
        self._reader = make_reader(connection.encoder, self.parse_error)

    def on_disconnect(self) -> None:
        """Forget the peer, and what came from it."""
        super().on_disconnect()
        self._peer = None

    def quiet(self) -> bool:
        """Return whether there is a connection, and nothing has come over it."""
        replies, peer = self._reader, self._peer
        if replies is None or peer is None or replies.has_data():
            return False
        return not peer.ready()

    def can_read(self, timeout: float | None = 0) -> bool:
        """Return whether something has come, waiting for it so many seconds."""
        replies, peer = self._reader, self._peer
        if replies is None or peer is None:
            raise ConnectionError(CLOSED)
        if replies.has_data():
            return True
        if not (peer.ready() if timeout == 0 else wait(peer, timeout)):
            return False
        return self._receive(replies, 0, patient=False)

    def _receive(self, replies: Any, timeout: Any, patient: bool = True) -> bool:
        """Take what has come, or what comes in time."""
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
    """A connection of redis-py's whose commands run in this process.

    ``store`` names the store as :class:`undercroft.EmbeddedRedis` says, and so do ``capacity``,
    ``maxmemory``, ``maxmemory_policy`` and ``timeout``. All other options are those of redis-py's
    connections; those of networks mean nothing.
    """

    def __init__(self, store: str | os.PathLike[str], **options: Any) -> None:
        """Make a connection, which opens the store when it is first used."""
        self.take_options(store, options)
        self.socket_timeout = options.pop("socket_timeout", None)
        super().__init__(**options)
        # Until redis-py 5.0 had it only for connections over TCP.
        self.socket_timeout = self.socket_timeout
        self.pid: int = os.getpid()

    def set_parser(self, parser_class: Any) -> None:
        """Use a parser; in place of one of redis-py's the one of this module."""
        take: Any = AbstractConnection.set_parser
        take(self, plugged(parser_class, StoreParser))

    def _connect(self) -> Any:
        return Socket(Peer(self.open()), self.socket_timeout)


def pool_options(options: dict[str, Any], url: str) -> dict[str, Any]:
    """Return the options of a pool of connections to a store: those of the URL win."""
    return {"connection_class": StoreConnection} | options | parse_url(url)
