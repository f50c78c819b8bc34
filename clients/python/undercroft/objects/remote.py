"""Objects on a server: copies of values, sent and fetched in pipelines.

Each operation is implemented once for threads and asyncio. It is a generator that yields commands
to be sent together and receives their replies, including errors.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from undercroft._native import new_id
from undercroft.base import Redis, scheme_of
from undercroft.objects.embedded import ObjectDraft, Objects, milliseconds
from undercroft.objects.encoding import MAGIC, joined, padded
from undercroft.objects.waits import LOOK_REMOTE, Waiting
from undercroft.remote.connection import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from datetime import timedelta

    # Yields commands to send together, receives the replies, and returns the operation's result.
    Steps = Generator[list[tuple[Any, ...]], list[Any], Any]

# The maximum length of a string on a server, in bytes.
_LENGTH_MAX = 512 << 20
# The maximum number of commands sent before their replies are read.
_TOGETHER = 1000
# The maximum number of value bytes sent before replies are read.
_TOGETHER_BYTES = 8 << 20


def check_length(length: int) -> None:
    """Raise an error if a value is longer than servers accept."""
    if length > _LENGTH_MAX:
        raise ValueError(f"expected an object of at most {_LENGTH_MAX} bytes, got {length}")


def put_steps(pairs: Iterable[tuple[bytes, Any]], expires: int, announced: bool) -> Steps:
    """Store values under keys and optionally announce them. If any is rejected, none remain."""
    known: list[bytes] = []
    commands: list[tuple[Any, ...]] = []
    failed: Exception | None = None
    room = _TOGETHER_BYTES

    def refusal(replies: list[Any], sent: list[tuple[Any, ...]]) -> Exception | None:
        for reply, command in zip(replies, sent, strict=True):
            if isinstance(reply, Exception) and command[0] == "SET":
                return as_memory_error(reply, memoryview(command[2]).nbytes)
        return None

    try:
        for key, value in pairs:
            known.append(key)
            commands.append(("SET", key, value, *(("PX", expires) if expires else ())))
            if announced:
                commands.append(("PUBLISH", key, b""))
            room -= len(value)
            if room < 0 or len(commands) >= _TOGETHER:
                sent, commands, room = commands, [], _TOGETHER_BYTES
                failed = refusal((yield sent), sent)
                if failed is not None:
                    break
        if commands and failed is None:
            failed = refusal((yield commands), commands)
    except Exception as error:
        # Remember the error for a value that cannot be stored.
        failed = error
    if failed is not None:
        if len(known) > 1:
            yield from delete_steps(known)
        raise failed


def as_memory_error(error: Exception, length: int) -> Exception:
    """Return the exception for a rejected value: MemoryError if the server is full."""
    if _is_full(error):
        return MemoryError(f"the server has no room for an object of {length} bytes: {error}")
    return error


def _is_full(reply: Any) -> bool:
    # Older versions of redis-py have no exception class for this error.
    return isinstance(reply, Exception) and (
        type(reply).__name__ == "OutOfMemoryError" or str(reply).startswith("OOM ")
    )


def get_steps(keys: Sequence[bytes]) -> Steps:
    """Return the values of keys, with None for missing keys."""
    found: list[Any] = []
    for some in _chunks(keys):
        found += raised((yield [("GET", key) for key in some]))
    return found


def take_steps(
    ids: Sequence[bytes], keys: Sequence[bytes], kinds: bytes, refusal: Callable[..., Exception]
) -> Steps:
    """Return the values of keys and delete them, in atomic batches of a thousand.

    If a key is missing or its object has another kind, the operation raises ``refusal``, called
    with the id and the first bytes. The keys are watched, so only values that were checked are
    deleted.
    """
    if len(set(keys)) < len(keys):
        raise KeyError(next(id for place, id in enumerate(ids) if id in ids[:place]))
    found: list[Any] = []
    for some in _chunks(keys):
        values = None
        while values is None:
            watched, *starts = yield [("WATCH", *some), *(("GETRANGE", key, 0, 7) for key in some)]
            accepted = [_is_of(kinds, start) for start in starts]
            if isinstance(watched, Exception) or not all(accepted):
                raised([watched, *starts, *(yield [("UNWATCH",)])])
                place = accepted.index(False)
                raise refusal(ids[len(found) + place], starts[place])
            deletions = [("GETDEL", key) for key in some]
            *queued, values = yield [("MULTI",), *deletions, ("EXEC",)]
            if any(map(_is_full, queued)):
                # Delete without a transaction: a full server rejects transactions, and also any
                # write that could replace the checked values.
                values = yield deletions
                if None in values:
                    raise KeyError(ids[len(found) + values.index(None)])
            raised([*queued, values] if isinstance(values, Exception) else [])
        found += raised(values)
    return found


def _is_of(kinds: bytes, start: Any) -> bool:
    return isinstance(start, bytes) and start[:3] == MAGIC and start[3] in kinds


def delete_steps(keys: Sequence[bytes]) -> Steps:
    """Delete keys, and return how many existed."""
    deleted = 0
    for some in _chunks(keys):
        (count,) = raised((yield [("UNLINK", *some)]))
        deleted += count
    return deleted


def exists_steps(keys: Sequence[bytes]) -> Steps:
    """Return the keys that exist."""
    found: list[bytes] = []
    for some in _chunks(keys):
        replies = raised((yield [("EXISTS", key) for key in some]))
        found += (key for key, there in zip(some, replies, strict=True) if there)
    return found


def _chunks(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _TOGETHER):
        yield keys[start : start + _TOGETHER]


def raised(replies: list[Any]) -> list[Any]:
    """Return replies, or raise the first one that is an error."""
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


class Copies:
    """The operations of objects on a server, shared by threads and asyncio."""

    # These attributes belong to the classes that use this mixin.
    _prefix: bytes
    _expires: int
    _kinds: bytes
    _encode: Any
    _decode: Any
    _key: Callable[[bytes], bytes]

    def _whole(self, value: Any) -> bytes:
        """Return a value as one byte string in the store's format."""
        found = joined(*self._encode(value))
        check_length(len(found))
        return found

    def put_one(self, value: Any, ttl: float | timedelta | None, id: bytes | None) -> Steps:
        """Store a value."""
        found = new_id() if id is None else id
        pairs = [(self._key(found), self._whole(value))]
        yield from put_steps(pairs, self._lasting(ttl), id is not None)
        return found

    def put_all(self, values: Iterable[Any], ttl: float | timedelta | None) -> Steps:
        """Store several values."""
        ids: list[bytes] = []

        def pairs() -> Iterator[tuple[bytes, bytes]]:
            for value in values:
                ids.append(new_id())
                yield self._key(ids[-1]), self._whole(value)

        yield from put_steps(pairs(), self._lasting(ttl), False)
        return ids

    def get_all(self, ids: Iterable[bytes], writable: bool) -> Steps:
        """Return several values."""
        ids = list(ids)
        found = yield from get_steps([self._key(id) for id in ids])
        if None in found:
            raise KeyError(ids[found.index(None)])
        return [self._decode(whole, writable) for whole in found]

    def take_all(self, ids: Iterable[bytes], writable: bool) -> Steps:
        """Return several values and delete them."""
        ids = list(ids)
        keys = [self._key(id) for id in ids]
        found = yield from take_steps(ids, keys, self._kinds, self._refusal)
        values: list[Any] = []
        try:
            for whole in found:
                values.append(self._decode(whole, writable))
        except Exception as error:
            # Attach the objects to the error, because they no longer exist on the server.
            error.taken, error.unread = values, found[len(values) :]  # type: ignore[attr-defined]
            raise
        return values

    def _refusal(self, id: bytes, start: bytes) -> Exception:
        if not start:
            return KeyError(id)
        try:
            self._decode(start, False)
        except ValueError as error:
            return error
        return ValueError(f"expected an object of a known kind, got {start!r}")

    def _lasting(self, ttl: float | timedelta | None) -> int:
        return self._expires if ttl is None else milliseconds(ttl)


