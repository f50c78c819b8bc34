"""Feeds: the typed object that every client's ``feed(key)`` returns.

This module builds commands and converts their replies. Each client runs, awaits or queues the
commands. NumPy is imported only when an array is requested.
"""

from __future__ import annotations

import struct
from functools import partial

# Defined here because importing typing takes longer than opening a store.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    Words = tuple[Any, ...]
    Convert = Callable[[Any], Any]
    # The start, count, filter and visibility (`seen`) of a range, and whether the range is
    # reversed.
    Asked = tuple[int, int, Any, str, bool]

# The maximum number of items that one command adds, so that it holds its lock only briefly.
CHUNK = 10_000
# The number of attempts to read a feed as an array if its form keeps changing.
_TRIES = 3
# The name of redis-py's option that leaves replies undecoded.
_NEVER_DECODE = "NEVER_DECODE"
_NUMBERS = "numbers of 0 to 4294967295"
_NUMBER_TYPES = {
    "int32": ("<i", "<i4"),
    "uint32": ("<I", "<u4"),
    "int64": ("<q", "<i8"),
    "uint64": ("<Q", "<u8"),
    "float32": ("<f", "<f4"),
    "float64": ("<d", "<f8"),
}


_imported: Any = None


def _numpy() -> Any:
    global _imported
    if _imported is None:
        try:
            import numpy
        except ImportError as error:
            raise ImportError(
                "arrays of feeds need numpy, which is not installed: pip install "
                "'undercroft[numpy]'"
            ) from error
        _imported = numpy
    return _imported


class Form:
    """The form of a feed's items: the value size in bytes and the bit width of each attribute.

    For a sorted feed it includes the type of the values.
    """

    def __init__(
        self, size: int | None, attributes: Sequence[int], type: str | None = None
    ) -> None:
        """Create a form. The size can be omitted if the type implies it."""
        kind = "" if type is None else type.lower()
        # The memory layout of numbers, in the notations of struct and NumPy.
        self.packing, self.number = _NUMBER_TYPES.get(kind, (None, None))
        if size is None:
            if self.packing is None:
                raise ValueError(f"expected size=, because the type {type!r} has no fixed size")
            size = struct.calcsize(self.packing)
        self.size = size
        self.is_text = kind == "text"
        self.attributes = tuple(attributes)
        # The size in bytes of each attribute's column in an array.
        self.columns = bytes(1 if bits <= 8 else 2 if bits <= 16 else 4 for bits in self.attributes)
        self.dtypes: dict[Any, Any] = {}

    def dtype(self, values: Any, attributes: bool) -> Any:
        """Return NumPy's dtype for an array of items whose values have a given dtype."""
        found = self.dtypes.get((values, attributes))
        if found is not None:
            return found
        numpy = _numpy()
        value = numpy.dtype((self.number or f"S{self.size}") if values is None else values)
        if value.itemsize != self.size or value.hasobject:
            raise ValueError(
                f"expected a dtype of {self.size} bytes, the size of the values, got {value} of "
                f"{value.itemsize} bytes"
            )
        made = value
        if attributes:
            columns = [(f"a{at}", f"<u{size}") for at, size in enumerate(self.columns)]
            made = numpy.dtype([("value", value), *columns])
        self.dtypes[values, attributes] = made
        return made

    def array(self, rows: bytes, values: Any, attributes: bool) -> Any:
        """Return a buffer of rows as a NumPy array, without copying it."""
        return _numpy().frombuffer(rows, self.dtype(values, attributes))

    def packed(self, reply: list[Any], attributes: bool) -> bytes | None:
        """Return FEED.RANGE's reply as one buffer, or None if the items' form differs."""
        encoded = [each if isinstance(each, bytes) else each.encode() for each in reply]
        columns = self.columns if attributes else b""
        step = 2 if columns else 1
        encoded[::step] = map(self._value, encoded[::step])
        if any(len(value) != self.size for value in encoded[::step]):
            return None
        if not columns:
            # A feed without attributes returns an empty string for the attributes.
            return b"".join(encoded)
        rows = bytearray()
        for value, text in zip(encoded[::2], encoded[1::2], strict=True):
            numbers = [int(part) for part in text.split(b":") if part]
            if len(numbers) != len(columns):
                return None
            rows += value
            for number, size in zip(numbers, columns, strict=True):
                if number >> 8 * size:
                    return None
                rows += number.to_bytes(size, "little")
        return bytes(rows)

    def _value(self, text: bytes) -> bytes:
        """Return a value as the feed stores it, given the value's text in a reply."""
        if self.packing is not None:
            try:
                number = float(text) if self.packing in ("<f", "<d") else int(text)
                return struct.pack(self.packing, number)
            except (ValueError, struct.error):
                # The feed was replaced by a feed with another form.
                return b""
        return text.ljust(self.size, b"\0") if self.is_text else text


