"""redis-py's connections and pools, with this package's codec between object and byte.

How a connection is made, authenticated, kept alive and retried is redis-py's code; what is
packed, parsed and handed from call to call is here.
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
from undercroft.green import is_patched, readable
from undercroft.resp import MISSING, Packer, Push, Reader
from undercroft.servers.command_kinds import is_repeatable

if TYPE_CHECKING:
    from collections.abc import Iterator

# The native codec, and the native line of a connection for asyncio, unless they are missing or
# not wanted.
NATIVE: Any = None
LINE: Any = None
if os.environ.get("UNDERCROFT_PURE", "0") in ("", "0"):
    with suppress(ImportError):
        from undercroft._native import Line, Wire

        NATIVE, LINE = Wire, Line

VERSION: tuple[Any, ...] = tuple(redis.VERSION)

# redis-py 5.0 makes sets of RESP3's sets, later ones make lists of them.
SETS = VERSION < (5, 1)
# What get_connection has to be called with: a name that nobody reads, in older ones.
NAME: tuple[str, ...] = ("_",) if VERSION < (5, 3) else ()
# How a message that nobody asked for is given to its handlers has changed twice.
PUSH_HANDLER = "push_handler_func" if VERSION < (5, 1) else "handle_push_response"
PUSH_ARGUMENTS: tuple[Any, ...] = (
    (False, True)
    if "push_request" in inspect.signature(_RESP3Parser.handle_push_response).parameters
    else ()
)

CLOSED = "Connection closed by server."
DEMOTED = "The previous master is now a slave"
_UNSET: Any = object()
# What says that a socket has nothing now; TLS has its own words for it.
_WAITS = (BlockingIOError, builtins.TimeoutError)
_TLS_WAITS = ("SSLWantReadError", "SSLWantWriteError")


def make_reader(encoder: Any, error: Any) -> Any:
    """Return a reader of replies for connections with this encoder."""
    if NATIVE is not None:
        text = encoder.encoding, encoder.encoding_errors
        return NATIVE(error, encoder.decode_responses, *text, SETS)
    encoding = encoder.encoding if encoder.decode_responses else None
    return Reader(encoding, encoder.encoding_errors, error, SETS)


def make_packer(encoder: Any) -> Any:
    """Return a packer of commands for connections with this encoder."""
    if NATIVE is not None:
        return NATIVE(ResponseError, False, encoder.encoding, encoder.encoding_errors)
    return Packer(encoder.encoding, encoder.encoding_errors, encoder.encode)


def fatal(reply: Any) -> ConnectionError | None:
    """Return the error that makes a connection useless: a reply, or the first of EXEC's."""
    first = reply[0] if type(reply) is list and reply else reply
    return first if isinstance(first, ConnectionError) else None


class Parser(_RESP3Parser):
    """Reads replies of either protocol for redis-py's connections."""

    # redis-py looks into the buffer of its own parser, which this one has not.
    _buffer = None

    def __init__(self, socket_read_size: int) -> None:
        """Make a parser that reads so many bytes at once."""
        super().__init__(socket_read_size)  # type: ignore[no-untyped-call]
        self._reader: Any = None
        # The native reader where it may use the socket itself, which TLS does not allow.
        self.wire: Any = None
        # Whether a message that nobody asked for is an answer, too.
        self.push_request = False

    def on_connect(self, connection: Any) -> None:
        """Begin to read from a connection's socket."""
        sock = connection._sock
        encoder = connection.encoder
        self._reader = make_reader(encoder, self.parse_error)
        # Native code that waits for a socket stops the hub of patched ones.
        if NATIVE is not None and type(sock) is socket.socket and not is_patched():
            self._reader.attach(sock.fileno(), sock.family == socket.AF_UNIX)
            self.wire = connection.wire = self._reader
        self._sock = sock
        self.encoder = encoder

    def on_disconnect(self) -> None:
        """Forget the socket, and what came from it."""
        self._sock = None
        self._reader = None
        self.wire = None
        self.encoder = None

    def quiet(self) -> bool:
        """Return whether there is a connection, and nothing has come over it."""
        replies, wire = self._reader, self.wire
        sock: Any = self._sock
        if wire is not None:
            return bool(wire.quiet())
        if replies is None or replies.has_data():
            return False
        return not (readable([sock], 0) or (hasattr(sock, "pending") and sock.pending()))

    def can_read(self, timeout: float | None = 0) -> bool:
        """Return whether something has come, waiting for it so many seconds."""
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
        """Take what the socket has, or what comes in time."""
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
        """Return the next published message as redis-py shows it, or what comes before one.

        That is ``MISSING`` where nothing has come in so many seconds. The native reader has the
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
                # A text that cannot be decoded keeps no later message from its receiver.
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
        """Give a message to those who handle it, and return what they make of it."""
        handle: Any = getattr(self, PUSH_HANDLER)
        return handle(message, *PUSH_ARGUMENTS)


def mark(error: Exception, owed: tuple[Any, ...] | None) -> None:
    """Note with an error that a command may have run which is not to run a second time."""
    if owed and not is_refusal(error) and not is_repeatable(owed):
        error.may_have_run = True  # type: ignore[attr-defined]


def is_refusal(error: Exception) -> bool:
    """Return whether an error is the server's answer to a command that it did not run."""
    return isinstance(error, BusyLoadingError | AuthenticationError) or error.args == (DEMOTED,)