class RemoteDraft(ObjectDraft):
    """An object that is filled in local memory and sent when it is sealed."""

    _is_sealed = False

    def _lent(self) -> Any:
        if self._is_sealed:
            raise BufferError("the object is sealed: get it to read it")
        head, whole, _ = self._draft
        # The last byte is not sent.
        return memoryview(whole)[padded(len(head)) : -1]

    def _begin(self) -> memoryview:
        """Return the bytes to send, which can no longer be changed."""
        _, whole, process = self._draft
        if self._is_sealed:
            raise ValueError("the object is already sealed")
        if process != os.getpid():
            raise ValueError(
                "only the process that created the draft can use it; create a new one after a fork"
            )
        try:
            # pop() fails while a view of the bytearray exists, because a bytearray with views
            # cannot shrink.
            whole.pop()
        except BufferError as error:
            raise BufferError(
                "arrays or views could still change the object: delete them before sealing it"
            ) from error
        self._is_sealed = True
        return memoryview(whole)

    def _end(self, sent: memoryview, is_stored: bool) -> None:
        """Free the sent bytes, or make them writable again if they were not stored."""
        sent.release()
        if not is_stored:
            self._is_sealed = False
            self._draft[1].append(0)
        else:
            self._draft = (b"", bytearray(), 0)

    def _steps(self, sent: memoryview) -> Steps:
        return put_steps([(self._objects._key(self._id), sent)], self._expires, True)

    def seal(self) -> bytes:
        """Send the object and return its id. O(bytes).

        Raises ``BufferError`` while an array or view could still change the object.
        """
        objects: Any = self._objects
        sent, is_stored = self._begin(), False
        try:
            objects._run(self._steps(sent))
            is_stored = True
        finally:
            self._end(sent, is_stored)
        return self._id