def _is_missing(error: Exception) -> bool:
    return "no such key" in str(error)


def _attributes(attributes: Any) -> Any:
    """Return attributes in the form that commands accept."""
    if isinstance(attributes, str | bytes):
        return attributes
    return ":".join("" if each is None else str(int(each)) for each in attributes)


def _range(key: Any, asked: Asked, attributes: bool) -> Words:
    """Return the words of a FEED.RANGE command."""
    start, count, where, seen, reverse = asked
    return ("FEED.RANGE", key, start, count, *_query(where, seen, attributes, reverse))


def _query(where: Any, seen: str, attributes: bool, reverse: bool) -> Words:
    """Return the words that select items and specify the form and order of the reply."""
    words: Words = () if seen == "visible" else (seen,)
    if where is not None:
        words += ("WHERE", where)
    if attributes:
        words += ("WITHATTRS",)
    return (*words, "REV") if reverse else words


def _between(limits: tuple[Any, Any] | None) -> Words:
    """Return the words that restrict the items' values to a range."""
    if limits is None:
        return ()
    low, high = limits
    return ("BETWEEN", low, high)


def _text(word: Any) -> str:
    return word.decode() if isinstance(word, bytes) else str(word)


def _numbers(text: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in _text(text).split(":") if part)


def _behind(position: int | str, done: int) -> int | str:
    """Return the position for the remaining items after ``done`` items were added."""
    return position + done if isinstance(position, int) and position >= 0 else position


def _truth(reply: Any) -> bool:
    return bool(reply)


def _pairs(reply: list[Any]) -> list[tuple[Any, tuple[int, ...]]]:
    """Return pairs of value and attributes from a flat reply."""
    return [(value, _numbers(text)) for value, text in zip(reply[::2], reply[1::2], strict=True)]


def _info(reply: list[Any] | Mapping[Any, Any]) -> dict[str, Any]:
    """Return FEED.INFO's reply as a dictionary, given a map (RESP3) or a list (RESP2)."""
    if isinstance(reply, dict):
        pairs = list(reply.items())
    else:
        pairs = list(zip(reply[::2], reply[1::2], strict=True))
    info = {_text(name): value for name, value in pairs}
    info["attributes"] = _numbers(info["attributes"])
    for name in info.keys() & {"order", "type"}:
        info[name] = _text(info[name])
    return info


