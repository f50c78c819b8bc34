"""The native half of the package."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeAlias, final

from redis.exceptions import TimeoutError
from typing_extensions import disjoint_base

__all__ = [
    "Backlog",
    "Client",
    "Line",
    "Locked",
    "Parked",
    "Queue",
    "Subscription",
    "Wait",
    "Waiters",
    "Wire",
    "add_rows",
    "command",
    "errors",
    "know",
    "shape_replies",
]

_Bytes: TypeAlias = bytes | bytearray | memoryview
_Key: TypeAlias = str | _Bytes
_Value: TypeAlias = str | _Bytes | int | float
_Text: TypeAlias = Any  # bytes, or str where replies are decoded

def command(words: list[str]) -> int:
    """Run the undercroft command with these words and return its exit status."""

def add_rows(clients: type[Client], pipelines: type[Queue]) -> list[str]:
    """Add the methods that hand their arguments on to classes of clients and of pipelines.

    Returns the names of the commands whose methods are native.
    """

def errors(replies: list[Any]) -> list[int]:
    """Return the places of the errors among replies."""

def shape_replies(
    callbacks: dict[str, Callable[..., Any]],
    commands: list[tuple[tuple[Any, ...], dict[str, Any]]],
    replies: list[Any],
) -> list[int]:
    """Make the results of replies to commands, in their places; errors stay.

    Returns the places of those that a function makes which only Python can call.
    """

def know(usual: dict[str, Callable[..., Any]]) -> None:
    """Take note of redis-py's functions, by the commands whose replies they make results of."""

class Locked(TimeoutError):  # noqa: N818
    """A call of a client that hurries met a lock, and has changed nothing."""

