"""The asyncio client of a server: redis-py's, whose calls share one connection."""

from __future__ import annotations

import asyncio
import random
import weakref
from typing import TYPE_CHECKING, Any, cast

import redis.asyncio
from redis.asyncio.client import Pipeline as RedisPipeline
from redis.exceptions import ConnectionError, ResponseError

from undercroft.asyncio.base import Redis
from undercroft.asyncio.connection import HINTING
from undercroft.asyncio.link import Link, execute_command
from undercroft.asyncio.remote_lock import RemoteLock
from undercroft.asyncio.remote_releases import RemoteReleases
from undercroft.connection import fatal
from undercroft.feed import PipelineFeeds
from undercroft.lock import Locks
from undercroft.replies import (
    EMPTY_RESPONSE,
    NEVER_DECODE,
    observability,
    shape_all,
    shaped,
    untouched,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from undercroft.asyncio.call import Call, Request

# Commands that keep the server from answering others, or that change the connection
# for whoever uses it next. They take connections of their own from redis-py's pool.
_ALONE = {
    # They wait.
    *("BLPOP", "BRPOP", "BLMOVE", "BRPOPLPUSH", "BLMPOP", "BZPOPMIN", "BZPOPMAX", "BZMPOP"),
    *("WAIT", "WAITAOF", "XREAD", "XREADGROUP", "SHUTDOWN", "FAILOVER"),
    # They make another kind of connection of it.
    *("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"),
    *("MONITOR", "SYNC", "PSYNC", "QUIT", "RESET", "HELLO", "SELECT"),
    *("MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "READONLY", "READWRITE", "ASKING"),
    # redis-py sends it with others that it finds necessary.
    "HIMPORT",
}
# A connection's user and name hold for all calls that share it.
_ALONE_OF_CLIENT = {"REPLY", "TRACKING", "CACHING"}
_NAMES_KEPT = 1024
# redis-py's asyncio client takes them by name only.
_PLACES = ("host", "port", "db")
_CLOSED = "Connection closed by its client."

# How long, in seconds, one waits at most before the next attempt to connect.
_PATIENCE = 1.0


def _is_alone(args: tuple[Any, ...]) -> bool:
    """Return whether a command needs a connection of its own."""
    words = []
    for part in args[:2]:
        text = bytes(part).decode("latin-1") if isinstance(part, bytes | bytearray) else str(part)
        words += text.upper().split()
    if words[:1] == ["CLIENT"]:
        return words[1:2] != [] and words[1] in _ALONE_OF_CLIENT
    return words[:1] != [] and words[0] in _ALONE


class RemoteRedis(Locks, redis.asyncio.Redis, Redis):  # type: ignore[misc]
    """redis-py's asyncio client of a Redis, a Valkey or an ``undercroft serve``.

    All of its methods, arguments, results and exceptions are redis-py's; host, port and database
    may stand without their names, as in redis-py's other client. Calls of many
    tasks share one connection; blocking commands, transactions that watch keys, and
    messages take connections of their own from redis-py's pool.
    """

    _is_made = True
    _lock_class = RemoteLock

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Make a client with the arguments of redis-py's."""
        self._releases: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, weakref.ref[RemoteReleases]
        ] = weakref.WeakKeyDictionary()
        if len(args) <= len(_PLACES):
            args, kwargs = (), dict(zip(_PLACES, args, strict=False)) | kwargs
        super().__init__(*args, **kwargs)
        pool = self.connection_pool
        if self.auto_close_connection_pool:
            pool.connection_class = HINTING.get(pool.connection_class, pool.connection_class)
        # Whether calls may share a connection, whose streams are then known, and whose replies
        # are parsed as redis-py does. Code that wraps redis-py's methods is to see all calls.
        self._short = (
            not self.single_connection_client
            and type(self).parse_response is redis.asyncio.Redis.parse_response
            and untouched(redis.asyncio.Redis.execute_command, redis.asyncio.client)
            and pool.connection_kwargs.get("credential_provider") is None
            and issubclass(pool.connection_class, redis.asyncio.connection.AbstractConnection)
            and not getattr(pool.connection_class, "is_within", False)
        )
        self._link: Link | None = None
        self._linking: asyncio.Task[Link] | None = None
        self._failures = 0
        self._alone: dict[str, bool] = {}
        # Calls that failed, until it is clear whether they are tried again.
        self._failed: set[asyncio.Task[None]] = set()

    def _takes_own(self, args: tuple[Any, ...]) -> bool:
        name = args[0]
        known = self._alone.get(name) if type(name) is str else None
        if known is None:
            known = _is_alone(args)
            # The second word says what CLIENT means, in whatever case it is written.
            said = type(name) is str and name.upper().split() not in ([], ["CLIENT"])
            if said and len(self._alone) < _NAMES_KEPT:
                self._alone[name] = known
        return known

    execute_command = execute_command

    def releases(self) -> RemoteReleases:
        """Return what the tasks of the running loop wait for locks with."""
        loop = asyncio.get_running_loop()
        known = self._releases.get(loop)
        found = None if known is None else known()
        if found is None or not found.usable:
            found = RemoteReleases(self, loop)
            self._releases[loop] = weakref.ref(found)
        return found

    async def _execute(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a command for which there may be no connection yet, or which takes its own."""
        measured = observability._provider_manager is not None
        if measured or not self._short or self._takes_own(args):
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        link = self._link
        if link is None or not link.usable:
            link = await self._connected()
        try:
            if link.full:
                await link.writable()
            reply = await link.send(args, NEVER_DECODE not in options)
        except ResponseError as error:
            if EMPTY_RESPONSE in options:
                return options[EMPTY_RESPONSE]
            reply = await self._again(error, link.connection, args, options)
        except Exception as error:
            reply = await self._again(error, link.connection, args, options)
        return shaped(self.response_callbacks, args[0], reply, options)

    def failed(self, call: Call, error: Exception, link: Link) -> None:
        """Take over a call of this client's that has no reply, or an error for one."""
        task = link.loop.create_task(self._settled(call, error, link.connection))
        self._failed.add(task)
        task.add_done_callback(self._failed.discard)
        # A call that is cancelled meanwhile does not try again.
        call.add_done_callback(lambda _: task.cancel())

    async def _settled(self, call: Call, error: Exception, connection: Any) -> None:
        """Give a failed call its error, or the result of another attempt."""
        _, args, options = cast("Request", call.request)
        try:
            if isinstance(error, ResponseError) and EMPTY_RESPONSE in options:
                result = options[EMPTY_RESPONSE]
            else:
                reply = await self._again(error, connection, args, options)
                result = shaped(self.response_callbacks, args[0], reply, options)
        except asyncio.CancelledError:
            call.cancel()
            raise
        except Exception as failure:
            if not call.done():
                call.set_exception(failure)
        else:
            if not call.done():
                call.set_result(result)

    async def _again(
        self, error: Exception, connection: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Raise an error, or try again where the client's way of retrying says so."""
        failed: Exception | None = error

        async def attempt() -> Any:
            nonlocal failed
            if failed is not None:
                first, failed = failed, None
                raise first
            link = await self._connected()
            return await link.send(args, NEVER_DECODE not in options)

        return await self._retrying(connection, attempt)

    async def _retrying(self, connection: Any, attempt: Callable[[], Awaitable[Any]]) -> Any:
        """Try in the client's way of retrying."""

        async def fail(error: Exception) -> None:
            # Until redis-py 6 a client retries only what it was told to.
            disconnect_raise = getattr(self, "_disconnect_raise", None)
            if disconnect_raise is not None:
                await disconnect_raise(connection, error)

        return await connection.retry.call_with_retry(attempt, fail)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return a collection of commands that are run together."""
        return Pipeline(self, transaction, shard_hint)

    async def _connected(self) -> Link:
        """Return the link, checked or made anew by the first of those who find that due."""
        loop = asyncio.get_running_loop()
        link = self._link
        if link is not None and link.usable:
            return link
        task = self._linking
        if task is None or task.done() or task.get_loop() is not loop:
            task = self._linking = loop.create_task(self._connect())
            task.add_done_callback(_told)
        try:
            # A call that is cancelled meanwhile leaves the others their connection.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            is_own = caller is not None and caller.cancelling()
            if task.cancelled() and task is not self._linking and not is_own:
                raise ConnectionError(_CLOSED) from None
            raise

    async def _connect(self) -> Link:
        if self._link is not None:
            if await self._link.check():
                return self._link
            self._link.abandon()
        if self._failures > 1:
            longest = min(_PATIENCE, 0.01 * 2 ** min(self._failures, 10))
            await asyncio.sleep(longest * random.uniform(0.5, 1))
        pool: Any = self.connection_pool
        connection = pool.make_connection()
        try:
            await connection.connect()
        except BaseException:
            self._failures += 1
            await connection.disconnect(nowait=True)
            raise
        self._failures = 0
        self._link = Link(connection, connection.socket_timeout)
        return self._link

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close the connections; using the client again makes new ones."""
        loop = asyncio.get_running_loop()
        linking, self._linking = self._linking, None
        if linking is not None and not linking.done() and linking.get_loop() is loop:
            linking.cancel()
            await asyncio.wait([linking])
        link, self._link = self._link, None
        if link is not None:
            if link.loop is loop:
                link.fail(ConnectionError(_CLOSED))
            else:
                link.abandon()
        await super().aclose(close_connection_pool)

    def __del__(self, *args: Any, **kwargs: Any) -> None:
        """Close what nobody closed."""
        link = self.__dict__.get("_link")
        if link is not None:
            link.abandon()
        super().__del__(*args, **kwargs)


class Pipeline(PipelineFeeds, RedisPipeline):  # type: ignore[misc]
    """redis-py's pipeline, which shares its client's connection unless it watches keys."""

    def __init__(self, client: RemoteRedis, transaction: bool, shard_hint: str | None) -> None:
        """Collect commands for a client."""
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._client = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all commands and return their results."""
        client, commands = self._client, self.command_stack
        alone = self.watching or self.connection or self.scripts or not client._short
        if (
            alone
            or not commands
            or observability._provider_manager is not None
            or any(NEVER_DECODE in more or client._takes_own(args) for args, more in commands)
        ):
            return await super().execute(raise_on_error)
        whole: Any = self.is_transaction or self.explicit_transaction
        run: Any = self._execute_transaction if whole else self._execute_pipeline
        link = await client._connected()

        async def attempt() -> Any:
            return await run(_Exchange(await client._connected()), commands, raise_on_error)

        try:
            found: list[Any] = await client._retrying(link.connection, attempt)
            return found
        finally:
            reset: Any = self.reset
            await reset()

    async def _execute_pipeline(
        self, connection: Any, commands: Any, raise_on_error: bool
    ) -> list[Any]:
        """Send all commands, and return their results."""
        if not isinstance(connection, _Exchange):
            whole: Any = super()._execute_pipeline
            found: list[Any] = await whole(connection, commands, raise_on_error)
            return found
        replies = await connection.replies([args for args, _ in commands])
        failed = shape_all(self.response_callbacks, commands, replies)
        if failed and raise_on_error:
            for reply in replies:
                # redis-py raises it where it reads the reply, and looks for error replies here.
                if isinstance(reply, UnicodeDecodeError):
                    raise reply
            check: Any = self.raise_first_error
            check(commands, replies)
        return replies


class _Exchange:
    """What redis-py's pipelines take for a connection: one exchange over the link."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._replies: Iterator[Any] = iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link.connection, name)

    def pack_commands(self, commands: Iterable[Any]) -> list[Any]:
        return list(commands)

    async def replies(self, commands: list[Any]) -> list[Any]:
        if self._link.full:
            await self._link.writable()
        found: list[Any] = await self._link.send_many(commands)
        return found

    async def send_packed_command(self, commands: list[Any]) -> None:
        self._replies = iter(await self.replies(commands))

    async def read_response(self, **_: Any) -> Any:
        reply = next(self._replies)
        if isinstance(reply, Exception):
            raise reply
        if (error := fatal(reply)) is not None:
            raise error
        return reply


def _told(task: asyncio.Task[Link]) -> None:
    # The call that waits raises it; that nobody waited any more is no news.
    if not task.cancelled():
        task.exception()
