"""The native half of the package."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
Key: TypeAlias = str | Bytes
Value: TypeAlias = str | Bytes | int | float
Text: TypeAlias = Any  # bytes, or str where replies are decoded

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
    ) -> Client: ...
    @property
    def path(self) -> Path: ...
    @property
    def db(self) -> int: ...
    def close(self) -> None: ...
    def get(self, name: Key) -> Text | None: ...
    def set(
        self,
        name: Key,
        value: Value,
        ex: int | timedelta | None = None,
        px: int | timedelta | None = None,
        nx: bool = False,
        xx: bool = False,
        keepttl: bool = False,
        get: bool = False,
        exat: int | datetime | None = None,
        pxat: int | datetime | None = None,
        **options: Any,
    ) -> Text | bool | None: ...
    def mget(self, keys: Key | Iterable[Key], *args: Key) -> list[Text | None]: ...
    def mset(self, mapping: Mapping[Any, Value]) -> bool: ...
    def delete(self, *names: Key) -> int: ...
    def exists(self, *names: Key) -> int: ...
    def expire(
        self,
        name: Key,
        time: int | timedelta,
        nx: bool = False,
        xx: bool = False,
        gt: bool = False,
        lt: bool = False,
    ) -> bool: ...
    def ttl(self, name: Key) -> int: ...
    def incr(self, name: Key, amount: int = 1) -> int: ...
    def incrby(self, name: Key, amount: int = 1) -> int: ...
    def decr(self, name: Key, amount: int = 1) -> int: ...
    def decrby(self, name: Key, amount: int = 1) -> int: ...
    def _execute(self, arguments: tuple[Any, ...], decode: bool = True) -> Any: ...