class _Given:
    """Items to add: values and their attributes."""

    def __init__(self, values: Any, attributes: Any, are_numbers: bool = False) -> None:
        self.values = values
        self.attributes = attributes
        # Whether commands send this array's values as numbers rather than as bytes.
        self.are_numbers = are_numbers

    def sorted_as(self, form: Form | None) -> _Given:
        """Return the items with values in a sorted feed's form, or unchanged if it is unknown."""
        if not self.in_arrays:
            return self
        kind = self.values.dtype.kind
        if form is None:
            return _Given(self.values, self.attributes, kind in "iuf")
        if form.is_text and kind == "S" and self.values.dtype.itemsize <= form.size:
            return _Given(self.values.astype(f"S{form.size}"), self.attributes)
        if form.number is None:
            return self
        if kind == "V" and self.values.dtype.itemsize == form.size:
            return _Given(self.values.view(form.number), self.attributes, True)
        if kind == "S":
            # Use decimal text, which commands accept for numbers.
            return _Given(self.values.tolist(), self._rows())
        numpy = _numpy()
        # Values that do not fit raise an error below.
        with numpy.errstate(all="ignore"):
            cast = self.values.astype(form.number)
        if form.number[1] == "f":
            # As in commands, -0 becomes 0, and overflow is an error.
            cast += 0.0
            lost = numpy.isnan(cast) | (numpy.isinf(cast) & ~numpy.isinf(self.values))
        else:
            lost = cast != self.values
        if lost.any():
            wrong = self.values[lost][0]
            raise ValueError(f"expected numbers in the range of {form.number}, got {wrong}")
        return _Given(cast, self.attributes, True)

    def _rows(self) -> Any:
        return None if self.attributes is None else self.attributes.tolist()

    @classmethod
    def of(cls, values: Any, attributes: Any) -> _Given:
        """Return items from arrays or other iterables, after checking their shape and type."""
        if not hasattr(values, "dtype"):
            values = list(values)
            if attributes is not None:
                attributes = list(attributes)
                if len(attributes) != len(values):
                    raise ValueError(
                        f"expected attributes for {len(values)} values, got {len(attributes)}"
                    )
            return cls(values, attributes)
        numpy = _numpy()
        if values.ndim != 1:
            raise ValueError(f"expected an array of one dimension, got {values.ndim}")
        names = values.dtype.names
        if names is not None:
            if names[0] != "value" or attributes is not None:
                raise ValueError(
                    "expected a structured array with the field 'value' and then exactly the "
                    f"attributes, got the fields {', '.join(names)}"
                )
            if len(names) > 1:
                wide = [cls._wide(values[name]) for name in names[1:]]
                attributes = numpy.stack(wide, axis=1)
            values = values["value"]
        if values.dtype.hasobject or values.dtype.kind == "U":
            raise ValueError(
                "expected an array of bytes or numbers, such as S12, V12 or >u8, got "
                f"{values.dtype}"
            )
        if attributes is not None:
            attributes = cls._wide(numpy.asarray(attributes))
            if attributes.ndim == 1:
                attributes = attributes[:, None]
            if attributes.ndim != 2 or len(attributes) != len(values):
                raise ValueError(
                    f"expected an array of {len(values)} rows as attributes, got shape "
                    f"{attributes.shape}"
                )
        return cls(values, attributes)

    @staticmethod
    def _wide(column: Any) -> Any:
        """Return a column of attributes as 32-bit unsigned numbers."""
        if column.dtype.kind not in "iub":
            raise ValueError(f"expected {_NUMBERS} as attributes, got {column.dtype}")
        if column.size and (column.min() < 0 or column.max() > 0xFFFF_FFFF):
            wrong = column.min() if column.min() < 0 else column.max()
            raise ValueError(f"expected {_NUMBERS} as attributes, got {wrong}")
        return column.astype("<u4")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def in_arrays(self) -> bool:
        return hasattr(self.values, "dtype")

    def chunks(self) -> Iterator[_Given]:
        """Yield the items in chunks, each of which one command adds."""
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            attributes = None if self.attributes is None else self.attributes[part]
            yield _Given(self.values[part], attributes, self.are_numbers)

    def buffers(self) -> tuple[bytes, int, bytes, int]:
        """Return values and attributes as two buffers, each with its item size or column count."""
        size = self.values.dtype.itemsize
        if self.attributes is None:
            return self.values.tobytes(), size, b"", 0
        return self.values.tobytes(), size, self.attributes.tobytes(), self.attributes.shape[1]

    def words(self) -> list[Any]:
        """Return the items as arguments of FEED.ADD."""
        values: list[Any] = self.values
        rows = self.attributes
        if self.in_arrays:
            size, data = self.values.dtype.itemsize, self.values.tobytes()
            values = [data[at : at + size] for at in range(0, len(data), size)]
            if self.are_numbers:
                values = self.values.tolist()
            rows = self._rows()
        if rows is None:
            for value in values[1:]:
                if isinstance(value, str | bytes) and _is_word(value):
                    raise ValueError(
                        "expected attributes for the value before a value that reads ATTRS, got "
                        "none: FEED.ADD would read that value as the keyword"
                    )
            return values
        words: list[Any] = []
        for value, attributes in zip(values, rows, strict=True):
            words += value, "ATTRS", _attributes(attributes)
        return words


def _is_word(value: str | bytes) -> bool:
    return len(value) == 5 and value.upper() in ("ATTRS", b"ATTRS")


