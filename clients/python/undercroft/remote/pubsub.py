"""redis-py's PubSub for a server, which reads and converts messages in one native step.

A forked child has a copy of the object, but the subscription belongs to its parent, because both
would otherwise read from one connection. The copy therefore raises an error until the child
subscribes again.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis.asyncio.client
import redis.client
from redis.exceptions import ConnectionError, TimeoutError

from undercroft.remote.connection import VERSION, _Plugged
from undercroft.remote.replies import observability
from undercroft.remote.resp import MISSING, Push

if TYPE_CHECKING:
    from collections.abc import Iterator

# Whether a wait without a timeout obeys the socket's timeout, as in redis-py before version 8.
_IS_LIMITED = VERSION < (8,)
INHERITED = (
    "the subscription belongs to the parent process, and this process has missed messages since "
    "the fork; subscribe again"
)

_SUBSCRIBING = ("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE")

# The number of forks between the program's first process and this process.
_forks = 0
# Connections of the parent's event loop, referenced here so that this child does not close them.
# Closing a connection removes it from the poller that parent and child share.
_parents: list[Any] = []


class _Inherited:
    """A mixin that detects in a forked child that a subscription belongs to the parent."""

    # These attributes belong to redis-py's classes.
    connection: Any
    channels: Any
    patterns: Any
    shard_channels: Any

    # The value of `_forks` when the object subscribed, and whether this process has dropped the
    # parent's subscription.
    _born = 0
    _is_left = False

    @property
    def _is_inherited(self) -> bool:
        return getattr(self, "connection", None) is not None and self._born != _forks

    def _check(self) -> None:
        """Raise an error if the subscription belongs to another process."""
        if self._born != _forks and self._is_inherited:
            self._leave()
            self._is_left = True
        if self._is_left:
            raise ConnectionError(INHERITED)

    def _leave(self) -> None:
        """Drop the connection, which the parent still uses, and the list of subscriptions."""
        self.connection = None
        self.channels, self.patterns, self.shard_channels = {}, {}, {}

    def _begin(self, name: Any) -> None:
        """Check before a command. A new subscription after an error belongs to this process."""
        if self._is_left and not self._is_inherited and name in _SUBSCRIBING:
            self._is_left = False
        self._check()
        if self.connection is None:
            self._born = _forks


class PubSub(_Inherited, redis.client.PubSub):
    """redis-py's subscriber to messages, with a native reader."""

    @classmethod
    def adopt(cls, made: Any) -> Any:
        """Convert an unused redis-py subscriber to this class."""
        if type(made) is redis.client.PubSub:
            made.__class__ = cls
        return made

    def _leave(self) -> None:
        connection = self.connection
        super()._leave()
        # Replace the locks, which the parent's threads may have held.
        self._lock = threading.RLock()
        self.subscribed_event = threading.Event()
        # Disconnect, which closes only this process's descriptor.
        with suppress(OSError):
            connection.disconnect()

    def reset(self) -> None:
        """Drop the connection and all subscriptions."""
        if self._is_inherited:
            self._leave()
        self._is_left = False
        super().reset()

    def execute_command(self, *args: Any) -> Any:
        """Run a command such as SUBSCRIBE."""
        self._begin(args[0])
        return super().execute_command(*args)  # type: ignore[no-untyped-call]

    def parse_response(self, block: bool = True, timeout: float = 0) -> Any:
        """Return the next response. Unless ``block`` is set, wait at most ``timeout`` seconds."""
        self._check()
        return super().parse_response(block, timeout)  # type: ignore[no-untyped-call]

    def get_message(
        self, ignore_subscribe_messages: bool = False, timeout: float | None = 0.0
    ) -> Any:
        """Return the next message, or ``None`` if none arrives within ``timeout`` seconds."""
        self._check()
        connection = self.connection
        if (
            isinstance(connection, _Plugged)
            and self.subscribed_event.is_set()
            and not connection.health_check_interval
            and not connection._should_reconnect
            and self.push_handler_func is None
            and observability._provider_manager is None
            and (read := getattr(connection.wire or connection._parser, "message", None))
        ):
            is_limited = timeout is None and _IS_LIMITED and connection.socket_timeout
            try:
                came = read(0 if is_limited else timeout)
            except (ConnectionError, TimeoutError, OSError):
                # redis-py's code below gets the same error, and reconnects.
                came = MISSING
            else:
                if type(came) is dict:
                    return self._given(came)
                if came is not MISSING:
                    return self._told(connection, came, ignore_subscribe_messages)
                if timeout is not None:
                    return None
        whole: Any = super().get_message
        return whole(ignore_subscribe_messages, timeout)

    get_sharded_message = get_message

    def listen(self) -> Iterator[Any]:
        """Iterate over messages as they arrive."""
        self._check()
        while self.subscribed:
            message = self.get_message(timeout=None)
            if message is not None:
                yield message

    def _given(self, message: dict[str, Any]) -> Any:
        """Return a message, or pass it to its subscription's handler."""
        kind = message["type"]
        if kind == "message":
            handler = self.channels.get(message["channel"])
        elif kind == "pmessage":
            handler = self.patterns.get(message["pattern"])
        else:
            handler = self.shard_channels.get(message["channel"])
        if handler is None:
            return message
        handler(message)
        return None

    def _told(self, connection: Any, reply: Any, ignore_subscribe_messages: bool) -> Any:
        """Return redis-py's conversion of a response that is not a message."""
        if isinstance(reply, ConnectionError):
            self._reconnect(connection)
            return None
        if isinstance(reply, Exception):
            raise reply
        if type(reply) is Push:
            reply = connection._parser._pushed(reply)
        if self.is_health_check_response(reply):
            self.health_check_response_counter -= 1
            return None
        return self.handle_message(reply, ignore_subscribe_messages)  # type: ignore[no-untyped-call]


class AsyncPubSub(_Inherited, redis.asyncio.client.PubSub):
    """redis-py's subscriber to messages for asyncio, which is safe to use after a fork."""

    @classmethod
    def adopt(cls, made: Any) -> Any:
        """Convert an unused redis-py subscriber to this class."""
        if type(made) is redis.asyncio.client.PubSub:
            made.__class__ = cls
        return made

    def _leave(self) -> None:
        _parents.append(self.connection)
        super()._leave()

    async def execute_command(self, *args: Any) -> Any:
        """Run a command such as SUBSCRIBE."""
        self._begin(args[0])
        run: Any = super().execute_command
        return await run(*args)

    async def parse_response(self, block: bool = True, timeout: float = 0) -> Any:
        """Return the next response. Unless ``block`` is set, wait at most ``timeout`` seconds."""
        self._check()
        run: Any = super().parse_response
        return await run(block, timeout)

    async def get_message(self, *args: Any, **options: Any) -> Any:
        """Return the next message, or ``None`` if none arrives before the timeout."""
        self._check()
        run: Any = super().get_message
        return await run(*args, **options)

    async def aclose(self) -> None:
        """Drop the connection and all subscriptions."""
        if self._is_inherited:
            self._leave()
        self._is_left = False
        close: Any = super().aclose
        await close()


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)
