"""The client of a store: native where it is called most, redis-py's for everything else."""

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
from undercroft.connection import ConnectionPool
from undercroft.embedded.address import DEFAULT_STORE, SCHEME, told
from undercroft.embedded.missing import Modules
from undercroft.embedded.options import without_meaning
from undercroft.embedded.pipeline import Pipeline
from undercroft.embedded.pubsub import PubSub
from undercroft.embedded.taking import Taking, others, through, unusual, xreadgroup
from undercroft.extensions.feed import EmbeddedFeeds
from undercroft.extensions.lock import Lock, Locks
from undercroft.green import adapt, is_patched
from undercroft.replies import EMPTY_RESPONSE, NEVER_DECODE, shaped

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from undercroft.extensions.feed import Convert, Words

# What the connections of a client's pool have in common with it.
CODEC = ("decode_responses", "encoding", "encoding_errors")
# Keys that scan_iter() asks for at a time where the program does not say.
SCANNED = 1000

_remotes: dict[tuple[bool, str, str], redis.Redis] = {}


def _remote(decode_responses: bool, encoding: str, encoding_errors: str) -> redis.Redis:
    """Return a client of redis-py's that is never connected, always the same one.

    It is asked for the response callbacks and the encoder that such a client would use.
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
    """What the native methods that take something leave to redis-py's, found behind them."""

    _xreadgroup = unusual(redis.Redis.xreadgroup)


for _name, _taking in TAKING_METHODS:
    setattr(_Unusual, _taking, unusual(getattr(redis.Redis, _name)))


class EmbeddedRedis(  # type: ignore[misc]
    Taking, Client, _Unusual, EmbeddedFeeds, Locks, Modules, Redis, redis.Redis
):
    """A client of a store in shared memory, with redis-py's methods.

    ``store`` is ``undercroft://name`` for a store in shared memory, ``undercroft:///path``
    or a path with a ``/`` in it; it is created where it is not there. Options may also stand in
    the URL, as in ``undercroft://name?db=1``, and win there. For the creation there are
    ``capacity`` (address space, not memory), ``maxmemory``, the limit on what all processes
    store in it, both in bytes or as text such as ``"64gb"``, and ``maxmemory_policy``, which says
    by Redis' names which keys make room at that limit, such as ``"allkeys-lru"``. An existing
    store keeps its own limits: where they differ, a ``RuntimeWarning`` says once how to change
    them, or a ``ValueError`` with ``strict=True``. Another ``capacity`` is always a ``ValueError``.
    Where the store's file was removed or replaced, the client opens the store that the name means
    now, unless it has begun a transaction, watches keys or is subscribed; ``on_removed="error"``
    raises ``redis.exceptions.ConnectionError`` instead.
    ``timeout`` is how many seconds this process waits for another one that holds a lock and makes
    no progress, before ``redis.exceptions.TimeoutError`` is raised (5 by default).
    ``client_name`` is what CLIENT GETNAME answers. Whatever else can be said to redis-py of its
    connections (``socket_timeout``, ``max_connections``, ``health_check_interval``...) is
    accepted, and means nothing here.

    One object may be used by several threads, and after a fork. It is an instance of
    ``redis.Redis``, for programs that ask for one, and what they reach through its
    ``connection_pool`` are connections of redis-py's to the same store.
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
        timeout: float | None = None,
        client_name: str | None = None,
        **options: Any,
    ) -> Self:
        """Open a store, or create it."""
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
        """Do nothing more: the store is open, and redis-py's own client is not made."""

    def __del__(self) -> None:
        """Do nothing: the store is let go of with the object."""

    @property
    def connection_pool(self) -> ConnectionPool:  # type: ignore[override]
        """Connections of redis-py's to the same store, made when they are first asked for."""
        if self._pool is None:
            told = self._remote.get_connection_kwargs()
            same = {name: told[name] for name in CODEC}
            self._pool = ConnectionPool(store=str(self.path), db=self.db, **same)
        return self._pool

    def client(self) -> redis.Redis:
        """Return redis-py's client of the same store, with a connection of its own."""
        return redis.Redis(connection_pool=self.connection_pool, single_connection_client=True)

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Open the store that a URL names.

        It is what the class makes of the URL, for those who have one.
        """
        if not url.startswith(SCHEME):
            raise ValueError(f"expected undercroft://name or undercroft:///path, got {url!r}")
        return cls(url, **options)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run any command and return its reply, in the form redis-py gives it."""
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
        """Run a command for a method that gives back what is on the list."""
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
        """Let a function make the replies of a command into what its method returns."""
        # The callbacks are shared by all clients until one of them is changed.
        self.response_callbacks = type(self.response_callbacks)(self.response_callbacks)
        self.response_callbacks[command] = callback
        if command.upper() in _NATIVE:
            # The native methods know of no callbacks but redis-py's; execute_command does.
            self._shape()

    def get_encoder(self) -> Any:
        """Return redis-py's encoder with this client's encoding."""
        return self._remote.get_encoder()

    def get_connection_kwargs(self) -> dict[str, Any]:
        """Return what a redis-py client with this client's settings would connect with."""
        return dict(self._remote.get_connection_kwargs())

    def pipeline(  # type: ignore[override]
        self,
        transaction: bool = True,
        shard_hint: str | None = None,  # noqa: ARG002
    ) -> Pipeline:
        """Return a collection of commands that are run together.

        With ``transaction`` they are one change of the store. ``shard_hint`` is there for
        code that is written for other clients, and means nothing.
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
        """Call a function with a pipeline that watches keys until none of them was changed.

        Returns the results of the commands it collected behind ``pipe.multi()``, or with
        ``value_from_callable`` what it returned.
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
        """Return all keys that match, so many at a time: more than over a network."""
        return super().scan_iter(match, SCANNED if count is None else count, _type, **options)

    def pubsub(self, **kwargs: Any) -> PubSub:
        """Return a receiver of messages."""
        return PubSub(self, **kwargs)

    def __repr__(self) -> str:
        """Return the store's path and the database."""
        return (
            f"<{type(self).__module__}.{type(self).__qualname__}({str(self.path)!r}, db={self.db})>"
        )


# A client of its own: no program has changed what it makes of replies.
know(redis.Redis(protocol=2).response_callbacks)
# What these methods do not know is left to redis-py's of the same names.
_NATIVE = frozenset(command for command, _ in (*METHODS, *TYPED_METHODS))
add_typed(EmbeddedRedis)
EmbeddedRedis.xreadgroup = xreadgroup(EmbeddedRedis._xreadgroup)  # type: ignore[method-assign]
for _name, _method in others(redis.Redis).items():
    setattr(EmbeddedRedis, _name, through(_method))
