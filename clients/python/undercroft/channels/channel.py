"""Channels: bounded queues of values between processes, which pass long values without a copy.

A message is an item of a list. Its first byte identifies its type: raw bytes (``b``), raw text
(``s``), an object in the format of :class:`undercroft.Objects`, or the id of such an object
(``r``). In a store in this process, long values are sent by id.
"""

from __future__ import annotations

import functools
import math
import os
import time
from queue import Full
from typing import TYPE_CHECKING, Any

from undercroft._native import ChannelClosed, ChannelLink, Client, MovedError, new_id
from undercroft.embedded.store import Store
from undercroft.frameworks.green import GreenLink, is_patched
from undercroft.objects.embedded import Objects, milliseconds
from undercroft.objects.encoding import decode, encode, joined, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

__all__ = ["Channel", "ChannelClosed", "Delivery"]

# Values longer than this number of bytes are stored as objects, and their messages contain the id.
INLINE_MAX = 32 << 10
_NAME = b"r"
# The seconds after which an object expires if its message is not put, as when the producer dies.
_UNSENT = 60.0
_MOST = 2**63
_REMOTE = "redis://", "rediss://", "unix://"


def keys(name: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Return a channel's keys: messages, closed flag, consumers, and prefix for held messages."""
    items = b"undercroft:channel:{%b}" % name
    return items, items + b":closed", items + b":consumers", items + b":held:"


def packed(value: Any, *, pickles: bool) -> bytes | None:
    """Return the message for a value, or None if the value is too long for a message."""
    item = ChannelLink.pack(value)
    if item is not None:
        return item
    head, buffers = encode(value, pickles=pickles)
    if len(head) + sum(64 + memoryview(buffer).nbytes for buffer in buffers) >= INLINE_MAX:
        return None
    return joined(head, buffers)


def expect_own(process: int) -> None:
    """Raise an error if a forked child uses its parent's delivery."""
    if process != os.getpid():
        raise RuntimeError(
            f"this delivery belongs to process {process}, which took the message: acknowledge or "
            "release it there, or get another message in this process"
        )


def expect_store(name: str, store: Any) -> None:
    """Raise an error if a channel's name is a store's URL."""
    if store is None and "://" in name:
        raise ValueError(
            f"expected the name of a channel, got a URL: write Channel('name', {name!r})"
        )


class Delivery:
    """A message that a consumer holds until it acknowledges or releases the message.

    Leaving a ``with`` block acknowledges the message, or returns it to the channel if the block
    raised an exception.
    """

    __slots__ = ("_channel", "_consumer", "_done", "_item", "_process", "value")

    def __init__(self, channel: Any, consumer: bytes, item: bytes, value: Any) -> None:
        """Wrap a message that :meth:`Channel.get` holds with ``ack=True``."""
        self._channel, self._consumer, self._item = channel, consumer, item
        self._done, self._process = False, os.getpid()
        self.value = value

    def ack(self) -> bool:
        """Acknowledge the message. Return False if it was no longer held."""
        return self._end(goes_back=False)

    def release(self) -> bool:
        """Return the message to the front of the channel. Return whether it was still held."""
        return self._end(goes_back=True)

    def _end(self, *, goes_back: bool) -> bool:
        if self._done:
            return False
        expect_own(self._process)
        ended: bool = self._channel._end_hold(self._consumer, self._item, goes_back)
        self._done = True
        return ended

    def __enter__(self) -> Self:
        """Return the delivery."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Acknowledge the message, or return it to the channel after an exception."""
        # In a forked child, only propagate the exception: the message belongs to the parent.
        if exc_type is None or self._process == os.getpid():
            self._end(goes_back=exc_type is not None)


class Messages:
    """The common base class of channels, which converts values to messages and back."""

    name: str
    maxsize: int

    def _begin(
        self, name: str, maxsize: int, ttl: float | timedelta | None, pickle: bool
    ) -> tuple[bytes, int]:
        if not isinstance(name, str):
            raise TypeError(f"expected the name of a channel, got {name!r}")
        if not name:
            raise ValueError("expected the name of a channel, got an empty one")
        self.name, self.maxsize = name, maxsize
        self._expires, self._pickles = milliseconds(ttl), pickle
        encoded = name.encode()
        self._items, self._closed, self._consumers, self._held = keys(encoded)
        return encoded, maxsize if maxsize > 0 else _MOST

    def _pack(self, value: Any) -> bytes | None:
        return packed(value, pickles=self._pickles)

    def _unpack(self, item: Any) -> Any:
        """Return the value of a message that does not contain an object's id."""
        if type(item) is not bytes:
            return item
        value = ChannelLink.unpack(item)
        return value if type(value) is not bytes else decode(value, False, pickles=self._pickles)

    def __repr__(self) -> str:
        """Return a string with the channel's name and size."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return f"<{kind}({self.name!r}, maxsize={self.maxsize})>"


class Channel(Messages):
    """A bounded queue of values between processes.

    All processes that use the same channel name and store share one queue, which preserves order.
    ``store`` is a store's URL or path, a client for a store, or an :class:`undercroft.Objects`. A
    ``redis://`` URL or a redis-py client reaches the channel through a server.

    ``maxsize`` is the number of messages at which a put waits; 0 means no bound. Channels accept
    the values that ``Objects`` accepts, and return long values as views of the store. ``ttl`` is
    the number of seconds after which the memory of a long value is freed if no consumer receives
    it. Without ``ttl`` the value exists as long as its message. On a server, ``visibility`` is the
    number of seconds that a consumer can hold a message before it is delivered to another consumer.

    One object can be used by several threads, and after a fork.
    """

    def __init__(
        self,
        name: str,
        store: Any = None,
        *,
        maxsize: int = 1000,
        ttl: float | timedelta | None = None,
        pickle: bool = False,
        visibility: float = 60.0,
        **options: Any,
    ) -> None:
        """Open the store, creating it if needed; the first message creates the channel."""
        encoded, most = self._begin(name, maxsize, ttl, pickle)
        expect_store(name, store)
        self._made_of = store, {"maxsize": maxsize, "ttl": ttl, "pickle": pickle} | options
        self._made_of[1]["visibility"] = visibility
        self._link: Any
        self._objects: Objects | None = None
        if isinstance(store, Objects):
            store = store._client
        is_url = isinstance(store, str) and store.startswith(_REMOTE)
        if is_url or (hasattr(store, "connection_pool") and not isinstance(store, Client)):
            from undercroft.channels.remote import RemoteLink, client_of

            self._client: Any = client_of(store, options)
            self._run: Any = self._client.execute_command
            self._link = RemoteLink(self._client, encoded, most, pickle, visibility)
            return
        if isinstance(store, Client):
            if options:
                raise TypeError("expected no options together with an existing client")
            self._client = store
        else:
            self._client = Store(**options) if store is None else Store(store, **options)
        self._run = functools.partial(_run_embedded, self._client)
        self._link = ChannelLink(self._client, encoded, most, pickle)
        if is_patched():
            self._link = GreenLink(self._client, self._link)
        self._prefix = self._items + b":object:"
        self._objects = Objects(self._client, pickle=pickle, prefix=self._prefix.decode())

    def put(self, value: Any, block: bool = True, timeout: float | None = None) -> None:
        """Append a value to the channel, waiting until the channel has room.

        Raises ``queue.Full`` if the channel is still full at the timeout, :class:`ChannelClosed` if
        the channel is closed, ``MemoryError`` if the store is full, and ``TypeError`` for a value
        that cannot be stored.
        """
        if not self._link.put(value, block, timeout):
            self._put_other(value, block, timeout)

    def _put_other(self, value: Any, block: bool, timeout: float | None) -> None:
        item = self._pack(value)
        if item is not None:
            self._link.put_item(item, block, timeout)
        elif self._objects is None:
            self._link.put_item(self._whole(value), block, timeout)
        else:
            self._put_long(value, block, timeout)

    def _whole(self, value: Any) -> bytes:
        return joined(*encode(value, pickles=self._pickles))

    def _put_long(self, value: Any, block: bool, timeout: float | None) -> None:
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._put_named(value, block, until)
            except MovedError:
                pass
            except MemoryError:
                self._expect_open()
                raise

    def _expect_open(self) -> None:
        if self.closed:
            raise ChannelClosed("the channel is closed")

    def _put_named(self, value: Any, block: bool, until: float) -> None:
        assert self._objects is not None
        id, within = new_id(), self._link.removals()
        try:
            self._objects._put(value, id, _UNSENT)
            while True:
                left = until - time.monotonic()
                try:
                    slice = max(0.0, min(left, _UNSENT / 2))
                    self._link.put_item(_NAME + id, block, slice, within)
                except Full:
                    if not block or left <= slice:
                        raise
                    self._client.pexpire(self._prefix + id, round(_UNSENT * 1000))
                else:
                    break
        except BaseException:
            # Delete the value. If its message was put despite the exception, consumers skip it.
            self._objects.delete(id)
            raise
        self._keep(id)

    def _keep(self, id: bytes) -> None:
        """Set the final expiry of an object after its message was put."""
        if self._expires:
            self._client.pexpire(self._prefix + id, self._expires)
        else:
            self._client.persist(self._prefix + id)

    def put_many(
        self, values: Iterable[Any], block: bool = True, timeout: float | None = None
    ) -> int:
        """Append several values in order, and return the number that were put in time.

        One step puts as many values as fit into the channel. If no value was put, errors are raised
        as by :meth:`put`.
        """
        values = list(values)
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return self._put_all(values, block, timeout)
            except MovedError:
                timeout = None if until is None else max(0.0, until - time.monotonic())
            except MemoryError:
                self._expect_open()
                raise

    def _put_all(self, values: list[Any], block: bool, timeout: float | None) -> int:
        items: list[bytes] = []
        ids: list[bytes] = []
        sent = 0
        within = [] if self._objects is None else [self._link.removals()]
        try:
            for value in values:
                item = self._pack(value)
                if item is None and self._objects is None:
                    item = self._whole(value)
                elif item is None:
                    assert self._objects is not None
                    ids.append(new_id())
                    self._objects._put(value, ids[-1], _UNSENT)
                    item = _NAME + ids[-1]
                items.append(item)
            if items:
                sent = self._link.put_items(items, block, timeout, *(within if ids else ()))
        finally:
            put = {item[1:] for item in items[:sent] if item[:1] == _NAME}
            for id in ids:
                if id in put:
                    self._keep(id)
                elif self._objects is not None:
                    self._objects.delete(id)
        if items and not sent:
            raise Full
        return sent

    def get(self, block: bool = True, timeout: float | None = None, *, ack: bool = False) -> Any:
        """Remove and return the first value, waiting until there is one.

        With ``ack`` it returns a :class:`Delivery` instead, which holds the message until it is
        acknowledged. If this process dies before the acknowledgment, the message is delivered
        again.

        Raises ``queue.Empty`` if no message arrives before the timeout, and :class:`ChannelClosed`
        if the channel is closed and empty. Raises :class:`PickleRefused` for a pickle if pickles
        are not enabled; the message stays in the channel.
        """
        taken: list[Any] = []
        try:
            if not ack:
                found = self._link.get(taken, block, timeout)
                if type(found) is not tuple and type(found) is not bytes and found is not None:
                    return found
            else:
                found = self._link.hold(taken, block, timeout)
            return self._get_other(taken, found, block, timeout, ack)
        except BaseException:
            self._link.give_back(taken)
            raise

    def _get_other(
        self, taken: list[Any], found: Any, block: bool, timeout: float | None, ack: bool
    ) -> Any:
        """Return a message's value or delivery, skipping messages whose values have expired."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            if type(found) is tuple:
                held = self._of_held(taken, found[0], found[1], ack)
                if held is not None:
                    return held if ack else held.value
                # The message's separately stored value has expired.
                timeout = None if until is None else max(0.0, until - time.monotonic())
            elif found is None:
                raise refusal()
            elif type(found) is bytes:
                return decode(found, False, pickles=self._pickles)
            else:
                return found
            found = (self._link.hold if ack else self._link.get)(taken, block, timeout)

    def _of_held(
        self, taken: list[Any], consumer: bytes, item: bytes, ack: bool
    ) -> Delivery | None:
        """Return a held message with its value, or None if the value has expired."""
        try:
            named = item[:1] == _NAME
            value = self._long(taken, item[1:], not ack) if named else self._unpack(item)
        except KeyError:
            self._link.end_hold(consumer, item, False)
            taken.clear()
            return None
        delivery = Delivery(self, consumer, item, value)
        if not ack:
            self._link.end_hold(consumer, item, False, taken)
        return delivery

    def _long(self, taken: list[Any], id: bytes, take: bool) -> Any:
        if self._objects is not None:
            return self._objects._take(taken, id) if take else self._objects.get(id)
        key = self._items + b":object:" + id
        whole = self._run("GET", key)
        if whole is None:
            raise KeyError(id)
        value = decode(whole, False, pickles=self._pickles)
        if take:
            self._run("DEL", key)
        return value

    def _end_hold(self, consumer: bytes, item: bytes, goes_back: bool) -> bool:
        key = self._items + b":object:" + item[1:] if item[:1] == _NAME and not goes_back else None
        if key is not None and self._objects is not None:
            # Delete the value while this process still holds the message. If this process dies
            # before the next line, readers skip the message.
            self._run("DEL", key)
        ended: bool = self._link.end_hold(consumer, item, goes_back)
        if ended and key is not None and self._objects is None:
            self._run("DEL", key)
        return ended

    def get_many(self, count: int, block: bool = True, timeout: float | None = None) -> list[Any]:
        """Remove and return up to ``count`` values, at least one. A long value is returned alone.

        The values are not held: if the process dies before it has processed them, they are lost.
        Raises the errors of :meth:`get`.
        """
        if count < 1:
            raise ValueError(f"expected a count of at least 1, got {count}")
        taken: list[Any] = []
        try:
            until = None if timeout is None else time.monotonic() + timeout
            while True:
                found = self._link.get_items(taken, count, block, timeout)
                if type(found) is list:
                    return [self._unpack(item) for item in found]
                if found is None:
                    raise refusal()
                held = self._of_held(taken, found[0], found[1], False)
                if held is not None:
                    return [held.value]
                # The message's separately stored value has expired.
                timeout = None if until is None else max(0.0, until - time.monotonic())
        except BaseException:
            self._link.give_back(taken)
            raise

    def qsize(self) -> int:
        """Return the number of messages in the channel, excluding held messages. O(1)."""
        return int(self._run("LLEN", self._items))

    @property
    def closed(self) -> bool:
        """Whether the channel is closed and accepts no messages."""
        return bool(self._run("EXISTS", self._closed))

    def close(self) -> None:
        """Close the channel for all processes.

        Producers, including those that wait, get :class:`ChannelClosed` immediately. Consumers
        first receive the remaining messages.
        """
        self._link.close()

    def delete(self) -> None:
        """Delete all messages of the channel, including held messages, and reopen the channel."""
        lists = [self._items]
        lists += [self._held + name for name in self._run("ZRANGE", self._consumers, 0, -1)]
        for key in lists:
            while items := self._run("LPOP", key, 1000):
                named = [item[1:] for item in items if item[:1] == _NAME]
                for id in named:
                    self._run("DEL", self._items + b":object:" + id)
        self._run("DEL", self._closed, self._consumers, self._items + b":wake")

    def __iter__(self) -> Iterator[Any]:
        """Iterate over values until the channel is closed and empty."""
        while True:
            try:
                value = self.get()
            except ChannelClosed:
                return
            yield value

    def deliveries(self) -> Iterator[Delivery]:
        """Iterate over held messages until the channel is closed and empty.

        Each message is acknowledged when the loop requests the next one. It is returned to the
        channel if the loop's body raises an exception or exits the loop.
        """
        while True:
            try:
                delivery = self.get(ack=True)
            except ChannelClosed:
                return
            try:
                yield delivery
            except BaseException:
                # The loop exited early, or the generator was closed.
                delivery.release()
                raise
            delivery.ack()

    def __reduce__(self) -> Any:
        """Return the pickle reduction, which opens the same channel in another process."""
        store, options = self._made_of
        if self._objects is not None:
            known = {name: options[name] for name in ("maxsize", "ttl", "pickle", "visibility")}
            store = f"undercroft://{self._client.path}?db={self._client.db}"
            return _remade, (self.name, store, known)
        if not isinstance(store, str):
            raise TypeError(
                "expected a channel that was created with a URL, the only kind that can be sent "
                "to a process"
            )
        return _remade, (self.name, store, options)


def _remade(name: str, store: str, options: dict[str, Any]) -> Channel:
    return Channel(name, store, **options)


def _run_embedded(client: Any, *words: Any) -> Any:
    return client._execute(words, {"NEVER_DECODE": True})[0]
