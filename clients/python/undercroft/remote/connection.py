"""redis-py's connections and pools with this package's codec.

redis-py opens, authenticates, checks and retries connections. This module encodes commands, decodes
replies, and assigns connections to calls.
"""

from __future__ import annotations

import builtins
import inspect
import os
import socket
import sys
import threading
import weakref
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import redis
from redis._parsers.resp3 import _RESP3Parser
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    DataError,
    ResponseError,
    TimeoutError,
)

from undercroft.embedded.address import SCHEME
from undercroft.frameworks.green import is_patched, readable
from undercroft.remote.command_kinds import is_repeatable
from undercroft.remote.resp import MISSING, Packer, Push, Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

# The native codec and an asyncio connection's native queue. None if the native module is missing or
# disabled.
NATIVE: Any = None
LINE: Any = None
if os.environ.get("UNDERCROFT_PURE", "0") in ("", "0"):
    with suppress(ImportError):
        from undercroft._native import Line, Wire

        NATIVE, LINE = Wire, Line

VERSION: tuple[Any, ...] = tuple(redis.VERSION)

# redis-py 5.0 returns RESP3 sets as sets; later versions return them as lists.
SETS = VERSION < (5, 1)
# The arguments of get_connection. Older versions require a name, which they ignore.
NAME: tuple[str, ...] = ("_",) if VERSION < (5, 3) else ()
# The name and arguments of the push message handler, which changed twice between versions.
PUSH_HANDLER = "push_handler_func" if VERSION < (5, 1) else "handle_push_response"
PUSH_ARGUMENTS: tuple[Any, ...] = (
    (False, True)
    if "push_request" in inspect.signature(_RESP3Parser.handle_push_response).parameters
    else ()
)

CLOSED = "Connection closed by server."
DEMOTED = "The previous master is now a slave"
_UNSET: Any = object()
# Exceptions that a socket raises if no data is available. TLS sockets raise other exceptions.
_WAITS = (BlockingIOError, builtins.TimeoutError)
_TLS_WAITS = ("SSLWantReadError", "SSLWantWriteError")


def make_reader(encoder: Any, error: Any) -> Any:
    """Return a reply reader for connections with this encoder."""
    if NATIVE is not None:
        text = encoder.encoding, encoder.encoding_errors
        return NATIVE(error, encoder.decode_responses, *text, SETS)
    encoding = encoder.encoding if encoder.decode_responses else None
    return Reader(encoding, encoder.encoding_errors, error, SETS)


def make_packer(encoder: Any) -> Any:
    """Return a command packer for connections with this encoder."""
    if NATIVE is not None:
        return NATIVE(ResponseError, False, encoder.encoding, encoder.encoding_errors)
    return Packer(encoder.encoding, encoder.encoding_errors, encoder.encode)


def fatal(reply: Any) -> ConnectionError | None:
    """Return the reply, or the first item of EXEC's reply, if it is a connection error."""
    first = reply[0] if type(reply) is list and reply else reply
    return first if isinstance(first, ConnectionError) else None


