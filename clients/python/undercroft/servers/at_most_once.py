"""Commands that may have run are not sent again, whatever a client's way of retrying says.

redis-py repeats a call that failed, from redis-py 6 on without being told to. A second INCR counts
twice, and a second BLPOP takes another item. Here a call is repeated if it certainly did not run
(no connection, or an answer that refuses it), or if it changes nothing (``is_repeatable``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import ConnectionError, TimeoutError

from undercroft.connection import CLOSED, is_refusal
from undercroft.servers.command_kinds import is_repeatable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

# What redis-py raises where a reply does not come, and repeats calls for.
_LOST = (ConnectionError, TimeoutError, OSError)


class Final(Exception):  # noqa: N818
    """Carries an error past redis-py's retries, which know its own errors only."""

    def __init__(self, error: Exception) -> None:
        """Carry this error."""
        super().__init__(error)
        self.error = error


def run_once(
    connection: Any,
    run: Callable[[], Any],
    commands: Iterable[Any],
    is_old: bool,
    is_watching: bool,
) -> Any:
    """Run what sends these commands and reads their replies.

    Raises ``Final`` where they may have run and one of them changes something. The connection is
    made before, if there is none. An old one, which nothing has looked at since its last use, may
    have been closed by the server; then it is made anew, or is an error while it watches keys.
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
    """Do the same with an asyncio connection."""
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
    """What a synchronous client or pipeline of redis-py's has in addition."""

    def _send_command_parse_response(
        self, conn: Any, command_name: Any, *args: Any, **options: Any
    ) -> Any:
        whole: Any = super()._send_command_parse_response  # type: ignore[misc]

        def run() -> Any:
            return whole(conn, command_name, *args, **options)

        is_old = getattr(self, "connection", None) is conn
        return run_once(conn, run, [args], is_old, bool(getattr(self, "watching", False)))


class AsyncOnce:
    """What an asyncio client or pipeline of redis-py's has in addition."""

    async def _send_command_parse_response(
        self, conn: Any, command_name: Any, *args: Any, **options: Any
    ) -> Any:
        whole: Any = super()._send_command_parse_response  # type: ignore[misc]

        async def run() -> Any:
            return await whole(conn, command_name, *args, **options)

        return await run_once_async(conn, run, [args], bool(getattr(self, "watching", False)))


def once_in_cluster(error: Exception) -> Exception:
    """Return an error of one node such that redis-py's cluster does not run the command again.

    It repeats commands for exceptions of certain classes, not for those of subclasses.
    """
    if not hasattr(error, "may_have_run"):
        return error
    kind = _LOST_CALL if isinstance(error, ConnectionError) else _LATE_CALL
    raised: Exception = kind(*error.args)
    return raised


_LOST_CALL = type("ConnectionError", (ConnectionError,), {"__module__": "redis.exceptions"})
_LATE_CALL = type("TimeoutError", (TimeoutError,), {"__module__": "redis.exceptions"})
