"""Feeds: the typed object that every client's ``feed(key)`` returns."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, TypeAlias, overload

from numpy.typing import DTypeLike, NDArray

Words: TypeAlias = tuple[Any, ...]
Convert: TypeAlias = Callable[[Any], Any]
Asked: TypeAlias = tuple[int, int, Any, str, bool]

CHUNK: int

_Bytes: TypeAlias = bytes | bytearray | memoryview
_Key: TypeAlias = str | _Bytes
_Value: TypeAlias = str | _Bytes | int | float
_Text: TypeAlias = Any  # bytes, or str if the client decodes replies
_Seen: TypeAlias = Literal["visible", "hidden", "all"]
_End: TypeAlias = Literal["left", "right"]
_Order: TypeAlias = str
# "*" is the position in a sorted feed, whose order depends on the values.
_Position: TypeAlias = int | Literal["*"]
# One number for each attribute. None means 0 for a new item, and leaves an existing item's
# attribute unchanged.
_Attributes: TypeAlias = str | bytes | Sequence[int | None]
_Items: TypeAlias = NDArray[Any] | Iterable[_Value]
_Rows: TypeAlias = NDArray[Any] | Iterable[_Attributes]

class Form:
    """The form of a feed's items: the value size in bytes and the bit width of each attribute."""

    size: int
    attributes: tuple[int, ...]
    columns: bytes
    dtypes: dict[Any, Any]

    packing: str | None
    number: str | None
    is_text: bool

    def __init__(
        self, size: int | None, attributes: Sequence[int], type: str | None = None
    ) -> None: ...
    def dtype(self, values: Any, attributes: bool) -> Any: ...
    def array(self, rows: bytes, values: Any, attributes: bool) -> Any: ...
    def packed(self, reply: list[Any], attributes: bool) -> bytes | None: ...

class _Feed:
    key: Any

    def __init__(
        self,
        client: Any,
        key: Any,
        size: int | None,
        attributes: Sequence[int] | None,
        type: str | None = None,
    ) -> None: ...

class Feed(_Feed):
    """A feed whose methods run their command and return its result."""

    def create(
        self,
        size: int | None = None,
        attributes: Sequence[int] = (),
        order: _Order = "list",
        *,
        type: str | None = None,
        unique: bool = False,
        index: bool = False,
    ) -> bool: ...
    def add(
        self, position: _Position, *values: _Value, attributes: _Attributes | None = None
    ) -> int: ...
    def add_many(
        self, position: _Position, values: _Items, attributes: _Rows | None = None
    ) -> int | None: ...
    def delete(self, *values: _Value) -> int: ...
    def delete_where(
        self, where: str | bytes, *, seen: _Seen = "all", between: tuple[Any, Any] | None = None
    ) -> int: ...
    def move(self, value: _Value, position: int) -> bool: ...
    def set_attributes(self, value: _Value, attributes: _Attributes) -> int: ...
    def hide(self, *values: _Value) -> int: ...
    def show(self, *values: _Value) -> int: ...
    @overload
    def range(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: Literal[False] = False,
        reverse: bool = False,
    ) -> list[_Text]: ...
    @overload
    def range(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: Literal[True],
        reverse: bool = False,
    ) -> list[tuple[_Text, tuple[int, ...]]]: ...
    def array(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: bool = False,
        reverse: bool = False,
        dtype: DTypeLike | None = None,
    ) -> NDArray[Any]: ...
    def count(
        self,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        between: tuple[Any, Any] | None = None,
    ) -> int: ...
    def position(self, value: _Value, *, seen: _Seen = "visible") -> int | None: ...
    @overload
    def pop(self, end: _End = "left", count: None = None) -> _Text | None: ...
    @overload
    def pop(self, end: _End = "left", *, count: int) -> list[_Text] | None: ...
    @overload
    def pop(self, end: _End, count: int) -> list[_Text] | None: ...
    def between(
        self,
        low: Any,
        high: Any,
        start: int = 0,
        count: int | None = None,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: bool = False,
        reverse: bool = False,
    ) -> Any: ...
    def info(self) -> dict[str, Any]: ...
    def compact(self) -> bool: ...