class Parser(_RESP3Parser):
    """Reads replies of either protocol for redis-py's connections."""

    # redis-py accesses this attribute of its parsers; this parser has no such buffer.
    _buffer = None

    def __init__(self, socket_read_size: int) -> None:
        """Create a parser that reads ``socket_read_size`` bytes at a time."""
        super().__init__(socket_read_size)  # type: ignore[no-untyped-call]
        self._reader: Any = None
        # The native reader if it can use the socket directly, as it can without TLS.
        self.wire: Any = None
        # Whether the awaited reply can be a push message, as for SUBSCRIBE.
        self.push_request = False

    def on_connect(self, connection: Any) -> None:
        """Start reading from a connection's socket."""
        sock = connection._sock
        encoder = connection.encoder
        self._reader = make_reader(encoder, self.parse_error)
        # With patched sockets, a native wait for a socket blocks the hub and all greenlets.
        if NATIVE is not None and type(sock) is socket.socket and not is_patched():
            self._reader.attach(sock.fileno(), sock.family == socket.AF_UNIX)
            self.wire = connection.wire = self._reader
        self._sock = sock
        self.encoder = encoder

    def on_disconnect(self) -> None:
        """Release the socket and discard the received data."""
        self._sock = None
        self._reader = None
        self.wire = None
        self.encoder = None

    def quiet(self) -> bool:
        """Return whether the connection is open and has no unread data."""
        replies, wire = self._reader, self.wire
        sock: Any = self._sock
        if wire is not None:
            return bool(wire.quiet())
        if replies is None or replies.has_data():
            return False
        return not (readable([sock], 0) or (hasattr(sock, "pending") and sock.pending()))

    def can_read(self, timeout: float | None = 0) -> bool:
        """Return whether data is available, waiting up to ``timeout`` seconds for it."""
        replies = self._reader
        sock: Any = self._sock
        if replies is None:
            raise ConnectionError(CLOSED)
        if replies.has_data():
            return True
        if not (hasattr(sock, "pending") and sock.pending()) and not readable([sock], timeout):
            return False
        return self._receive(replies, 0, patient=False)

    def _receive(self, replies: Any, timeout: Any, patient: bool = True) -> bool:
        """Receive available data, waiting for data until the timeout."""
        sock = self._sock
        if sock is None:
            raise ConnectionError(CLOSED)
        before = sock.gettimeout()
        try:
            if timeout is not _UNSET:
                sock.settimeout(timeout)
            data = sock.recv(self.socket_read_size)
        except OSError as error:
            if not isinstance(error, _WAITS) and type(error).__name__ not in _TLS_WAITS:
                raise
            if patient:
                raise TimeoutError("Timeout reading from socket") from None
            return False
        finally:
            if timeout is not _UNSET and sock.fileno() >= 0:
                sock.settimeout(before)
        if not data:
            raise ConnectionError(CLOSED)
        replies.feed(data)
        return True

    def read_response(
        self,
        disable_decoding: bool = False,
        push_request: bool | None = None,
        timeout: Any = _UNSET,
    ) -> Any:
        """Return the next reply."""
        replies = self._reader
        if replies is None:
            raise ConnectionError(CLOSED)
        if push_request is None:
            push_request = self.push_request
        if type(timeout) is object:
            timeout = _UNSET
        while True:
            while (reply := replies.gets(not disable_decoding)) is MISSING:
                self._receive(replies, timeout)
            if type(reply) is Push:
                answer = self._pushed(reply)
                if push_request:
                    return answer
            elif (error := fatal(reply)) is not None:
                raise error
            else:
                return reply

    def message(self, timeout: float | None) -> Any:
        """Return the next published message in redis-py's format, or a reply that precedes it.

        Returns ``MISSING`` if nothing arrives within ``timeout`` seconds. The native reader has the
        same method (``clients/python/src/wire/mod.rs``).
        """
        replies, end = self._reader, None
        while True:
            sock: Any = self._sock
            if replies is None or sock is None:
                raise ConnectionError(CLOSED)
            try:
                reply = replies.gets(True)
            except UnicodeDecodeError:
                # Skip the string that cannot be decoded, so that later messages can be read.
                replies.gets(False)
                raise
            if reply is not MISSING:
                return published(reply)
            left = timeout
            if timeout:
                now = monotonic()
                end = now + timeout if end is None else end
                left = max(0, end - now)
            is_pending = hasattr(sock, "pending") and sock.pending()
            if not is_pending and not readable([sock], left):
                return MISSING
            self._receive(replies, 0, patient=False)

    def _pushed(self, message: list[Any]) -> Any:
        """Pass a push message to its handler and return the handler's result."""
        handle: Any = getattr(self, PUSH_HANDLER)
        return handle(message, *PUSH_ARGUMENTS)


def mark(error: Exception, owed: tuple[Any, ...] | None) -> None:
    """Mark an error if the command may have run and must not be retried."""
    if owed and not is_refusal(error) and not is_repeatable(owed):
        error.may_have_run = True  # type: ignore[attr-defined]


def is_refusal(error: Exception) -> bool:
    """Return whether a server rejected the command instead of running it."""
    return isinstance(error, BusyLoadingError | AuthenticationError) or error.args == (DEMOTED,)