def blank(head: bytes, length: int) -> tuple[bytes, bytearray, int]:
    """Return the memory for a draft."""
    start = padded(len(head))
    check_length(start + length)
    whole = bytearray(start + length + 1)
    whole[: len(head)] = head
    return head, whole, os.getpid()


class RemoteObjects(Copies, Objects):
    """Objects on a server; :class:`Objects` describes the methods.

    Values are copied to and from the server. A failure between sending a command and reading its
    reply raises redis-py's exceptions, and the command may have run.
    """

    _is_embedded = False
    # The client class.
    _redis: Any = Redis

    def _opened(self, store: Any, options: dict[str, Any]) -> Any:
        client = store
        if isinstance(store, str):
            scheme_of(store)
            client = self._redis.from_url(store, **options)
        elif options:
            raise TypeError("expected no options together with an existing client")
        check_client(client)
        return client

    def _run(self, steps: Steps) -> Any:
        """Run an operation on a separate connection, and return its result."""
        pool = self._client.connection_pool
        connection = pool.get_connection(*NAME)
        try:
            replies: Any = None
            while True:
                try:
                    commands = steps.send(replies)
                except StopIteration as done:
                    return done.value
                replies = self._exchange(connection, commands)
        finally:
            steps.close()
            pool.release(connection)

    def _exchange(self, connection: Any, commands: list[tuple[Any, ...]]) -> list[Any]:
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            return [self._next(connection) for _ in commands]
        except BaseException:
            # Close the connection, so that the next operation does not read this operation's
            # replies.
            connection.disconnect()
            raise

    def _next(self, connection: Any) -> Any:
        try:
            return connection.read_response(disable_decoding=True)
        except ResponseError as error:
            return error

    def put(
        self, value: Any, *, ttl: float | timedelta | None = None, id: bytes | None = None
    ) -> bytes:
        """Send a value and return its id."""
        found: bytes = self._run(self.put_one(value, ttl, id))
        return found

    def put_many(
        self, values: Iterable[Any], *, ttl: float | timedelta | None = None
    ) -> list[bytes]:
        """Send several values in pipelines. If any value cannot be stored, none remain."""
        ids: list[bytes] = self._run(self.put_all(values, ttl))
        return ids

    def get(self, id: bytes, *, writable: bool = False) -> Any:
        """Return a copy of the value with the given id."""
        return self._run(self.get_all([id], writable))[0]

    def get_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return copies of the values with the given ids, fetched in pipelines."""
        found: list[Any] = self._run(self.get_all(ids, writable))
        return found

    def take(self, id: bytes, *, writable: bool = False) -> Any:
        """Return the value with the given id and delete it."""
        return self._run(self.take_all([id], writable))[0]

    def take_many(self, ids: Iterable[bytes], *, writable: bool = False) -> list[Any]:
        """Return the values with the given ids and delete them, in atomic batches of a thousand."""
        found: list[Any] = self._run(self.take_all(ids, writable))
        return found

    def _draft(
        self, head: bytes, length: int, ttl: float | None, shape: tuple[Any, tuple[int, ...]] | None
    ) -> ObjectDraft:
        return RemoteDraft(self, new_id(), blank(head, length), self._lasting(ttl), shape)

    def wait(
        self, ids: Iterable[bytes], timeout: float | None = None, count: int | None = None
    ) -> tuple[list[bytes], list[bytes]]:
        """Wait until objects exist."""

        def look() -> None:
            begun = time.monotonic()
            waiting.found(self._run(exists_steps(list(waiting.missing))))
            waiting.looked(begun)

        waiting = Waiting(self, ids, timeout, count, LOOK_REMOTE)
        look()
        if waiting.is_over or waiting.is_single_look:
            return waiting.result()
        with self._client.pubsub() as messages:
            command, *names = waiting.subscribing()
            subscribe = messages.psubscribe if command == "PSUBSCRIBE" else messages.subscribe
            subscribe(*names)
            # Wait until the subscriptions are confirmed, so that the messages about later objects
            # arrive.
            for _ in names:
                messages.parse_response()
            look()
            while not waiting.is_over and not waiting.is_late:
                key = waiting.meant(messages.parse_response(False, waiting.pause))
                if key is not None:
                    waiting.found(self._run(exists_steps([key])))
                if waiting.is_due:
                    look()
        return waiting.result()

    def delete(self, *ids: bytes) -> int:
        """Delete objects and return how many existed."""
        found: int = self._run(delete_steps([self._key(id) for id in ids]))
        return found

    def contains(self, id: bytes) -> bool:
        """Return whether an object with the given id exists."""
        return bool(self._run(exists_steps([self._key(id)])))

    __contains__ = contains


def check_client(client: Any) -> None:
    """Raise an error if a client does not connect directly to one server."""
    if not hasattr(client, "connection_pool"):
        raise TypeError(
            "expected a client of a server, or its URL (redis://, rediss://, unix://, "
            f"redis+sentinel://), got {type(client).__qualname__}; objects do not work on a "
            "cluster"
        )