class AsyncFeed(_Feed):
    """A feed whose methods are coroutines."""

    def create(
        self,
        size: int | None = None,
        attributes: Sequence[int] = (),
        order: _Order = "list",
        *,
        type: str | None = None,
        unique: bool = False,
        index: bool = False,
    ) -> Awaitable[bool]: ...
    def add(
        self, position: _Position, *values: _Value, attributes: _Attributes | None = None
    ) -> Awaitable[int]: ...
    async def add_many(
        self, position: _Position, values: _Items, attributes: _Rows | None = None
    ) -> int | None: ...
    def delete(self, *values: _Value) -> Awaitable[int]: ...
    def delete_where(
        self, where: str | bytes, *, seen: _Seen = "all", between: tuple[Any, Any] | None = None
    ) -> Awaitable[int]: ...
    def move(self, value: _Value, position: int) -> Awaitable[bool]: ...
    def set_attributes(self, value: _Value, attributes: _Attributes) -> Awaitable[int]: ...
    def hide(self, *values: _Value) -> Awaitable[int]: ...
    def show(self, *values: _Value) -> Awaitable[int]: ...
    @overload
    def range(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: Literal[False] = False,
        reverse: bool = False,
    ) -> Awaitable[list[_Text]]: ...
    @overload
    def range(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: Literal[True],
        reverse: bool = False,
    ) -> Awaitable[list[tuple[_Text, tuple[int, ...]]]]: ...
    async def array(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: bool = False,
        reverse: bool = False,
        dtype: DTypeLike | None = None,
    ) -> NDArray[Any]: ...
    def count(
        self,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        between: tuple[Any, Any] | None = None,
    ) -> Awaitable[int]: ...
    def position(self, value: _Value, *, seen: _Seen = "visible") -> Awaitable[int | None]: ...
    @overload
    def pop(self, end: _End = "left", count: None = None) -> Awaitable[_Text | None]: ...
    @overload
    def pop(self, end: _End = "left", *, count: int) -> Awaitable[list[_Text] | None]: ...
    @overload
    def pop(self, end: _End, count: int) -> Awaitable[list[_Text] | None]: ...
    def between(
        self,
        low: Any,
        high: Any,
        start: int = 0,
        count: int | None = None,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: bool = False,
        reverse: bool = False,
    ) -> Awaitable[Any]: ...
    def info(self) -> Awaitable[dict[str, Any]]: ...
    def compact(self) -> Awaitable[bool]: ...

class PipelineFeed(_Feed):
    """A pipeline's feed, whose methods queue commands and return the pipeline."""

    def create(
        self,
        size: int | None = None,
        attributes: Sequence[int] = (),
        order: _Order = "list",
        *,
        type: str | None = None,
        unique: bool = False,
        index: bool = False,
    ) -> Any: ...
    def add(
        self, position: _Position, *values: _Value, attributes: _Attributes | None = None
    ) -> Any: ...
    def add_many(
        self, position: _Position, values: _Items, attributes: _Rows | None = None
    ) -> Any: ...
    def delete(self, *values: _Value) -> Any: ...
    def delete_where(
        self, where: str | bytes, *, seen: _Seen = "all", between: tuple[Any, Any] | None = None
    ) -> Any: ...
    def move(self, value: _Value, position: int) -> Any: ...
    def set_attributes(self, value: _Value, attributes: _Attributes) -> Any: ...
    def hide(self, *values: _Value) -> Any: ...
    def show(self, *values: _Value) -> Any: ...
    def range(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: bool = False,
        reverse: bool = False,
    ) -> Any: ...
    def array(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: bool = False,
        reverse: bool = False,
        dtype: DTypeLike | None = None,
    ) -> Any: ...
    def count(
        self,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        between: tuple[Any, Any] | None = None,
    ) -> Any: ...
    def position(self, value: _Value, *, seen: _Seen = "visible") -> Any: ...
    def pop(self, end: _End = "left", count: int | None = None) -> Any: ...
    def between(
        self,
        low: Any,
        high: Any,
        start: int = 0,
        count: int | None = None,
        *,
        where: str | bytes | None = None,
        seen: _Seen = "visible",
        attributes: bool = False,
        reverse: bool = False,
    ) -> Any: ...
    def info(self) -> Any: ...
    def compact(self) -> Any: ...

def run(client: Any, words: Words, convert: Convert | None, raw: bool) -> Any: ...

class Feeds:
    """A mixin that adds ``feed()`` to clients."""

    def feed(
        self,
        key: _Key,
        size: int | None = None,
        attributes: Sequence[int] | None = None,
        type: str | None = None,
    ) -> Feed: ...
    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any: ...
    def _feed_rows(self, key: Any, asked: Asked, form: Form, attributes: bool) -> bytes | None: ...
    def _feed_add(self, words: Words, items: Any) -> Any: ...

class EmbeddedFeeds(Feeds):
    """A mixin that adds ``feed()`` to store clients and passes arrays as one buffer."""

class AsyncFeeds:
    """A mixin that adds ``feed()`` to asyncio clients."""

    def feed(
        self,
        key: _Key,
        size: int | None = None,
        attributes: Sequence[int] | None = None,
        type: str | None = None,
    ) -> AsyncFeed: ...
    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any: ...
    async def _feed_rows(
        self, key: Any, asked: Asked, form: Form, attributes: bool
    ) -> bytes | None: ...
    async def _feed_add(self, words: Words, items: Any) -> Any: ...

class PipelineFeeds:
    """A mixin that adds ``feed()`` to pipelines."""

    def feed(
        self,
        key: _Key,
        size: int | None = None,
        attributes: Sequence[int] | None = None,
        type: str | None = None,
    ) -> PipelineFeed: ...
    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any: ...