def published(reply: Any) -> Any:
    """Return a published message in redis-py's format, or any other reply unchanged."""
    if not isinstance(reply, list) or not reply or not isinstance(reply[0], bytes | str):
        return reply
    kind = reply[0] if isinstance(reply[0], str) else reply[0].decode("latin-1")
    if (kind, len(reply)) not in _MESSAGES:
        return reply
    pattern = reply[1] if kind == "pmessage" else None
    return {"type": kind, "pattern": pattern, "channel": reply[-2], "data": reply[-1]}


_MESSAGES = {("message", 3), ("smessage", 3), ("pmessage", 4)}
_parsers: dict[Any, Any] = {}


def plugged(parser_class: Any, ours: Any) -> Any:
    """Return this package's replacement for a redis-py parser, with the parser's exceptions.

    A parser that is not redis-py's own is returned unchanged.
    """
    if not parser_class.__module__.startswith("redis."):
        return parser_class
    if (parser_class, ours) not in _parsers:
        members = {"EXCEPTION_CLASSES": parser_class.EXCEPTION_CLASSES}
        _parsers[parser_class, ours] = type("Parser", (ours,), members)
    return _parsers[parser_class, ours]


class _Plugged:
    """A mixin that makes redis-py's connections use this package's codec."""

    # Attributes of redis-py's connections.
    _parser: Any
    _command_packer: Any
    _sock: Any
    _host_error: Any
    encoder: Any
    health_check_interval: Any
    socket_timeout: Any
    send_packed_command: Any

    # The default for redis-py 5, whose connections never request a reconnect.
    _should_reconnect = False
    # The parser's native reader as long as it can use the socket directly, otherwise None.
    wire: Any = None
    # The command that was sent by redis-py's code and whose reply is pending.
    _owed: tuple[Any, ...] | None = None

    def set_parser(self, parser_class: Any) -> None:
        """Set the parser, replacing redis-py's parsers with this package's."""
        super().set_parser(plugged(parser_class, Parser))  # type: ignore[misc]

    def _construct_command_packer(self, packer: Any) -> Any:
        if packer is not None:
            return packer
        return make_packer(self.encoder)

    def pack_commands(self, commands: Any) -> Any:
        """Return several commands encoded for sending."""
        if isinstance(self._command_packer, NATIVE or Packer):
            return self._command_packer.pack_many(commands)
        return super().pack_commands(commands)  # type: ignore[misc]

    def send_command(self, *args: Any, **options: Any) -> Any:
        """Send a command."""
        self._owed = None
        super().send_command(*args, **options)  # type: ignore[misc]
        # Set `_owed` after sending, because a new connection first sends its handshake commands.
        self._owed = args

    def read_response(self, disable_decoding: bool = False, **options: Any) -> Any:
        """Return the reply to a command that was sent."""
        # With hiredis installed, redis-py 5 does not pass `push_request` to its parser.
        self._parser.push_request = options.get("push_request", False)
        owed, self._owed = self._owed, None
        try:
            return super().read_response(disable_decoding, **options)  # type: ignore[misc]
        except (ConnectionError, TimeoutError) as error:
            mark(error, owed)
            raise

    def disconnect(self, *args: Any, **options: Any) -> None:
        """Close the connection, as redis-py does."""
        self.wire = None
        super().disconnect(*args, **options)  # type: ignore[misc]

    def quiet(self) -> bool:
        """Return whether the connection is open and has no unread data."""
        parser = self._parser
        return isinstance(parser, Parser) and parser.quiet()

    def round_trip(self, args: tuple[Any, ...], decode: bool) -> Any:
        """Send a command and return its reply."""
        wire, sock = self.wire, self._sock
        if wire is None or sock is None or self.health_check_interval:
            return self._by_parts(args, decode)
        try:
            came, raised = wire.call(args, decode, sock.gettimeout()), False
        except BaseException as error:
            came, raised = error, True
        return self.settle(came, raised, decode)

    def settle(self, came: Any, raised: bool, decode: bool) -> Any:
        """Return the reply to a natively sent command, given its first response or exception."""
        wire, sock = self.wire, self._sock
        try:
            if raised:
                raise came
            while type(came) is Push:
                self._parser._pushed(came)
                if wire is None or sock is None:
                    raise ConnectionError(CLOSED)
                came = wire.receive(decode, sock.gettimeout())
        except BaseException as error:
            self._broken_off(error)
            raise
        if isinstance(came, Exception):
            if isinstance(came, ConnectionError):
                self.disconnect()
            raise came
        return came

    def _by_parts(self, args: tuple[Any, ...], decode: bool) -> Any:
        """Send a command and return its reply through redis-py's code."""
        try:
            self.send_command(*args)
            return self.read_response(not decode)
        except (DataError, ResponseError):
            # Either no command was sent, or the complete reply was read.
            raise
        except BaseException:
            self.disconnect()
            raise

    def _broken_off(self, error: BaseException) -> None:
        """Close the connection after a native reader's error; raise OS errors as redis-py does.

        The caller raises any other error.
        """
        if isinstance(error, DataError):
            # No data was sent.
            return
        # Close the connection, so that the next call does not read the rest of a reply.
        self.disconnect()
        error.may_have_run = True  # type: ignore[attr-defined]
        if isinstance(error, OSError):
            raised = ConnectionError(
                f"Error {error.errno} while talking to {self._host_error()}. {error.strerror}."
            )
            raised.may_have_run = True  # type: ignore[attr-defined]
            raise raised from error

    def exchange(self, commands: list[Any]) -> list[Any] | None:
        """Send a pipeline's commands and return their replies, including errors.

        Returns ``None`` without sending anything if the native code does not support the commands.
        """
        return self.end_exchange() if self.begin_exchange(commands) else None

    def begin_exchange(self, commands: list[Any]) -> bool:
        """Send a pipeline's commands, whose replies ``end_exchange`` returns.

        Returns False without sending anything if the native code does not support the commands.
        """
        wire, sock = self.wire, self._sock
        if wire is None or sock is None or self.health_check_interval:
            return False
        try:
            is_sent: bool = wire.begin_exchange(commands, sock.gettimeout())
        except BaseException as error:
            self._broken_off(error)
            raise
        return is_sent

    def end_exchange(self) -> list[Any]:
        """Return the replies to the commands that ``begin_exchange`` sent, including errors."""
        wire, sock = self.wire, self._sock
        messages: list[Any] = []
        try:
            if wire is None or sock is None:
                # Another thread has closed the connection since the commands were sent.
                raise ConnectionError(CLOSED)
            replies: list[Any] = wire.end_exchange(messages, sock.gettimeout())
            for message in messages:
                self._parser._pushed(message)
            return self._checked(replies)
        except BaseException as error:
            self._broken_off(error)
            raise

    def exchange_packed(self, packed: Any, decode: list[bool]) -> list[Any]:
        """Send encoded commands and return their replies, including errors."""
        try:
            self.send_packed_command(packed)
            return self._checked([self._next(each) for each in decode])
        except BaseException:
            # Close the connection, so that the next call does not read replies of this call.
            self.disconnect()
            raise

    def _next(self, decode: bool) -> Any:
        """Return the next reply, which may be an error."""
        try:
            return self.read_response(not decode)
        except ResponseError as error:
            return error

    def _checked(self, replies: list[Any]) -> list[Any]:
        """Return replies unchanged. Subclasses raise if the connection must not be used again."""
        return replies


