"""The native half of the package."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeAlias

from typing_extensions import disjoint_base

__all__ = ["Client"]

_Bytes: TypeAlias = bytes | bytearray | memoryview
_Key: TypeAlias = str | _Bytes
_Value: TypeAlias = str | _Bytes | int | float
_Text: TypeAlias = Any  # bytes, or str where replies are decoded

@disjoint_base
class Client:
    """A client of one store: the hot methods, and ``_execute`` for all commands."""

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
        timeout: float | None = None,
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
    def _execute(self, arguments: tuple[Any, ...], decode: bool = True) -> Any: ...
    def _execute_many(self, commands: list[tuple[tuple[Any, ...], bool]]) -> list[Any]: ...
    def _link(self) -> Client: ...