class _Feed:
    """The common base class of all feeds, most of whose methods run one command."""

    def __init__(
        self,
        client: Any,
        key: Any,
        size: int | None,
        attributes: Sequence[int] | None,
        type: str | None = None,
    ) -> None:
        self._client = client
        self.key = key
        # The client's native method for reading rows, if it has one.
        self._rows: Any = getattr(client, "_range_rows", None)
        self._form: Form | None = None
        if size is not None or type is not None:
            self._form = Form(size, attributes or (), type)

    def __repr__(self) -> str:
        """Return a string with the key and the client."""
        return f"<{type(self).__module__}.{type(self).__qualname__}({self.key!r}, {self._client})>"

    def _run(self, words: Words, convert: Convert | None = None, raw: bool = False) -> Any:
        return self._client._feed_run(words, convert, raw)

    def create(
        self,
        size: int | None = None,
        attributes: Sequence[int] = (),
        order: str = "list",
        *,
        type: str | None = None,
        unique: bool = False,
        index: bool = False,
    ) -> Any:
        """Create the feed, with values of ``size`` bytes and attributes of the given bit widths.

        ``type``, ``unique`` and ``index`` require a server or store that supports them.
        """
        words: Words = ("FEED.CREATE", self.key)
        if size is not None:
            words += ("SIZE", size)
        if attributes:
            words += ("ATTRS", _attributes(attributes))
        words += ("ORDER", order)
        if type is not None:
            words += ("TYPE", type)
        if unique:
            words += ("UNIQUE",)
        if index:
            words += ("INDEX",)
        made = self._run(words, _truth)
        if size is not None or type is not None:
            self._form = Form(size, attributes, type)
        return made

    def add(self, position: int | str, *values: Any, attributes: Any = None) -> Any:
        """Insert values before a position, with the same attributes. Returns the feed's length."""
        rows = None if attributes is None else [_attributes(attributes)] * len(values)
        items = _Given(list(values), rows)
        return self._run(("FEED.ADD", self.key, position, *items.words()))

    def delete(self, *values: Any) -> Any:
        """Remove all items with these values. Returns the number of removed items."""
        return self._run(("FEED.DEL", self.key, *values))

    def delete_where(
        self,
        where: str | bytes,
        *,
        seen: str = "all",
        between: tuple[Any, Any] | None = None,
    ) -> Any:
        """Remove all items that match a filter, in a sorted feed only those between two values.

        Returns the number of removed items.
        """
        return self._run(("FEED.DELWHERE", self.key, where, seen, *_between(between)))

    def move(self, value: Any, position: int) -> Any:
        """Move the first item with a value to a position. Returns whether such an item exists."""
        return self._run(("FEED.MOVE", self.key, value, position), _truth)

    def set_attributes(self, value: Any, attributes: Any) -> Any:
        """Set the attributes of all items with a value; None leaves an attribute unchanged.

        Returns the number of items with the value.
        """
        return self._run(("FEED.SETATTR", self.key, value, _attributes(attributes)))

    def hide(self, *values: Any) -> Any:
        """Hide all items with these values. Returns the number of items that were visible."""
        return self._run(("FEED.HIDE", self.key, *values))

    def show(self, *values: Any) -> Any:
        """Make all items with these values visible. Returns the number that were hidden."""
        return self._run(("FEED.SHOW", self.key, *values))

    def range(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: str = "visible",
        attributes: bool = False,
        reverse: bool = False,
    ) -> Any:
        """Return values starting at a position, or pairs of values and attributes."""
        words = _range(self.key, (start, count, where, seen, reverse), attributes)
        return self._run(words, _pairs if attributes else None)

    def count(
        self,
        *,
        where: str | bytes | None = None,
        seen: str = "visible",
        between: tuple[Any, Any] | None = None,
    ) -> Any:
        """Return the number of items with this visibility.

        In a sorted feed, ``between`` limits the count to items between two values.
        """
        words: Words = ("FEED.COUNT", self.key, seen, *_between(between))
        return self._run(words if where is None else (*words, "WHERE", where))

    def position(self, value: Any, *, seen: str = "visible") -> Any:
        """Return the position of the first item with a value, or None if ``seen`` excludes it."""
        return self._run(("FEED.POS", self.key, value, seen))

    def pop(self, end: str = "left", count: int | None = None) -> Any:
        """Remove and return a visible item, or a list of ``count`` items; None if there is none."""
        words: Words = ("FEED.POP", self.key, end)
        return self._run(words if count is None else (*words, count))

    def between(
        self,
        low: Any,
        high: Any,
        start: int = 0,
        count: int | None = None,
        *,
        where: str | bytes | None = None,
        seen: str = "visible",
        attributes: bool = False,
        reverse: bool = False,
    ) -> Any:
        """Return a sorted feed's values between two limits in the notation of FEED.BETWEEN.

        It requires a server or store that supports FEED.BETWEEN.
        """
        words: Words = ("FEED.BETWEEN", self.key, low, high)
        if start or count is not None:
            words += ("LIMIT", start, -1 if count is None else count)
        words += _query(where, seen, attributes, reverse)
        return self._run(words, _pairs if attributes else None)

    def info(self) -> Any:
        """Return the form of the items, their number, and their memory usage."""
        return self._run(("FEED.INFO", self.key), _info)

    def compact(self) -> Any:
        """Rewrite the items so that they occupy as little memory as possible."""
        return self._run(("FEED.COMPACT", self.key), _truth)

    def _learnt(self, info: dict[str, Any]) -> Form:
        form = self._form = Form(int(info["size"]), info["attributes"], info.get("type"))
        return form

    def _changed(self) -> ValueError:
        return ValueError(
            f"the schema of {self.key!r} changed during each attempt, because the feed was "
            "recreated; try again"
        )


