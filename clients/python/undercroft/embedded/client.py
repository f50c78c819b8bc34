"""The client for a store, with native methods for common commands and redis-py's for the rest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

import redis

from undercroft._native import (
    METHODS,
    TAKING_METHODS,
    TYPED_METHODS,
    Client,
    add_typed,
    know,
)
from undercroft.base import Redis
from undercroft.embedded.address import DEFAULT_STORE, SCHEME, told
from undercroft.embedded.missing import Modules
from undercroft.embedded.options import without_meaning
from undercroft.embedded.pipeline import Pipeline
from undercroft.embedded.pubsub import PubSub
from undercroft.embedded.taking import Taking, others, through, unusual, xreadgroup
from undercroft.extensions.feed import EmbeddedFeeds
from undercroft.extensions.lock import Lock, Locks
from undercroft.frameworks.green import adapt, is_patched
from undercroft.remote.connection import ConnectionPool
from undercroft.remote.replies import EMPTY_RESPONSE, NEVER_DECODE, shaped

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from undercroft.extensions.feed import Convert, Words

# Settings that a client passes to the connections of its pool.
CODEC = ("decode_responses", "encoding", "encoding_errors")
# The default number of keys that scan_iter() requests at a time.
SCANNED = 1000

_remotes: dict[tuple[bool, str, str], redis.Redis] = {}


def _remote(decode_responses: bool, encoding: str, encoding_errors: str) -> redis.Redis:
    """Return a cached redis-py client with these settings, which never connects.

    Its response callbacks and encoder equal those of a connected client.
    """
    settings = (decode_responses, encoding, encoding_errors)
    if settings not in _remotes:
        _remotes[settings] = redis.Redis(
            protocol=2,
            decode_responses=decode_responses,
            encoding=encoding,
            encoding_errors=encoding_errors,
        )
    return _remotes[settings]


class _Unusual:
    """redis-py's methods that remove data, for arguments that the native methods do not support."""

    _xreadgroup = unusual(redis.Redis.xreadgroup)


for _name, _taking in TAKING_METHODS:
    setattr(_Unusual, _taking, unusual(getattr(redis.Redis, _name)))