class HintsAtStores:
    """Adds a hint to the error for an unknown host that may be the name of a store."""

    host: str

    def _error_message(self, exception: BaseException) -> str:
        message: str = super()._error_message(exception)  # type: ignore[misc]
        if isinstance(exception, socket.gaierror) and "." not in self.host:
            message += f" For a store on this machine use undercroft://{self.host}"
        return message


class Connection(_Plugged, HintsAtStores, redis.Connection):
    """A TCP connection."""


class SSLConnection(_Plugged, HintsAtStores, redis.SSLConnection):
    """A TCP connection with TLS."""


class UnixDomainSocketConnection(_Plugged, redis.UnixDomainSocketConnection):
    """A Unix socket connection."""


_CONNECTIONS: dict[type[Any], type[Any]] = {
    redis.Connection: Connection,
    redis.SSLConnection: SSLConnection,
    redis.UnixDomainSocketConnection: UnixDomainSocketConnection,
}

_pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()


# The number of positional parameters before `connection_class` in a blocking pool.
_BEFORE_CLASS = 3


def _choose(options: dict[str, Any]) -> None:
    """Select the store connection class for a pool that is created with a store."""
    if "store" in options and "connection_class" not in options:
        from undercroft.embedded.connection import StoreConnection

        options["connection_class"] = StoreConnection