# The form of the empty array that represents a missing feed.
_NOTHING = Form(1, ())


class Feed(_Feed):
    """A feed whose methods run their command and return its result."""

    def _form_of(self) -> Form:
        if self._form is not None:
            return self._form
        try:
            return self._learnt(self.info())
        except Exception as error:
            if _is_missing(error):
                return _NOTHING
            raise

    def array(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: str = "visible",
        attributes: bool = False,
        reverse: bool = False,
        dtype: Any = None,
    ) -> Any:
        """Return values starting at a position as a NumPy array."""
        form, rows = self._form, self._rows
        # A fast path for the most frequent call: a page of a feed whose form is known.
        if form is not None and rows is not None and (form.columns or not attributes):
            columns = form.columns if attributes else b""
            found = rows(self.key, start, count, where, seen, reverse, form.size, columns)
            made = form.dtypes.get((dtype, attributes))
            if found is not None and made is not None:
                return _imported.frombuffer(found, made)
        asked = (start, count, where, seen, reverse)
        for _ in range(_TRIES):
            form = self._form or self._form_of()
            if attributes and not form.columns:
                # Read the form again, because a range without attributes cannot detect that the
                # feed has gained attributes.
                self._form = None
                form = self._form_of()
            rows = self._client._feed_rows(self.key, asked, form, attributes)
            if rows is not None:
                if form is _NOTHING:
                    dtype = None
                return form.array(rows, dtype, attributes)
            self._form = None
        raise self._changed()

    def add_many(self, position: int | str, values: Iterable[Any], attributes: Any = None) -> Any:
        """Insert values before the item at a position, each with its own attributes.

        Returns the number of items in the feed, or None if ``values`` is empty.
        """
        total, done = None, 0
        given = _Given.of(values, attributes)
        if position == "*" and given.in_arrays:
            given = given.sorted_as(self._form_of())
        for items in given.chunks():
            place = _behind(position, done)
            total = self._client._feed_add(("FEED.ADD", self.key, place), items)
            done += len(items)
        return total


class AsyncFeed(_Feed):
    """A feed whose methods are coroutines."""

    async def _form_of(self) -> Form:
        if self._form is not None:
            return self._form
        try:
            return self._learnt(await self.info())
        except Exception as error:
            if _is_missing(error):
                return _NOTHING
            raise

    async def array(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: str = "visible",
        attributes: bool = False,
        reverse: bool = False,
        dtype: Any = None,
    ) -> Any:
        """Return values starting at a position as a NumPy array."""
        asked = (start, count, where, seen, reverse)
        for _ in range(_TRIES):
            form = self._form or await self._form_of()
            if attributes and not form.columns:
                # Read the form again, because a range without attributes cannot detect that the
                # feed has gained attributes.
                self._form = None
                form = await self._form_of()
            rows = await self._client._feed_rows(self.key, asked, form, attributes)
            if rows is not None:
                if form is _NOTHING:
                    dtype = None
                return form.array(rows, dtype, attributes)
            self._form = None
        raise self._changed()

    async def add_many(
        self, position: int | str, values: Iterable[Any], attributes: Any = None
    ) -> Any:
        """Insert values before the item at a position, each with its own attributes.

        Returns the number of items in the feed, or None if ``values`` is empty.
        """
        total, done = None, 0
        given = _Given.of(values, attributes)
        if position == "*" and given.in_arrays:
            given = given.sorted_as(await self._form_of())
        for items in given.chunks():
            place = _behind(position, done)
            total = await self._client._feed_add(("FEED.ADD", self.key, place), items)
            done += len(items)
        return total


