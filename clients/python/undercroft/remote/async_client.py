"""redis-py's asyncio client for a server, whose calls share one connection."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, cast

import redis.asyncio
from redis.asyncio.client import Pipeline as RedisPipeline
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from undercroft.async_base import Redis
from undercroft.extensions.async_remote_lock import RemoteLock
from undercroft.extensions.async_remote_releases import RemoteReleases
from undercroft.extensions.feed import PipelineFeeds
from undercroft.extensions.lock import Locks
from undercroft.remote.async_connection import HINTING
from undercroft.remote.at_most_once import AsyncOnce, Final, run_once_async
from undercroft.remote.command_kinds import (
    ALONE,
    REPLICATED,
    is_large,
    is_repeatable,
    is_told_by_name,
    kind_of,
)
from undercroft.remote.connection import fatal
from undercroft.remote.multiplexing.link import execute_command
from undercroft.remote.multiplexing.share import Share, know
from undercroft.remote.pubsub import AsyncPubSub
from undercroft.remote.replies import (
    EMPTY_RESPONSE,
    NEVER_DECODE,
    observability,
    shape_all,
    shaped,
    untouched,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from undercroft.remote.multiplexing.call import Call, Request
    from undercroft.remote.multiplexing.link import Link

_NAMES_KEPT = 1024
# Arguments that redis-py's asyncio client accepts only by keyword.
_PLACES = ("host", "port", "db")


class RemoteRedis(Locks, AsyncOnce, redis.asyncio.Redis, Redis):  # type: ignore[misc]
    """redis-py's asyncio client for Redis, Valkey or ``undercroft serve``.

    All methods, arguments, results and exceptions are redis-py's. Host, port and database can be
    positional, as in redis-py's synchronous client. Calls from many tasks share one connection.
    Blocking commands, transactions that watch keys, and subscriptions use separate connections from
    redis-py's pool.
    """

    _is_made = True
    _lock_class = RemoteLock

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a client with redis-py's arguments."""
        self._releases: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, weakref.ref[RemoteReleases]
        ] = weakref.WeakKeyDictionary()
        if len(args) <= len(_PLACES):
            args, kwargs = (), dict(zip(_PLACES, args, strict=False)) | kwargs
        super().__init__(*args, **kwargs)
        pool = self.connection_pool
        know(pool)
        if self.auto_close_connection_pool:
            pool.connection_class = HINTING.get(pool.connection_class, pool.connection_class)
        # Whether calls can share a connection. This requires streams of a known class and
        # redis-py's own reply parsing. Tracing code that wraps redis-py's methods must see every
        # call, so calls then need separate connections.
        self._short = (
            not self.single_connection_client
            and type(self).parse_response is redis.asyncio.Redis.parse_response
            and untouched(redis.asyncio.Redis.execute_command, redis.asyncio.client)
            and pool.connection_kwargs.get("credential_provider") is None
            and issubclass(pool.connection_class, redis.asyncio.connection.AbstractConnection)
            and not getattr(pool.connection_class, "is_within", False)
        )
        self._link: Link | None = None
        # The kind of connection that each command needs, by name; False for the shared connection.
        self._alone: dict[str, str | bool] = {}
        # Tasks that decide whether to retry a failed call, or that run the retry.
        self._failed: set[asyncio.Task[None]] = set()

    def _kind(self, args: tuple[Any, ...]) -> str | bool:
        """Return the kind of connection that a command needs; False for the shared connection."""
        name = args[0]
        known = self._alone.get(name) if type(name) is str else None
        if known is None:
            known = kind_of(args) or False
            if type(name) is str and is_told_by_name(name) and len(self._alone) < _NAMES_KEPT:
                self._alone[name] = known
        return known

    execute_command = execute_command

    def releases(self) -> RemoteReleases:
        """Return the object through which tasks of the running loop wait for locks."""
        loop = asyncio.get_running_loop()
        known = self._releases.get(loop)
        found = None if known is None else known()
        if found is None or not found.usable:
            found = RemoteReleases(self, loop)
            self._releases[loop] = weakref.ref(found)
        return found

    async def _execute(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a command that must open a connection or needs a separate connection."""
        measured = observability._provider_manager is not None
        kind = ALONE if measured or not self._short else self._kind(args)
        if kind == ALONE:
            try:
                return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
            except Final as final:
                raise final.error from None
        if kind:
            share = Share.of(self.connection_pool)
            run = share.replicated if kind == REPLICATED else share.apply
            return shaped(self.response_callbacks, args[0], await run(args), options)
        link = self._link
        if link is None or not link.usable or link.full:
            link = await self._connected()
        try:
            if link.large and is_large(link.large, args):
                link = await Share.of(self.connection_pool).aside()
                call = link.send(args, NEVER_DECODE not in options)
                # Mark the link as crowded only after sending, because encoding the command can
                # fail.
                link.crowd()
            else:
                call = link.send(args, NEVER_DECODE not in options)
            reply = await call
        except ResponseError as error:
            if EMPTY_RESPONSE in options:
                return options[EMPTY_RESPONSE]
            reply = await self._again(error, link.connection, args, options)
        except Exception as error:
            reply = await self._again(error, link.connection, args, options)
        return shaped(self.response_callbacks, args[0], reply, options)

    def failed(self, call: Call, error: Exception, link: Link) -> None:
        """Retry a failed call of this client, or set the call's exception."""
        task = link.loop.create_task(self._settled(call, error, link.connection))
        self._failed.add(task)
        task.add_done_callback(self._failed.discard)
        # Cancel the retry when the call is cancelled.
        call.add_done_callback(lambda _: task.cancel())

    async def _settled(self, call: Call, error: Exception, connection: Any) -> None:
        """Retry a failed call, and set its result or exception."""
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
        """Retry a failed command if the client's retry policy permits it, or raise the error."""
        first: Exception | None = error

        async def attempt() -> Any:
            nonlocal first
            if first is not None:
                failed, first = first, None
                raise failed
            link = await self._connected()
            return await link.send(args, NEVER_DECODE not in options)

        return await self._retrying(connection, attempt, [args])

    async def _retrying(
        self, connection: Any, attempt: Callable[[], Awaitable[Any]], commands: list[Any]
    ) -> Any:
        """Retry according to the client's policy, except for changes that may have been made."""

        async def fail(error: Exception) -> None:
            # Before redis-py 6, a client retries only after the errors that its settings list.
            disconnect_raise = getattr(self, "_disconnect_raise", None)
            if disconnect_raise is not None:
                await disconnect_raise(connection, error)

        async def guarded() -> Any:
            try:
                return await attempt(), None
            except (ConnectionError, TimeoutError) as error:
                if hasattr(error, "may_have_run") and not all(map(is_repeatable, commands)):
                    return None, error
                raise

        reply, error = await connection.retry.call_with_retry(guarded, fail)
        if error is not None:
            raise error
        return reply

    async def _completed(self, link: Link, args: tuple[Any, ...], kind: Any, reply: Any) -> Any:
        """Return the reply to a command in a pipeline that also affects other connections."""
        share = Share.of(self.connection_pool)
        if kind == REPLICATED:
            return await share.replicated_elsewhere(link, args, reply)
        share.applied(link, args)
        return reply

    def pubsub(self, **kwargs: Any) -> Any:
        """Return a publish/subscribe object, which receives messages from channels."""
        return AsyncPubSub.adopt(super().pubsub(**kwargs))

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return a pipeline: a queue of commands that run together."""
        return Pipeline(self, transaction, shard_hint)

    async def _connected(self) -> Link:
        """Return the pool's link on the running loop once the link is usable and not full."""
        share = Share.of(self.connection_pool)
        while True:
            link = self._link = await share.connected()
            if not link.full:
                return link
            await link.writable()

    async def retire(self) -> None:
        """Close the shared connections of the running loop once no call waits for a reply."""
        self._link = None
        share = Share.of(self.connection_pool)
        await share.stop()
        for link in list(share.links):
            link.retire()
        await self.connection_pool.disconnect(inuse_connections=False)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close the connections. Using the client again opens new connections.

        Connections of a pool that other clients may use stay open, unless ``close_connection_pool``
        is true.
        """
        self._link = None
        if close_connection_pool or (
            close_connection_pool is None and self.auto_close_connection_pool
        ):
            await Share.of(self.connection_pool).stop()
        await super().aclose(close_connection_pool)


class Pipeline(PipelineFeeds, AsyncOnce, RedisPipeline):  # type: ignore[misc]
    """redis-py's pipeline, which shares its client's connection unless it watches keys."""

    def __init__(self, client: RemoteRedis, transaction: bool, shard_hint: str | None) -> None:
        """Create an empty pipeline of a client."""
        super().__init__(client.connection_pool, client.response_callbacks, transaction, shard_hint)
        self._client = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return their results."""
        client, commands = self._client, self.command_stack
        alone = self.watching or self.connection or self.scripts or not client._short
        kinds = [client._kind(args) for args, _ in commands]
        if (
            alone
            or not commands
            or observability._provider_manager is not None
            or ALONE in kinds
            or any(NEVER_DECODE in more for _, more in commands)
        ):
            try:
                return await super().execute(raise_on_error)
            except Final as final:
                raise final.error from None
        whole: Any = self.is_transaction or self.explicit_transaction
        run: Any = self._execute_transaction if whole else self._execute_pipeline
        link = await client._connected()

        async def attempt() -> Any:
            link = await client._connected()
            results = await run(_Exchange(link, REPLICATED in kinds), commands, raise_on_error)
            for place, kind in enumerate(kinds):
                if kind and not isinstance(results[place], Exception):
                    results[place] = await client._completed(
                        link, commands[place][0], kind, results[place]
                    )
            return results

        try:
            sent = [args for args, _ in commands]
            found: list[Any] = await client._retrying(link.connection, attempt, sent)
            return found
        finally:
            reset: Any = self.reset
            await reset()

    async def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command immediately and return its reply, as redis-py does for watched keys."""
        run: Any = super().immediate_execute_command
        try:
            return await run(*args, **options)
        except Final as final:
            # Reset, because the connection was closed and the keys are no longer watched.
            reset: Any = self.reset
            await reset()
            raise final.error from None

    async def _alone(self, run: Any, connection: Any, commands: Any, raise_on_error: bool) -> Any:
        """Run all commands on a separate connection, without redis-py's retries."""

        async def whole() -> Any:
            return await run(connection, commands, raise_on_error)

        sent = (args for args, _ in commands)
        return await run_once_async(connection, whole, sent, bool(self.watching))

    async def _execute_transaction(
        self, connection: Any, commands: Any, raise_on_error: bool
    ) -> list[Any]:
        """Send all commands as one transaction, and return their results."""
        whole: Any = super()._execute_transaction
        found: list[Any]
        if isinstance(connection, _Exchange):
            found = await whole(connection, commands, raise_on_error)
        else:
            found = await self._alone(whole, connection, commands, raise_on_error)
        return found

    async def _execute_pipeline(
        self, connection: Any, commands: Any, raise_on_error: bool
    ) -> list[Any]:
        """Send all commands, and return their results."""
        if not isinstance(connection, _Exchange):
            whole: Any = super()._execute_pipeline
            found: list[Any] = await self._alone(whole, connection, commands, raise_on_error)
            return found
        replies = await connection.replies([args for args, _ in commands])
        failed = shape_all(self.response_callbacks, commands, replies)
        if failed and raise_on_error:
            for reply in replies:
                # redis-py raises this error while it reads a reply; the check below finds only
                # error replies.
                if isinstance(reply, UnicodeDecodeError):
                    raise reply
            check: Any = self.raise_first_error
            check(commands, replies)
        return replies


class _Exchange:
    """A stand-in for a redis-py connection in pipelines, which sends over the shared link."""

    def __init__(self, link: Link, waits: bool) -> None:
        self._link = link
        self._waits = waits
        self._replies: Iterator[Any] = iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link.connection, name)

    def pack_commands(self, commands: Iterable[Any]) -> list[Any]:
        return list(commands)

    async def replies(self, commands: list[Any]) -> list[Any]:
        call = self._link.send_many(commands)
        if self._waits:
            self._link.crowd()
        found: list[Any] = await call
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
