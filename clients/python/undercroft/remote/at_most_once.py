"""Prevents retries of commands that may have run, regardless of the client's retry policy.

redis-py retries a failed call, by default from version 6 on. Resending INCR can count twice, and
resending BLPOP can remove another item. This module permits a retry only if the call certainly did
not run (no connection, or a reply that rejects it) or if it changes nothing (``is_repeatable``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError, TimeoutError

from undercroft.remote.command_kinds import is_repeatable
from undercroft.remote.connection import CLOSED, is_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

# The redis-py exceptions for a missing reply, after which redis-py retries calls.
_LOST = (ConnectionError, TimeoutError, OSError)


class Final(Exception):  # noqa: N818
    """Carries an error past redis-py's retries, which catch only redis-py's errors."""

    def __init__(self, error: Exception) -> None:
        """Wrap an error."""
        super().__init__(error)
        self.error = error


def run_once(
    connection: Any,
    run: Callable[[], Any],
    commands: Iterable[Any],
    is_old: bool,
    is_watching: bool,
) -> Any:
    """Call ``run``, which sends these commands and reads their replies.

    Raises ``Final`` if the commands may have run and one of them changes something. A closed
    connection is opened first. ``is_old`` means that the connection has not been checked since its
    last use, so the server may have closed it. Such a connection is reopened, or an error is raised
    if it watches keys.
    """
    if is_old and connection._sock is not None:
        try:
            connection.can_read(timeout=0)
        except _LOST:
            connection.disconnect()
            if is_watching:
                raise
    if connection._sock is None or getattr(connection, "health_check_interval", None):
        connection.connect()
        connection.check_health()
    try:
        return run()
    except _LOST as error:
        if is_refusal(error) or all(map(is_repeatable, commands)):
            raise
        connection.disconnect()
        raise Final(error) from error


async def run_once_async(
    connection: Any, run: Callable[[], Awaitable[Any]], commands: Iterable[Any], is_watching: bool
) -> Any:
    """Call ``run`` as ``run_once`` does, on an asyncio connection."""
    reader = getattr(connection, "_reader", None)
    if reader is not None and (reader.at_eof() or reader.exception() is not None):
        await connection.disconnect(nowait=True)
        if is_watching:
            raise ConnectionError(CLOSED)
    await connection.connect()
    if getattr(connection, "health_check_interval", None):
        await connection.check_health()
    try:
        return await run()
    except _LOST as error:
        if is_refusal(error) or all(map(is_repeatable, commands)):
            raise
        await connection.disconnect(nowait=True)
        raise Final(error) from error


class Once:
    """A mixin for redis-py's synchronous clients and pipelines that prevents unsafe retries."""

    def _send_command_parse_response(
        self, conn: Any, command_name: Any, *args: Any, **options: Any
    ) -> Any:
        whole: Any = super()._send_command_parse_response  # type: ignore[misc]

        def run() -> Any:
            return whole(conn, command_name, *args, **options)

        is_old = getattr(self, "connection", None) is conn
        return run_once(conn, run, [args], is_old, bool(getattr(self, "watching", False)))


class AsyncOnce:
    """A mixin for redis-py's asyncio clients and pipelines that prevents unsafe retries."""

    async def _send_command_parse_response(
        self, conn: Any, command_name: Any, *args: Any, **options: Any
    ) -> Any:
        whole: Any = super()._send_command_parse_response  # type: ignore[misc]

        async def run() -> Any:
            return await whole(conn, command_name, *args, **options)

        return await run_once_async(conn, run, [args], bool(getattr(self, "watching", False)))


def once_in_cluster(error: Exception) -> Exception:
    """Return a node's error as a class for which redis-py's cluster does not retry commands.

    redis-py's cluster retries only for certain exact classes, not for their subclasses.
    """
    if not hasattr(error, "may_have_run"):
        return error
    kind = _LOST_CALL if isinstance(error, ConnectionError) else _LATE_CALL
    raised: Exception = kind(*error.args)
    return raised


_LOST_CALL = type("ConnectionError", (ConnectionError,), {"__module__": "redis.exceptions"})
_LATE_CALL = type("TimeoutError", (TimeoutError,), {"__module__": "redis.exceptions"})
