"""redis-py's client for a server, with less overhead per call."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis
from redis.client import Pipeline as RedisPipeline
from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from undercroft.base import Redis
from undercroft.extensions.feed import PipelineFeeds
from undercroft.extensions.lock import Locks, RemoteLock
from undercroft.remote.at_most_once import Final, Once, run_once
from undercroft.remote.command_kinds import is_repeatable, smallest, words_of
from undercroft.remote.connection import NATIVE, ConnectionPool, _Plugged, fatal, is_refusal
from undercroft.remote.pubsub import PubSub
from undercroft.remote.replies import (
    EMPTY_RESPONSE,
    NEVER_DECODE,
    observability,
    shape_all,
    shaped,
    untouched,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self


# The commands whose reply depends on the last write on their connection.
_REPLICATED = (["WAIT"], ["WAITAOF"])
# The commands before which redis-py may send other commands.
_ACCOMPANIED = frozenset({"HIMPORT SET", "HIMPORT", b"HIMPORT SET", b"HIMPORT"})


class RemoteRedis(Locks, Once, redis.Redis, Redis):  # type: ignore[misc]
    """redis-py's client for Redis, Valkey or ``undercroft serve``.

    All methods, arguments, results and exceptions are redis-py's. Its retry policy applies only to
    calls that certainly did not run, and to calls that change nothing.
    """

    _is_made = True
    _lock_class = RemoteLock

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a client with redis-py's arguments."""
        single = kwargs.pop("single_connection_client", False)
        pool = kwargs.get("connection_pool")
        super().__init__(*args, **kwargs)
        if pool is None:
            ConnectionPool.adopt(self.connection_pool)
        if single:
            # Repeat the setup, because only now do the connections have this package's classes.
            super().__init__(connection_pool=self.connection_pool, single_connection_client=True)
            self.auto_close_connection_pool = pool is None
        # Whether calls can use the fast path. It supports no cache, no connection reserved for the
        # client, no release hooks and no custom parsing. Code that traces calls by wrapping
        # redis-py's methods must see every call, so it also disables the fast path.
        self._short = (
            isinstance(self.connection_pool, ConnectionPool)
            and not single
            and type(self).parse_response is redis.Redis.parse_response
            and untouched(redis.Redis.execute_command, redis.client)
            and getattr(self.connection_pool, "cache", None) is None
            and self.connection_pool.connection_kwargs.get("credential_provider") is None
            and issubclass(self.connection_pool.connection_class, _Plugged)
        )
        # The pool if a single native call can use its connections, otherwise None.
        usual = self._short and type(self.connection_pool) is ConnectionPool
        self._usual_pool = self.connection_pool if usual else None

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Return a client for the server at a URL, as redis-py does."""
        single = options.pop("single_connection_client", False)
        client = cls(
            connection_pool=ConnectionPool.from_url(url, **options),
            single_connection_client=single,
        )
        client.auto_close_connection_pool = True
        return client

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply as redis-py converts it.

        If the native module is available, a native method replaces this method. The native method
        completes ordinary calls in one step and calls ``_go_on`` for all other calls.
        """
        return self._go_on((), args, options)

    def _go_on(self, came: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Continue a command that native code started or passed to Python."""
        if not came:
            return self._by_steps(args, options)
        if len(came) == 1:
            return shaped(self.response_callbacks, args[0], came[0], options)
        pool, connection, came, raised = came
        try:
            return self._resume(connection, came, raised, args, options)
        finally:
            pool.give(connection)

    def _by_steps(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a command that cannot take the native fast path."""
        if self._short and words_of(args[:1])[:1] in _REPLICATED:
            return self._replicated(args, options)
        return self._on_one(args, options)

    def _replicated(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run WAIT or WAITAOF on all idle connections, and return the smallest reply.

        A server tracks only the last write of each connection. Any idle connection may have carried
        one of the caller's writes while other threads used the remaining connections.
        """
        pool: Any = self.connection_pool
        idle: Any = pool._available_connections
        # Exclude the last idle connection, which the call itself uses.
        others = list(reversed(idle[:-1]))
        asked = []
        try:
            for each in others:
                with suppress(ValueError):
                    idle.remove(each)
                    pool._in_use_connections.add(each)
                    asked.append(each)
            sent = [each for each in asked if each._sock is not None and _is_sent(each, args)]
            replies = [self._on_one(args, options)]
            for each in sent:
                with suppress(ConnectionError):
                    replies.append(each.read_response())
            return smallest(replies)
        except BaseException:
            # Close the connections, so that the next call does not read replies of this call.
            for each in asked:
                each.disconnect()
            raise
        finally:
            for each in reversed(asked):
                pool.give(each)

    def _on_one(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a command on one connection."""
        name = args[0]
        measured = observability._provider_manager is not None
        if measured or not self._short or name in _ACCOMPANIED:
            try:
                return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
            except Final as final:
                raise final.error from None
        pool: Any = self.connection_pool
        connection = pool.take()
        try:
            reply = connection.round_trip(args, NEVER_DECODE not in options)
        except Exception as error:
            return self._again(error, connection, args, options)
        finally:
            pool.give(connection)
        return shaped(self.response_callbacks, name, reply, options)

    def pubsub(self, **kwargs: Any) -> Any:
        """Return a publish/subscribe object, which receives messages from channels."""
        return PubSub.adopt(super().pubsub(**kwargs))  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return a pipeline: a queue of commands that run together."""
        pool, callbacks = self.connection_pool, self.response_callbacks
        pipeline = Pipeline(pool, callbacks, transaction, shard_hint)
        pipeline._short = self._short
        return pipeline

    def _resume(
        self, connection: Any, came: Any, raised: bool, args: tuple[Any, ...], options: Any
    ) -> Any:
        """Continue a natively sent call, given its first response or exception."""
        try:
            reply = connection.settle(came, raised, True)
        except Exception as error:
            return self._again(error, connection, args, options)
        return shaped(self.response_callbacks, args[0], reply, options)

    def _again(
        self, error: Exception, connection: Any, args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Retry a failed command if the client's retry policy permits it, or raise the error."""
        if EMPTY_RESPONSE in options and isinstance(error, ResponseError):
            return options[EMPTY_RESPONSE]
        may_have_run = hasattr(error, "may_have_run") and not is_refusal(error)
        if may_have_run and not is_repeatable(args):
            raise error
        failed: Exception | None = error

        def attempt() -> Any:
            nonlocal failed
            if failed is not None:
                first, failed = failed, None
                raise first
            send: Any = self._send_command_parse_response
            return send(connection, args[0], *args, **options)

        def fail(error: Exception) -> None:
            # Before redis-py 6, a client retries only after the errors that its settings list.
            disconnect_raise = getattr(self, "_disconnect_raise", None)
            if disconnect_raise is None:
                connection.disconnect()
            else:
                disconnect_raise(connection, error)

        try:
            return connection.retry.call_with_retry(attempt, fail)
        except Final as final:
            raise final.error from None


def _is_sent(connection: Any, args: tuple[Any, ...]) -> bool:
    """Send a command over a connection; return False if the connection is lost."""
    try:
        connection.send_command(*args, check_health=False)
    except (ConnectionError, TimeoutError):
        return False
    return True


if NATIVE is not None:
    NATIVE.plug(RemoteRedis)


class Pipeline(PipelineFeeds, Once, RedisPipeline):
    """redis-py's pipeline, which receives all replies in one step."""

    # This attribute belongs to redis-py's pipeline.
    connection_pool: Any

    # Whether to use the fast path for connections, as single calls do.
    _short = False

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run all queued commands and return their results."""
        if self.connection is None and self.command_stack and self._is_quick():
            self.connection = self.connection_pool.take()
        whole: Any = super().execute
        try:
            found: list[Any] = whole(raise_on_error)
        except Final as final:
            raise final.error from None
        return found

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Run a command immediately and return its reply, as redis-py does for watched keys."""
        run: Any = super().immediate_execute_command
        try:
            return run(*args, **options)
        except Final as final:
            # Reset, because the connection was closed and the keys are no longer watched.
            self.reset()
            raise final.error from None

    def reset(self) -> None:  # type: ignore[override]
        """Discard the queued commands, stop watching keys, and return the connection."""
        if self.connection is not None and not self.watching and self._is_quick():
            self.connection_pool.give(self.connection)
            self.connection = None
        super().reset()

    def _is_quick(self) -> bool:
        return self._short and observability._provider_manager is None

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Queue a command, or run it and return its reply while keys are watched."""
        if self.explicit_transaction or not (self.watching or args[0] == "WATCH"):
            self.command_stack.append((args, options))
            return self
        run: Any = self.immediate_execute_command
        return run(*args, **options)

    def _execute_transaction(
        self, connection: Any, commands: Any, raise_on_error: bool
    ) -> list[Any]:
        """Send all commands as one transaction, and return their results."""
        over = _Exchange(connection) if isinstance(connection, _Plugged) else connection
        whole: Any = super()._execute_transaction
        return self._once(connection, commands, lambda: whole(over, commands, raise_on_error))

    def _execute_pipeline(self, connection: Any, commands: Any, raise_on_error: bool) -> list[Any]:
        """Send all commands, and return their results."""
        run: Any = self._exchanged
        return self._once(connection, commands, lambda: run(connection, commands, raise_on_error))

    def _once(self, connection: Any, commands: Any, run: Any) -> list[Any]:
        """Run all commands without redis-py's retries if they may have run."""
        is_watching = bool(self.watching)
        sent = (args for args, _ in commands)
        found: list[Any] = run_once(connection, run, sent, is_watching, is_watching)
        return found

    def _exchanged(self, connection: Any, commands: Any, raise_on_error: bool) -> list[Any]:
        """Send all commands, natively if possible, and return their results."""
        replies: Any = connection.exchange(commands) if isinstance(connection, _Plugged) else None
        found: list[Any]
        if replies is None:
            if not isinstance(connection, _Plugged) or any(
                args[0] in _ACCOMPANIED for args, _ in commands
            ):
                whole: Any = super()._execute_pipeline
                found = whole(connection, commands, raise_on_error)
                return found
            packed = connection.pack_commands([args for args, _ in commands])
            decode = [NEVER_DECODE not in options for _, options in commands]
            replies = connection.exchange_packed(packed, decode)
        try:
            failed = shape_all(self.response_callbacks, commands, replies)
        except ConnectionError:
            connection.disconnect()
            raise
        if failed and raise_on_error:
            check: Any = self.raise_first_error
            check(commands, replies)
        found = replies
        return found


class _Exchange:
    """A stand-in for a redis-py connection in transactions, which sends them in one exchange."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._replies: Iterator[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def pack_commands(self, commands: Iterable[Any]) -> list[Any]:
        return list(commands)

    def send_packed_command(self, commands: list[Any]) -> None:
        replies = self._connection.exchange([(args, {}) for args in commands])
        if replies is None:
            self._replies = None
            self._connection.send_packed_command(self._connection.pack_commands(commands))
        else:
            self._replies = iter(replies)

    def read_response(self, *args: Any, **options: Any) -> Any:
        if self._replies is None:
            return self._connection.read_response(*args, **options)
        reply = next(self._replies)
        error = fatal(reply)
        if error is not None:
            self._connection.disconnect()
            raise error
        if isinstance(reply, Exception):
            raise reply
        return reply