def published(reply: Any) -> Any:
    """Return a published message as redis-py shows it, and any other reply as it is."""
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
    """Return our parser to use in place of one of redis-py's, with its exceptions.

    What is not redis-py's own is meant, and used as it is.
    """
    if not parser_class.__module__.startswith("redis."):
        return parser_class
    if (parser_class, ours) not in _parsers:
        members = {"EXCEPTION_CLASSES": parser_class.EXCEPTION_CLASSES}
        _parsers[parser_class, ours] = type("Parser", (ours,), members)
    return _parsers[parser_class, ours]


class _Plugged:
    """What the connections of this package have beyond redis-py's."""

    # What redis-py's connections have.
    _parser: Any
    _command_packer: Any
    _sock: Any
    _host_error: Any
    encoder: Any
    health_check_interval: Any
    socket_timeout: Any
    send_packed_command: Any

    # redis-py 5 has no connections that ask to be made anew.
    _should_reconnect = False
    # The parser's native reader, while there is one that may use the socket.
    wire: Any = None
    # The command that was sent in redis-py's way and has no reply.
    _owed: tuple[Any, ...] | None = None

    def set_parser(self, parser_class: Any) -> None:
        """Use a parser; in place of one of redis-py's the one of this package."""
        super().set_parser(plugged(parser_class, Parser))  # type: ignore[misc]

    def _construct_command_packer(self, packer: Any) -> Any:
        if packer is not None:
            return packer
        return make_packer(self.encoder)

    def pack_commands(self, commands: Any) -> Any:
        """Return several commands as bytes to send."""
        if isinstance(self._command_packer, NATIVE or Packer):
            return self._command_packer.pack_many(commands)
        return super().pack_commands(commands)  # type: ignore[misc]

    def send_command(self, *args: Any, **options: Any) -> Any:
        """Send a command."""
        self._owed = None
        super().send_command(*args, **options)  # type: ignore[misc]
        # Those that greet a new connection have been sent before.
        self._owed = args

    def read_response(self, disable_decoding: bool = False, **options: Any) -> Any:
        """Return the reply to a command that was sent."""
        # With hiredis installed redis-py 5 does not tell its parser.
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
        """Return whether there is a connection, and nothing has come over it."""
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
        """Return the reply to a command that was sent, after which this came or was raised."""
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
        """Send a command and return its reply, in redis-py's way."""
        try:
            self.send_command(*args)
            return self.read_response(not decode)
        except (DataError, ResponseError):
            # Nothing has been sent, or the whole reply has come.
            raise
        except BaseException:
            self.disconnect()
            raise

    def _broken_off(self, error: BaseException) -> None:
        """Disconnect after an error of the native reader, and raise it as redis-py would.

        The caller raises what is no error of the system's.
        """
        if isinstance(error, DataError):
            # Nothing has been sent.
            return
        # Half a command, or half a reply, is not for the next one to find.
        self.disconnect()
        error.may_have_run = True  # type: ignore[attr-defined]
        if isinstance(error, OSError):
            raised = ConnectionError(
                f"Error {error.errno} while talking to {self._host_error()}. {error.strerror}."
            )
            raised.may_have_run = True  # type: ignore[attr-defined]
            raise raised from error

    def exchange(self, commands: list[Any]) -> list[Any] | None:
        """Send the commands of a pipeline, and return their replies, errors among them.

        Returns ``None``, with nothing sent, where that cannot be done natively.
        """
        wire, sock = self.wire, self._sock
        if wire is None or sock is None or self.health_check_interval:
            return None
        messages: list[Any] = []
        try:
            replies = wire.exchange(commands, messages, sock.gettimeout())
            for message in messages:
                self._parser._pushed(message)
            return None if replies is None else self._checked(replies)
        except BaseException as error:
            self._broken_off(error)
            raise

    def exchange_packed(self, packed: Any, decode: list[bool]) -> list[Any]:
        """Send commands that have been packed, and return their replies, errors among them."""
        try:
            self.send_packed_command(packed)
            return self._checked([self._next(each) for each in decode])
        except BaseException:
            # Replies that were not read are not for the next one to find.
            self.disconnect()
            raise

    def _next(self, decode: bool) -> Any:
        """Return the next reply, which may be an error."""
        try:
            return self.read_response(not decode)
        except ResponseError as error:
            return error

    def _checked(self, replies: list[Any]) -> list[Any]:
        """Return replies, unless they say that the connection is of no use."""
        return replies


