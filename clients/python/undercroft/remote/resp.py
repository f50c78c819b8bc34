"""RESP2 and RESP3 in pure Python: encodes commands and decodes replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import InvalidResponse

if TYPE_CHECKING:
    from collections.abc import Iterable

# Returned by Reader.gets if no complete reply has arrived.
MISSING: Final = object()

# Arguments longer than this many bytes are sent separately and are not copied into the command.
_LONG = 65536
# The maximum nesting depth of a reply. Deeper nesting is a protocol error.
_DEPTH = 512
_NAMES_KEPT = 1024
# The maximum length of a string in bytes, or of a collection in items. A longer one is rejected
# when its header arrives.
_LONGEST = (1 << 32) - 1

_ERROR, _STATUS, _INTEGER, _BULK, _ARRAY = b"-+:$*"
_NULL, _DOUBLE, _BOOLEAN, _BIG, _BULK_ERROR, _VERBATIM = b"_,#(!="
_MAP, _SET, _ATTRIBUTE, _PUSH = b"%~|>"


class Push(list[Any]):
    """A push message, which the server sends without a request."""


class Packer:
    """Encodes commands.

    ``encode`` is called for arguments that are neither bytes nor text.
    """

    def __init__(self, encoding: str, errors: str, encode: Callable[[Any], Any]) -> None:
        """Set the text encoding, and the function that encodes all other arguments."""
        self._encoding = encoding
        self._errors = errors
        self._encode = encode
        self._names: dict[str, tuple[int, bytes]] = {}

    def _name(self, name: Any) -> tuple[int, bytes]:
        """Return the number of words in a command's name, and their encoding.

        redis-py's command names can consist of several words, as in ``CONFIG GET``.
        """
        words = name.encode().split() if isinstance(name, str) else bytes(name).split()
        packed = len(words), b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        if type(name) is str and len(self._names) < _NAMES_KEPT:
            self._names[name] = packed
        return packed

    def pack(self, *args: Any) -> list[bytes]:
        """Return an encoded command as one or more byte strings."""
        name = args[0]
        known = self._names.get(name) if type(name) is str else None
        words, head = known or self._name(name)
        parts = [b"*%d\r\n%b" % (words + len(args) - 1, head)]
        pieces = []
        for arg in args[1:]:
            kind = type(arg)
            if kind is str:
                arg = arg.encode(self._encoding, self._errors)
            elif kind is not bytes:
                arg = bytes(arg) if kind is bytearray else self._encode(arg)
                if isinstance(arg, memoryview):
                    arg = arg.tobytes()
            if len(arg) < _LONG:
                parts.append(b"$%d\r\n%b\r\n" % (len(arg), arg))
            else:
                parts.append(b"$%d\r\n" % len(arg))
                pieces += [b"".join(parts), arg]
                parts = [b"\r\n"]
        pieces.append(b"".join(parts))
        return pieces

    def pack_many(self, commands: Iterable[tuple[Any, ...]]) -> list[bytes]:
        """Return several encoded commands as a minimal number of byte strings."""
        pieces: list[bytes] = []
        short: list[bytes] = []
        for command in commands:
            packed = self.pack(*command)
            short.append(packed[0])
            if len(packed) > 1:
                pieces += [b"".join(short), *packed[1:-1]]
                short = [packed[-1]]
        if short:
            pieces.append(b"".join(short))
        return pieces


def _size(digits: bytes) -> int:
    """Return the length that the header of a string or collection states."""
    size = int(digits)
    if size > _LONGEST:
        raise InvalidResponse(
            f"Protocol Error: expected a length of at most {_LONGEST}, got {size}"
        )
    return size


class _Open:
    """A collection whose items have not all arrived."""

    __slots__ = ("items", "kind", "missing")

    def __init__(self, kind: int, missing: int) -> None:
        self.kind = kind
        self.missing = missing
        self.items: list[Any] = []

    def finish(self, sets: bool) -> Any:
        """Return the finished collection."""
        items = self.items
        if self.kind == _MAP:
            return dict(zip(items[::2], items[1::2], strict=True))
        if self.kind == _PUSH:
            return Push(items)
        if self.kind == _SET and sets:
            try:
                return set(items)
            except TypeError:  # an item is not hashable
                return items
        return items


class Reader:
    """Decodes replies from received bytes.

    An error reply becomes the exception that ``error`` creates from its text. Maps become
    dictionaries. Sets become lists, or with ``sets`` they become sets if their items are hashable.
    Push messages become :class:`Push`.
    """

    def __init__(
        self,
        encoding: str | None,
        errors: str,
        error: Callable[[str], Exception],
        sets: bool = False,
    ) -> None:
        """Create a reader, which decodes text only if an encoding is given."""
        self._encoding = encoding
        self._errors = errors
        self._error = error
        self._sets = sets
        self._chunks: list[bytes] = []
        self._buffer = b""
        self._at = 0
        # The number of buffered bytes below which parsing cannot make progress.
        self._wanted = 0
        self._stack: list[_Open] = []

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._at == len(self._buffer) and not self._chunks:
            self._buffer = data
            self._at = 0
        else:
            self._chunks.append(data)
        self._wanted -= len(data)

    def has_data(self) -> bool:
        """Return whether the buffer contains bytes of a reply that has not been returned yet."""
        return bool(self._chunks or self._stack or self._at < len(self._buffer))

    @property
    def missing(self) -> int:
        """The number of bytes missing from a partly received string."""
        return max(self._wanted, 0)

    def is_push(self) -> bool:
        """Return whether the partly read reply is a push message."""
        return bool(self._stack) and self._stack[0].kind == _PUSH

    def gets(self, decode: bool = True) -> Any:
        """Return the next reply, or ``MISSING`` if it has not arrived completely."""
        if self._wanted > 0:
            return MISSING
        if self._chunks:
            self._buffer = b"".join((self._buffer[self._at :], *self._chunks))
            self._chunks.clear()
            self._at = 0
        encoding = self._encoding if decode else None
        errors = self._errors
        buffer = self._buffer
        length = len(buffer)
        at = self._at
        stack = self._stack
        value: Any
        while True:
            end = buffer.find(b"\r\n", at)
            if end < 0:
                self._at = at
                return MISSING
            kind = buffer[at]
            try:
                if kind == _BULK:
                    size = _size(buffer[at + 1 : end])
                    start = end + 2
                    at_next = start + size + 2
                    if size < 0:
                        value = None
                        at_next = start
                    elif at_next > length:
                        self._at = at
                        self._wanted = at_next - length
                        return MISSING
                    else:
                        value = buffer[start : start + size]
                        if encoding is not None:
                            value = value.decode(encoding, errors)
                    at = at_next
                elif kind in (_INTEGER, _BIG):
                    value = int(buffer[at + 1 : end])
                    at = end + 2
                elif kind == _STATUS:
                    value = buffer[at + 1 : end]
                    if encoding is not None:
                        value = value.decode(encoding, errors)
                    at = end + 2
                elif kind in (_ARRAY, _MAP, _SET, _PUSH, _ATTRIBUTE):
                    size = _size(buffer[at + 1 : end])
                    at = end + 2
                    if kind in (_MAP, _ATTRIBUTE):
                        size *= 2
                    if size > 0:
                        if len(stack) >= _DEPTH:
                            raise InvalidResponse("Protocol Error: nested too deep")
                        stack.append(_Open(kind, size))
                        continue
                    if kind == _ATTRIBUTE:
                        continue
                    value = None if size < 0 else _Open(kind, 0).finish(self._sets)
                elif kind == _ERROR:
                    value = self._error(buffer[at + 1 : end].decode("utf-8", "replace"))
                    at = end + 2
                elif kind == _NULL:
                    value = None
                    at = end + 2
                elif kind == _DOUBLE:
                    value = float(buffer[at + 1 : end])
                    at = end + 2
                elif kind == _BOOLEAN:
                    value = buffer[at + 1 : end] == b"t"
                    at = end + 2
                elif kind in (_BULK_ERROR, _VERBATIM):
                    start = end + 2
                    at_next = start + _size(buffer[at + 1 : end]) + 2
                    if at_next > length:
                        self._at = at
                        self._wanted = at_next - length
                        return MISSING
                    if kind == _BULK_ERROR:
                        text = buffer[start : at_next - 2].decode("utf-8", "replace")
                        value = self._error(text)
                    else:
                        value = buffer[start + 4 : at_next - 2]
                        if encoding is not None:
                            value = value.decode(encoding, errors)
                    at = at_next
                else:
                    raise ValueError
            except UnicodeDecodeError:
                # Stop before this string, so that another call without decoding continues from
                # here.
                self._at = at
                raise
            except ValueError:
                raise InvalidResponse(f"Protocol Error: {buffer[at:end]!r}") from None
            while stack:
                inner = stack[-1]
                inner.items.append(value)
                inner.missing -= 1
                if inner.missing:
                    break
                stack.pop()
                if inner.kind == _ATTRIBUTE:
                    # Skip attributes, which describe the next value and which clients do not use.
                    break
                value = inner.finish(self._sets)
            else:
                self._at = at
                return value