class PipelineFeed(_Feed):
    """A pipeline's feed, whose methods queue commands; ``execute()`` returns their results."""

    def array(
        self,
        start: int = 0,
        count: int = 100,
        *,
        where: str | bytes | None = None,
        seen: str = "visible",
        attributes: bool = False,
        reverse: bool = False,
        dtype: Any = None,
    ) -> Any:
        """Queue a range whose result is a NumPy array."""
        form = self._form
        if form is None:
            raise ValueError(
                "a pipeline cannot look up the feed's schema; pass size= and attributes= to "
                "feed() to get ranges as arrays"
            )
        form.dtype(dtype, attributes)
        asked = (start, count, where, seen, reverse)

        def convert(reply: Any) -> Any:
            rows = form.packed(reply, attributes)
            if rows is None:
                raise ValueError(
                    f"feed() was given values of {form.size} bytes with attributes of "
                    f"{form.attributes} bits, but {self.key!r} has a different schema"
                )
            return form.array(rows, dtype, attributes)

        return self._run(_range(self.key, asked, attributes and bool(form.columns)), convert, True)

    def add_many(self, position: int | str, values: Iterable[Any], attributes: Any = None) -> Any:
        """Queue one command that adds values, each with its own attributes."""
        items = _Given.of(values, attributes)
        if position == "*":
            items = items.sorted_as(self._form)
        return self._run(("FEED.ADD", self.key, position, *items.words()))


def _converted(reply: Any, feed: Convert | None = None, **_: Any) -> Any:
    """Convert a reply to a feed method's result, as redis-py's response callback for feeds."""
    return reply if feed is None else feed(reply)


def run(client: Any, words: Words, convert: Convert | None, raw: bool) -> Any:
    """Run a command on a client or pipeline that has redis-py's methods."""
    options: dict[str, Any] = {}
    if convert is not None:
        client.response_callbacks.setdefault(words[0], _converted)
        options["feed"] = convert
    if raw:
        options[_NEVER_DECODE] = True
    return client.execute_command(*words, **options)


class Feeds:
    """A mixin that adds ``feed()`` to clients."""

    def feed(
        self,
        key: Any,
        size: int | None = None,
        attributes: Sequence[int] | None = None,
        type: str | None = None,
    ) -> Feed:
        """Return a feed object for a key, which need not exist."""
        return Feed(self, key, size, attributes, type)

    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:
        return run(self, words, convert, raw)

    def _feed_rows(self, key: Any, asked: Asked, form: Form, attributes: bool) -> bytes | None:
        words = _range(key, asked, attributes and bool(form.columns))
        convert = partial(form.packed, attributes=attributes)
        rows: bytes | None = self._feed_run(words, convert, True)
        return rows

    def _feed_add(self, words: Words, items: _Given) -> Any:
        return self._feed_run((*words, *items.words()), None, False)


class EmbeddedFeeds(Feeds):
    """A mixin that adds ``feed()`` to store clients and passes arrays as one buffer."""

    def _feed_rows(self: Any, key: Any, asked: Asked, form: Form, attributes: bool) -> bytes | None:
        columns = form.columns if attributes else b""
        rows: bytes | None = self._range_rows(key, *asked, form.size, columns)
        return rows

    def _feed_add(self: Any, words: Words, items: _Given) -> Any:
        if not items.in_arrays:
            return self._feed_run((*words, *items.words()), None, False)
        return self._add_rows(words, *items.buffers())


class AsyncFeeds:
    """A mixin that adds ``feed()`` to asyncio clients."""

    def feed(
        self,
        key: Any,
        size: int | None = None,
        attributes: Sequence[int] | None = None,
        type: str | None = None,
    ) -> AsyncFeed:
        """Return a feed object for a key, which need not exist."""
        return AsyncFeed(self, key, size, attributes, type)

    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:
        return run(self, words, convert, raw)

    async def _feed_rows(
        self, key: Any, asked: Asked, form: Form, attributes: bool
    ) -> bytes | None:
        words = _range(key, asked, attributes and bool(form.columns))
        convert = partial(form.packed, attributes=attributes)
        rows: bytes | None = await self._feed_run(words, convert, True)
        return rows

    async def _feed_add(self, words: Words, items: _Given) -> Any:
        return await self._feed_run((*words, *items.words()), None, False)


class PipelineFeeds:
    """A mixin that adds ``feed()`` to pipelines."""

    def feed(
        self,
        key: Any,
        size: int | None = None,
        attributes: Sequence[int] | None = None,
        type: str | None = None,
    ) -> PipelineFeed:
        """Return a feed object for a key, whose methods queue commands."""
        return PipelineFeed(self, key, size, attributes, type)

    def _feed_run(self, words: Words, convert: Convert | None, raw: bool) -> Any:
        return run(self, words, convert, raw)