class HintsAtStores:
    """Says how a store is named, where a host that looks like the name of one is not known."""

    host: str

    def _error_message(self, exception: BaseException) -> str:
        message: str = super()._error_message(exception)  # type: ignore[misc]
        if isinstance(exception, socket.gaierror) and "." not in self.host:
            message += f" If a store of this machine is meant: undercroft://{self.host}"
        return message


class Connection(_Plugged, HintsAtStores, redis.Connection):
    """A connection over TCP."""


class SSLConnection(_Plugged, HintsAtStores, redis.SSLConnection):
    """A connection over TCP with TLS."""


class UnixDomainSocketConnection(_Plugged, redis.UnixDomainSocketConnection):
    """A connection over a unix socket."""


_CONNECTIONS: dict[type[Any], type[Any]] = {
    redis.Connection: Connection,
    redis.SSLConnection: SSLConnection,
    redis.UnixDomainSocketConnection: UnixDomainSocketConnection,
}

_pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()


# A blocking pool's arguments in front of its connections' class.
_BEFORE_CLASS = 3


def _choose(options: dict[str, Any]) -> None:
    """Let a pool that is told which store is meant have connections to stores."""
    if "store" in options and "connection_class" not in options:
        from undercroft.embedded.store_connection import StoreConnection

        options["connection_class"] = StoreConnection


def _from_url(kind: Any, theirs: Any, url: str, options: dict[str, Any]) -> Any:
    """Return a pool of this kind, which redis-py makes where the URL names a server."""
    if not url.startswith(SCHEME):
        return theirs(url, **options)
    from undercroft.embedded.store_connection import pool_options

    return kind(**pool_options(options, url))


class _Held(set[Any]):
    """A set that may change while another thread goes through it."""

    def __iter__(self) -> Iterator[Any]:
        """Return what goes through the elements that there are now."""
        return iter(self.copy())

    def copy(self) -> set[Any]:
        """Return a set of its own with the same elements."""
        return set(self)


class ConnectionPool(redis.ConnectionPool):
    """redis-py's pool of connections, with a short way for a call that needs one.

    Every single step of that way is one of the interpreter's, which no other thread comes
    between, so that it takes no lock: a connection is idle, then nowhere, then in use.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make a pool as redis-py does; with ``store``, of connections to that store."""
        if not args:
            _choose(kwargs)
        super().__init__(*args, **kwargs)
        self._plug()

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a pool of connections to what a URL names.

        With ``undercroft://`` these are :class:`undercroft.StoreConnection`, whose commands run in
        this process.
        """
        made: Self = _from_url(cls, super().from_url, url, options)
        return made

    def _plug(self) -> None:
        self.connection_class = _CONNECTIONS.get(self.connection_class, self.connection_class)
        self._in_use_connections: set[Any] = _Held(self._in_use_connections)
        _pools.add(self)

    def reset(self) -> None:
        """Forget all connections, as redis-py does."""
        super().reset()
        self._in_use_connections = _Held()

    @classmethod
    def adopt(cls, pool: redis.ConnectionPool) -> None:
        """Make a pool that redis-py has made, and that is not in use, one of this class."""
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
        """Take a connection back."""
        if connection._should_reconnect or connection.pid != self.pid:
            self.release(connection)
            return
        wire = connection.wire
        if wire is not None and wire.suspect():
            connection.disconnect()
        try:
            self._in_use_connections.remove(connection)
        except KeyError:
            # The pool has begun anew, or others have given it back.
            return
        self._available_connections.append(connection)

    # An interpreter that ends stops its daemon threads wherever they are, also with the lock
    # held: then nobody may wait for it, and the connections close themselves.

    def release(self, connection: Any) -> None:
        """Take a connection back, as redis-py does."""
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
        """Count the connections that go, as redis-py does from 7 on."""
        end = getattr(super(), "__del__", None)
        if end is not None and not sys.is_finalizing():
            end()

    def _forked(self) -> None:
        """Begin anew in a forked child, whose parent's threads may have held the locks."""
        self._lock = threading.RLock()
        self._fork_lock = threading.RLock()
        self.reset()


class BlockingConnectionPool(redis.BlockingConnectionPool):
    """redis-py's pool whose users wait while all connections are in use."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make a pool as redis-py does; with ``store``, of connections to that store."""
        if len(args) < _BEFORE_CLASS:
            _choose(kwargs)
        super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]
        self.connection_class = _CONNECTIONS.get(self.connection_class, self.connection_class)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a pool of connections to what a URL names, as :class:`ConnectionPool` does."""
        made: Self = _from_url(cls, super().from_url, url, options)
        return made


def _forked() -> None:
    for pool in list(_pools):
        pool._forked()


os.register_at_fork(after_in_child=_forked)