@final
class Parked:
    """A call that is to be tried again: while it lives, no other that hurries waits for a lock."""

    def make(
        self, call: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any: ...

@final
class Backlog:
    """A store in which calls have left something to be done behind them."""

    def settle(self) -> bool: ...
    @property
    def store(self) -> int: ...

@disjoint_base
class Client:
    """A client of one store: the hot methods, and ``_execute`` for all commands."""

    response_callbacks: dict[str, Callable[..., Any]]

    def __new__(
        cls,
        store: str = "undercroft://default",
        db: int = 0,
        *,
        decode_responses: bool = False,
        encoding: str = "utf-8",
        encoding_errors: str = "strict",
        capacity: int | None = None,
        maxmemory: int | None = None,
        maxmemory_policy: str | None = None,
        timeout: float | None = None,
        client_name: str | None = None,
    ) -> Self: ...
    @property
    def path(self) -> Path: ...
    @property
    def db(self) -> int: ...
    def close(self) -> None: ...
    def get(self, name: _Key) -> _Text | None: ...
    def set(
        self,
        name: _Key,
        value: _Value,
        ex: int | timedelta | None = None,
        px: int | timedelta | None = None,
        nx: bool = False,
        xx: bool = False,
        keepttl: bool = False,
        get: bool = False,
        exat: int | datetime | None = None,
        pxat: int | datetime | None = None,
        **options: Any,
    ) -> _Text | bool | None: ...
    def mget(self, keys: _Key | Iterable[_Key], *args: _Key) -> list[_Text | None]: ...
    def mset(self, mapping: Mapping[Any, _Value]) -> bool: ...
    def lpush(self, name: _Key, *values: _Value) -> int: ...
    def rpush(self, name: _Key, *values: _Value) -> int: ...
    def lpop(self, name: _Key, count: int | None = None) -> _Text | list[_Text] | None: ...
    def rpop(self, name: _Key, count: int | None = None) -> _Text | list[_Text] | None: ...
    def lrange(self, name: _Key, start: int, end: int) -> list[_Text]: ...
    def llen(self, name: _Key) -> int: ...
    def delete(self, *names: _Key) -> int: ...
    def exists(self, *names: _Key) -> int: ...
    def expire(
        self,
        name: _Key,
        time: int | timedelta,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> bool: ...
    def ttl(self, name: _Key) -> int: ...
    def incr(self, name: _Key, amount: int = 1) -> int: ...
    def incrby(self, name: _Key, amount: int = 1) -> int: ...
    def decr(self, name: _Key, amount: int = 1) -> int: ...
    def decrby(self, name: _Key, amount: int = 1) -> int: ...
    def hget(self, name: _Key, key: _Key) -> _Text | None: ...
    def hset(
        self,
        name: _Key,
        key: _Key | None = None,
        value: _Value | None = None,
        mapping: Mapping[Any, _Value] | None = None,
        items: list[Any] | None = None,
    ) -> int: ...
    def sadd(self, name: _Key, *values: _Value) -> int: ...
    def sismember(self, name: _Key, value: _Value) -> int: ...
    def _execute(self, words: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, bool]: ...
    def _execute_many(
        self,
        commands: list[tuple[tuple[Any, ...], dict[str, Any]]],
        replies: list[Any] | None = None,
    ) -> list[Any]: ...
    def _discard(self) -> None: ...
    def _link(self) -> Client: ...
    def _hurry(self, left: Callable[[Backlog], object]) -> None: ...
    def _patience(self) -> float: ...
    def _backlog(self) -> Backlog | None: ...
    def _shape(self) -> None: ...

@disjoint_base
class Queue:
    """The commands of a pipeline that wait."""

    command_stack: list[tuple[tuple[Any, ...], dict[str, Any]]]
    watching: bool
    explicit_transaction: bool
    def __new__(cls, *_args: Any, **_options: Any) -> Self: ...

@final
class Subscription:
    """A receiver of messages, and what it received."""

    def __new__(cls, client: Client) -> Self: ...
    def command(self, arguments: tuple[Any, ...]) -> None: ...
    def read(self, timeout: float | None = None, decode: bool = True) -> Any: ...
    def close(self) -> None: ...
    def fileno(self) -> int: ...
    @property
    def lost(self) -> int: ...

@final
class Wait:
    """A command that has no answer yet."""

    @property
    def seconds(self) -> float | None: ...

@final
class Waiters:
    """The tasks of one event loop that wait for keys of one store."""

    def __new__(cls, client: Client) -> Self: ...
    def begin(self, client: Client, arguments: tuple[Any, ...], decode: bool = True) -> Any: ...
    def look(self) -> list[Wait]: ...
    def finish(self, wait: Wait) -> Any: ...
    def give_up(self, wait: Wait) -> None: ...
    def fileno(self) -> int: ...

@final
class Wire:
    """Commands as bytes and bytes as replies, for one connection."""

    def __new__(
        cls,
        error: Callable[[str], Exception],
        decode_responses: bool = False,
        encoding: str = "utf-8",
        encoding_errors: str = "strict",
        sets: bool = False,
    ) -> Self: ...
    def pack(self, *args: Any) -> list[bytes]: ...
    def pack_many(self, commands: Iterable[Iterable[Any]]) -> list[bytes]: ...
    def feed(self, data: _Bytes) -> None: ...
    def has_data(self) -> bool: ...
    def gets(self, decode: bool = True) -> Any: ...
    def attach(self, socket: int, local: bool) -> None: ...
    def quiet(self) -> bool: ...
    def suspect(self) -> bool: ...
    @staticmethod
    def call_at_once(pool: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any: ...
    def call(self, args: tuple[Any, ...], decode: bool, timeout: float | None) -> Any: ...
    def receive(self, decode: bool, timeout: float | None) -> Any: ...
    def exchange(
        self,
        commands: list[Any],
        messages: list[Any],
        timeout: float | None,
    ) -> list[Any] | None: ...
    @staticmethod
    def unusual(
        callbacks: dict[Any, Any], commands: list[Any], replies: list[Any]
    ) -> list[int]: ...

@final
class Line:
    """Commands that wait to be written, and calls that wait for the replies in order."""

    def __new__(
        cls,
        error: Callable[[str], Exception],
        decode_responses: bool = False,
        encoding: str = "utf-8",
        encoding_errors: str = "strict",
        sets: bool = False,
    ) -> Self: ...
    @property
    def first(self) -> Any: ...
    @property
    def taken(self) -> Any: ...
    def __len__(self) -> int: ...
    def put(
        self, call: Any, args: tuple[Any, ...], decode: bool = True, callbacks: Any = None
    ) -> None: ...
    def put_many(self, batch: Any, commands: list[Any]) -> None: ...
    def gathered(self) -> bytes: ...
    def receive(self, data: _Bytes, woken: list[Any]) -> tuple[Any, Any] | None: ...
    def answer(self, woken: list[Any]) -> tuple[Any, Any] | None: ...
    def close(self) -> list[Any]: ...
