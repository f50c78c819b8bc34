"""redis-py's asyncio connections with this package's codec.

redis-py's clients use these connections for calls that need a separate connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis.asyncio
from redis._parsers.resp3 import _AsyncRESP3Parser
from redis.exceptions import ConnectionError, TimeoutError

from undercroft.remote.connection import (
    CLOSED,
    PUSH_ARGUMENTS,
    HintsAtStores,
    fatal,
    make_packer,
    make_reader,
    mark,
    plugged,
)
from undercroft.remote.resp import MISSING, Push

if TYPE_CHECKING:
    from collections.abc import Iterable

# redis-py's name for the argument that sets the push-message handler, which differs between
# versions.
_PUSH_HANDLER = "push_handler_func" if PUSH_ARGUMENTS else "handle_push_response"


class Parser(_AsyncRESP3Parser):
    """Reads replies of either protocol for redis-py's asyncio connections."""

    def __init__(self, socket_read_size: int) -> None:
        """Create a parser that reads ``socket_read_size`` bytes at a time."""
        super().__init__(socket_read_size)  # type: ignore[no-untyped-call]
        self._replies: Any = None
        # Whether the awaited reply can be a push message, as for SUBSCRIBE.
        self.push_request = False

    def on_connect(self, connection: Any) -> None:
        """Start reading from a connection's stream."""
        super().on_connect(connection)  # type: ignore[no-untyped-call]
        self._replies = make_reader(connection.encoder, self.parse_error)

    def on_disconnect(self) -> None:
        """Discard the data received from the stream."""
        super().on_disconnect()  # type: ignore[no-untyped-call]
        self._replies = None

    async def can_read(self) -> bool:
        """Return whether unread data is available."""
        left = self._replies is not None and self._replies.has_data()
        return left or bool(await super().can_read())

    async def can_read_destructive(self) -> bool:
        """Return whether unread data is available. This is an old name for `can_read`."""
        left = self._replies is not None and self._replies.has_data()
        return left or bool(await super().can_read_destructive())

    async def read_response(
        self, disable_decoding: bool = False, push_request: bool | None = None
    ) -> Any:
        """Return the next reply."""
        replies = self._replies
        stream: Any = self._stream
        if replies is None:
            raise ConnectionError(CLOSED)
        if push_request is None:
            push_request = self.push_request
        while True:
            while (reply := replies.gets(not disable_decoding)) is MISSING:
                data = await stream.read(self._read_size)
                if not data:
                    raise ConnectionError(CLOSED)
                replies.feed(data)
            if type(reply) is Push:
                answer = getattr(self, _PUSH_HANDLER)(reply, *PUSH_ARGUMENTS)
                if hasattr(answer, "__await__"):
                    answer = await answer
                if push_request:
                    return answer
            elif (error := fatal(reply)) is not None:
                raise error
            else:
                return reply


class _Plugged:
    """A mixin that makes redis-py's connections use this package's codec."""

    encoder: Any
    _parser: Any
    _packer: Any = None
    # The most recently packed command, and the sent command whose reply is pending.
    _packed: tuple[Any, ...] | None = None
    _owed: tuple[Any, ...] | None = None

    def set_parser(self, parser_class: Any) -> None:
        """Set the parser, replacing redis-py's parsers with this package's."""
        super().set_parser(plugged(parser_class, Parser))  # type: ignore[misc]

    def pack_command(self, *args: Any) -> Any:
        """Return a command encoded for sending."""
        packed = self.pack_commands((args,))
        self._packed = args
        return packed

    def pack_commands(self, commands: Iterable[Any]) -> Any:
        """Return several commands encoded for sending."""
        self._packed = None
        if self._packer is None:
            self._packer = make_packer(self.encoder)
        return self._packer.pack_many(commands)

    async def send_packed_command(self, *args: Any, **more: Any) -> None:
        """Send encoded commands."""
        packed, self._owed = self._packed, None
        send: Any = super().send_packed_command  # type: ignore[misc]
        await send(*args, **more)
        # Set `_owed` after sending, because a new connection first sends its handshake commands.
        self._owed = packed

    async def read_response(self, disable_decoding: bool = False, *args: Any, **more: Any) -> Any:
        """Return the reply to a command that was sent."""
        # With hiredis installed, redis-py 5 does not pass `push_request` to its parser.
        self._parser.push_request = bool(more.get("push_request", False))
        read: Any = super().read_response  # type: ignore[misc]
        owed, self._owed = self._owed, None
        try:
            return await read(disable_decoding, *args, **more)
        except (ConnectionError, TimeoutError) as error:
            mark(error, owed)
            raise


class Connection(_Plugged, redis.asyncio.Connection):
    """A TCP connection."""


class SSLConnection(_Plugged, redis.asyncio.SSLConnection):
    """A TCP connection with TLS."""


class _Hinting(HintsAtStores, redis.asyncio.Connection):
    """redis-py's TCP connection, whose errors explain how to open a store's URL."""


class _HintingSSL(HintsAtStores, redis.asyncio.SSLConnection):
    """redis-py's TLS connection, whose errors explain how to open a store's URL."""


# Maps redis-py's connection classes to their replacements.
HINTING: dict[type[Any], type[Any]] = {
    redis.asyncio.Connection: _Hinting,
    redis.asyncio.SSLConnection: _HintingSSL,
}