class EmbeddedRedis(  # type: ignore[misc]
    Taking, Client, _Unusual, EmbeddedFeeds, Locks, Modules, Redis, redis.Redis
):
    """A client for a store in shared memory, with redis-py's methods.

    ``store`` is ``undercroft://name`` for a store in shared memory, ``undercroft:///path``, or a
    path that contains ``/``. A store that does not exist is created. Options can also be given in
    the URL, as in ``undercroft://name?db=1``. Options in the URL take precedence.

    Three options apply when the store is created. ``capacity`` is the size of its address space,
    not of its memory. ``maxmemory`` limits the data that all processes store in it. Each size is a
    number of bytes or a string such as ``"64gb"``. ``maxmemory_policy`` is Redis' name for the
    eviction policy at that limit, such as ``"allkeys-lru"``.

    An existing store keeps its limits. If they differ from the arguments, one ``RuntimeWarning``
    explains how to change them. With ``strict=True`` a ``ValueError`` is raised instead. A
    different ``capacity`` always raises ``ValueError``.

    If the store's file is removed or replaced, the client opens the store that now has the name. A
    client that has begun a transaction, watches keys or is subscribed stays with its old store.
    With ``on_removed="error"`` the client raises ``redis.exceptions.ConnectionError`` instead.

    ``durability="everysec"`` keeps a journal on the disk, so that changes survive a power cut a
    second later. With ``"always"``, each call returns once its changes are on the disk. The journal
    is in the folder ``journal``, by default next to the store's file, or in
    ``~/.local/state/undercroft`` for a named store. If the store's file is gone after a restart of
    the machine, it is recovered from there. A store that already has a journal keeps its own mode.

    ``timeout`` is the number of seconds to wait for another process that holds a lock without
    making progress, before ``redis.exceptions.TimeoutError`` is raised (default: 5).
    ``client_name`` is the reply to CLIENT GETNAME. redis-py's other connection options
    (``socket_timeout``, ``max_connections``, ``health_check_interval``...) are accepted and
    ignored.

    A client can be used by several threads, and after a fork. It is an instance of ``redis.Redis``,
    so programs that check for that class accept it. Its ``connection_pool`` contains redis-py
    connections to the same store.
    """

    _is_made = True
    _remote: redis.Redis
    _pool: ConnectionPool | None = None
    _lock_class = Lock

    def __new__(
        cls,
        store: str | os.PathLike[str] = DEFAULT_STORE,
        db: int = 0,
        *,
        decode_responses: bool = False,
        encoding: str = "utf-8",
        encoding_errors: str = "strict",
        capacity: int | str | None = None,
        maxmemory: int | str | None = None,
        maxmemory_policy: str | None = None,
        strict: bool = False,
        on_removed: str = "reopen",
        durability: str | None = None,
        journal: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        client_name: str | None = None,
        **options: Any,
    ) -> Self:
        """Open the store, creating it if it does not exist."""
        for name in options:
            if name not in without_meaning():
                raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}")
        settings = told(
            store,
            {
                "db": db,
                "decode_responses": decode_responses,
                "encoding": encoding,
                "encoding_errors": encoding_errors,
                "capacity": capacity,
                "maxmemory": maxmemory,
                "maxmemory_policy": maxmemory_policy,
                "strict": strict,
                "on_removed": on_removed,
                "durability": durability,
                "journal": journal,
                "timeout": timeout,
                "client_name": client_name,
            },
            without_meaning,
        )
        self = super().__new__(cls, **settings, like_redis_py=True)
        self._remote = _remote(
            settings["decode_responses"], settings["encoding"], settings["encoding_errors"]
        )
        self.response_callbacks = self._remote.response_callbacks
        if is_patched():
            adapt(self, xread=redis.Redis.xread, xreadgroup=redis.Redis.xreadgroup)
        return self

    def __init__(self, *args: Any, **options: Any) -> None:
        """Do nothing: the store is already open, and redis-py's setup must not run."""

    def __del__(self) -> None:
        """Do nothing, because deleting the client also releases the store."""

    @property
    def connection_pool(self) -> ConnectionPool:  # type: ignore[override]
        """A pool of redis-py connections to the same store, created on first use."""
        if self._pool is None:
            told = self._remote.get_connection_kwargs()
            same = {name: told[name] for name in CODEC}
            self._pool = ConnectionPool(store=str(self.path), db=self.db, **same)
        return self._pool

    def client(self) -> redis.Redis:
        """Return a redis-py client for the same store, with a separate connection."""
        return redis.Redis(connection_pool=self.connection_pool, single_connection_client=True)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Open the store at a URL.

        Equivalent to calling the class with the URL.
        """
        if not url.startswith(SCHEME):
            raise ValueError(f"expected undercroft://name or undercroft:///path, got {url!r}")
        return cls(url, **options)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply as redis-py converts it."""
        taken: list[Any] = []
        try:
            result, is_reply = self._execute(args, options, taken)
            if is_reply:
                return shaped(self.response_callbacks, args[0], result, options)
            return result
        except BaseException as error:
            self._give_back(taken)
            if EMPTY_RESPONSE in options and isinstance(error, redis.ResponseError):
                return options[EMPTY_RESPONSE]
            raise

    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:
        taken: list[Any] = []
        try:
            reply = self._run_taking(taken, words, {NEVER_DECODE: True} if raw else {})
            return reply if convert is None else convert(reply)
        except BaseException:
            self._give_back(taken)
            raise

    def _run_taking(self, taken: list[Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run a command, recording the items that it removes in ``taken`` for a rollback."""
        try:
            result, is_reply = self._execute(args, options, taken)
        except redis.ResponseError:
            if EMPTY_RESPONSE in options:
                return options[EMPTY_RESPONSE]
            raise
        if is_reply:
            return shaped(self.response_callbacks, args[0], result, options)
        return result

    def set_response_callback(self, command: str, callback: Callable[..., Any]) -> None:
        """Set the function that converts replies to the given command."""
        # Copy the dictionary of callbacks, which all clients share until one changes its callbacks.
        self.response_callbacks = type(self.response_callbacks)(self.response_callbacks)
        self.response_callbacks[command] = callback
        if command.upper() in _NATIVE:
            # Native methods support only redis-py's own callbacks; execute_command supports any
            # callback.
            self._shape()

    def get_encoder(self) -> Any:
        """Return redis-py's encoder with this client's encoding."""
        return self._remote.get_encoder()

    def get_connection_kwargs(self) -> dict[str, Any]:
        """Return the connection arguments of a redis-py client with this client's settings."""
        return dict(self._remote.get_connection_kwargs())

    def pipeline(  # type: ignore[override]
        self,
        transaction: bool = True,
        shard_hint: str | None = None,  # noqa: ARG002
    ) -> Pipeline:
        """Return a pipeline: a queue of commands that run together.

        With ``transaction`` the commands are applied atomically. ``shard_hint`` is accepted for
        compatibility with other clients and is ignored.
        """
        return Pipeline(self, transaction)

    def transaction(  # type: ignore[override]
        self,
        func: Callable[[Pipeline], Any],
        *watches: Any,
        shard_hint: str | None = None,
        value_from_callable: bool = False,
        watch_delay: float | None = None,
    ) -> Any:
        """Run ``func`` in a pipeline that watches keys; retry while a watched key changes.

        Returns the results of the commands that the function queued after ``pipe.multi()``. With
        ``value_from_callable``, returns the function's result.
        """
        taken: list[Any] = []
        try:
            with self.pipeline(True, shard_hint) as pipe:
                while True:
                    try:
                        if watches:
                            pipe.watch(*watches)
                        value = func(pipe)
                        results = pipe.execute_taking(taken)
                    except redis.WatchError:
                        if watch_delay is not None and watch_delay > 0:
                            time.sleep(watch_delay)
                    else:
                        return value if value_from_callable else results
        except BaseException:
            self._give_back(taken)
            raise

    def scan_iter(
        self, match: Any = None, count: int | None = None, _type: str | None = None, **options: Any
    ) -> Any:
        """Iterate over all matching keys, by default in larger batches than over a network."""
        return super().scan_iter(match, SCANNED if count is None else count, _type, **options)

    def pubsub(self, **kwargs: Any) -> PubSub:
        """Return a publish/subscribe object, which receives messages from channels."""
        return PubSub(self, **kwargs)

    def __repr__(self) -> str:
        """Return a string with the store's path and the database."""
        return (
            f"<{type(self).__module__}.{type(self).__qualname__}({str(self.path)!r}, db={self.db})>"
        )


# Use the callbacks of a new client, which no program has changed.
know(redis.Redis(protocol=2).response_callbacks)
# Arguments that the native methods do not support are passed to redis-py's method of the same name.
_NATIVE = frozenset(command for command, _ in (*METHODS, *TYPED_METHODS))
add_typed(EmbeddedRedis)
EmbeddedRedis.xreadgroup = xreadgroup(EmbeddedRedis._xreadgroup)  # type: ignore[method-assign]
for _name, _method in others(redis.Redis).items():
    setattr(EmbeddedRedis, _name, through(_method))