def _from_url(kind: Any, theirs: Any, url: str, options: dict[str, Any]) -> Any:
    """Return a pool for a URL; redis-py creates it if the URL names a server."""
    if not url.startswith(SCHEME):
        return theirs(url, **options)
    from undercroft.embedded.connection import pool_options

    return kind(**pool_options(options, url))


class _Held(set[Any]):
    """A set that other threads may change during iteration."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over a copy of the current elements."""
        return iter(self.copy())

    def copy(self) -> set[Any]:
        """Return a plain set with the same elements."""
        return set(self)


class ConnectionPool(redis.ConnectionPool):
    """redis-py's connection pool with a fast path for calls that need a connection.

    Each step of the fast path is a single operation of the interpreter, which no other thread can
    interrupt, so it needs no lock. While a connection moves from idle to in use, it is briefly in
    neither set.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a pool as redis-py does. With ``store``, its connections use that store."""
        if not args:
            _choose(kwargs)
        super().__init__(*args, **kwargs)
        self._plug()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a pool of connections to the server or store that a URL names.

        With ``undercroft://`` the connections are of class :class:`undercroft.StoreConnection`, and
        their commands run in this process.
        """
        made: Self = _from_url(cls, super().from_url, url, options)
        return made

    def _plug(self) -> None:
        self.connection_class = _CONNECTIONS.get(self.connection_class, self.connection_class)
        self._in_use_connections: set[Any] = _Held(self._in_use_connections)
        _pools.add(self)

    def reset(self) -> None:
        """Drop all connections, as redis-py does."""
        super().reset()
        self._in_use_connections = _Held()

    @classmethod
    def adopt(cls, pool: redis.ConnectionPool) -> None:
        """Convert an unused redis-py pool to this class."""
        pool.__class__ = cls
        pool._plug()  # type: ignore[attr-defined]

    def take(self) -> Any:
        """Return a connection that is ready for a command."""
        try:
            connection: Any = self._available_connections.pop()
        except IndexError:
            return self.get_connection(*NAME)
        self._in_use_connections.add(connection)
        wire = connection.wire
        if connection.quiet() if wire is None else wire.quiet():
            return connection
        self.release(connection)
        return self.get_connection(*NAME)

    def give(self, connection: Any) -> None:
        """Return a connection to the pool."""
        if connection._should_reconnect or connection.pid != self.pid:
            self.release(connection)
            return
        wire = connection.wire
        if wire is not None and wire.suspect():
            connection.disconnect()
        try:
            self._in_use_connections.remove(connection)
        except KeyError:
            # The pool was reset, or the connection was returned earlier.
            return
        self._available_connections.append(connection)

    # At exit the interpreter stops daemon threads at any point, possibly while they hold the pool's
    # lock. No thread may wait for that lock afterwards, so `release` closes the connection instead.

    def release(self, connection: Any) -> None:
        """Return a connection to the pool, as redis-py does."""
        if sys.is_finalizing():
            connection.disconnect()
            return
        wire = getattr(connection, "wire", None)
        if wire is not None and wire.suspect():
            connection.disconnect()
        super().release(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Close the connections, as redis-py does."""
        if not sys.is_finalizing():
            super().disconnect(inuse_connections)

    def __del__(self) -> None:
        """Record the dropped connections, as redis-py 7 and later do."""
        end = getattr(super(), "__del__", None)
        if end is not None and not sys.is_finalizing():
            end()

    def _forked(self) -> None:
        """Reset the pool in a forked child, because parent threads may have held its locks."""
        self._lock = threading.RLock()
        self._fork_lock = threading.RLock()
        self.reset()


class BlockingConnectionPool(redis.BlockingConnectionPool):
    """redis-py's blocking pool, whose users wait while all its connections are in use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a pool as redis-py does. With ``store``, its connections use that store."""
        if len(args) < _BEFORE_CLASS:
            _choose(kwargs)
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.connection_class = _CONNECTIONS.get(self.connection_class, self.connection_class)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a pool for a URL, as :class:`ConnectionPool` does."""
        made: Self = _from_url(cls, super().from_url, url, options)
        return made


def _forked() -> None:
    for pool in list(_pools):
        pool._forked()


os.register_at_fork(after_in_child=_forked)
