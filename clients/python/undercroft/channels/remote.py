"""Channels on a server, using commands that every Redis server supports.

This module implements the interface of the native ``ChannelLink`` with commands on the same keys. A
producer appends an item and receives the new number of items. If that exceeds the bound, or the
channel is closed, the producer removes the item again, unless a consumer has already removed it.
Waiters sleep only briefly before they check again, so no progress depends on a wakeup.
"""

from __future__ import annotations

import itertools
import time
from contextlib import suppress
from queue import Empty, Full
from secrets import token_urlsafe
from typing import Any

import redis

from undercroft._native import ChannelClosed, ChannelLink
from undercroft.channels.channel import keys

# The number of seconds that a waiting consumer and a waiting producer sleep between checks.
_SLICE = 1.0
_ROOM_SLICE = 0.1
_RECALL = 1.0
# The number of milliseconds for which a waiting producer stays registered.
_WANTED = 2000
_TOKENS = 64


def client_of(store: Any, options: dict[str, Any]) -> Any:
    """Return a client for the server, which returns replies without conversion."""
    if isinstance(store, str):
        client = redis.Redis.from_url(store, **options)
    else:
        if options:
            raise TypeError("expected no options together with an existing client")
        pool = store.connection_pool
        settings = pool.connection_kwargs | {"decode_responses": False}
        made = redis.ConnectionPool(connection_class=pool.connection_class, **settings)
        client = redis.Redis(connection_pool=made)
    client.response_callbacks.clear()
    return client


class RemoteLink:
    """A client's connection to one channel, implemented with commands."""

    def __init__(
        self, client: Any, name: bytes, most: int, pickles: bool, visibility: float
    ) -> None:
        """Create a link, without contacting the server before the first operation."""
        self._client, self._most, self._pickles = client, most, pickles
        self._visibility = visibility
        self._items, self._closed, self._consumers, self._held = keys(name)
        # The keys of the tokens that wake producers and consumers, and of the flag that marks a
        # waiting producer.
        self._room, self._wake = self._items + b":room", self._items + b":wake"
        self._wanted = self._items + b":wanted"
        self._start, self._numbers = b"~" + token_urlsafe(9).encode(), itertools.count()
        self._offset: float | None = None
        self._recalled = 0.0

    def _run(self, *words: Any) -> Any:
        return self._client.execute_command(*words)

    def _together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run commands atomically."""
        with self._client.pipeline(transaction=True) as pipe:
            for words in commands:
                pipe.execute_command(*words)
            results: list[Any] = pipe.execute()
        return results

    def put(self, value: Any, block: bool = True, timeout: float | None = None) -> bool:
        """Put a value if it is short bytes or short text. Return whether it was put."""
        item = ChannelLink.pack(value)
        if item is None:
            return False
        self.put_item(item, block, timeout)
        return True

    def put_item(self, item: bytes, block: bool, timeout: float | None) -> None:
        """Put an encoded item."""
        until = _until(block, timeout)
        while not self._add(item):
            if not self._wait_for_room(until):
                raise Full

    def _add(self, item: bytes) -> bool:
        length, closed = self._together(("RPUSH", self._items, item), ("EXISTS", self._closed))
        if length <= self._most and not closed:
            return True
        # A consumer has already removed the item, so it counts as put.
        if not self._run("LREM", self._items, -1, item):
            return True
        if closed:
            raise ChannelClosed("the channel is closed")
        return False

    def put_items(self, items: list[bytes], block: bool, timeout: float | None) -> int:
        """Put several items in order; return the number that were put in time."""
        until = _until(block, timeout)
        for sent, item in enumerate(items):
            try:
                while not self._add(item):
                    if not self._wait_for_room(until):
                        return sent
            except ChannelClosed:
                if sent:
                    return sent
                raise
        return len(items)

    def _wait_for_room(self, until: float) -> bool:
        """Sleep until the channel may have room. Return False if the time is up."""
        left = until - time.monotonic()
        if left <= 0:
            return False
        self._run("SET", self._wanted, "1", "PX", _WANTED)
        # From here on, consumers that remove a message push a token.
        self._run("BLPOP", self._room, max(0.001, min(left, _ROOM_SLICE)))
        return True

    def _taken(self, wanted: Any) -> None:
        """Wake a producer if a producer waits."""
        if wanted:
            self._together(
                ("RPUSH", self._room, "1"),
                ("LTRIM", self._room, 0, _TOKENS - 1),
                ("PEXPIRE", self._room, _WANTED),
            )

    def get(self, taken: list[Any], block: bool = True, timeout: float | None = None) -> Any:
        """Remove a message; return its value if that is bytes or text, otherwise its item."""
        found = self.get_items(taken, 1, block, timeout)
        return found[0] if type(found) is list else found

    def get_items(self, taken: list[Any], count: int, block: bool, timeout: float | None) -> Any:
        """Remove up to ``count`` messages. Long values and pickles are returned alone.

        Items received from the server are recorded in ``taken`` for :meth:`give_back`.
        """
        until = _until(block, timeout)
        while True:
            self._recall_at_times()
            items, closed, wanted = self._together(
                ("LPOP", self._items, count),
                ("EXISTS", self._closed),
                ("EXISTS", self._wanted),
            )
            if items:
                taken.append(items)
                self._taken(wanted)
                return self._given(taken)
            if closed:
                raise ChannelClosed("the channel is closed")
            left = until - time.monotonic()
            if left <= 0:
                raise Empty
            found = self._run("BLPOP", self._items, self._wake, max(0.001, min(left, _SLICE)))
            if found is not None and found[0] == self._wake:
                if self._run("EXISTS", self._closed):
                    # Pass the wakeup on, because other consumers wait for it as well.
                    self.wake()
            elif found is not None:
                taken.append([found[1]])
                return self._given(taken)

    def _given(self, taken: list[Any]) -> Any:
        """Return the values up to the first long value or pickle, and put back the rest."""
        items = taken[0]
        for place, item in enumerate(items):
            if item[:1] == b"r" or self._refuses(item):
                keep = items[:place] or ([] if self._refuses(item) else [item])
                back = items[len(keep) :]
                if back:
                    self._run("LPUSH", self._items, *reversed(back))
                taken[0] = keep
                if place:
                    return [ChannelLink.unpack(item) for item in keep]
                # The item is neither in the channel nor held, so the caller fetches its value
                # immediately.
                return (b"", item) if keep else None
        return [ChannelLink.unpack(item) for item in items]

    def _refuses(self, item: bytes) -> bool:
        return not self._pickles and item[:4] == b"\xc1UOp"

    def hold(self, taken: list[Any], block: bool = True, timeout: float | None = None) -> Any:
        """Hold the first message; return the holder's name and the item."""
        until = _until(block, timeout)
        consumer = b"%b%x" % (self._start, next(self._numbers))
        held = self._held + consumer
        # Record the holder first, so that after any interruption the message can be found.
        taken.append(consumer)
        try:
            while True:
                self._recall_at_times()
                # Register the holder before it has a message to recall, with a deadline after this
                # sleep.
                known = ("ZADD", self._consumers, self._deadline(), consumer)
                _, item, closed, wanted = self._together(
                    known,
                    ("LMOVE", self._items, held, "LEFT", "RIGHT"),
                    ("EXISTS", self._closed),
                    ("EXISTS", self._wanted),
                )
                if item is None:
                    if closed:
                        raise ChannelClosed("the channel is closed")
                    left = until - time.monotonic()
                    if left <= 0:
                        raise Empty
                    slice = max(0.001, min(left, _SLICE))
                    item = self._run("BLMOVE", self._items, held, "LEFT", "RIGHT", slice)
                if item is not None:
                    self._taken(wanted)
                    if self._refuses(item):
                        self.end_hold(consumer, item, True, taken)
                        return None
                    return consumer, item
        except (Empty, ChannelClosed):
            taken.clear()
            self._run("ZREM", self._consumers, consumer)
            raise

    def give_back(self, taken: list[Any]) -> None:
        """Return to the channel the items that an interrupted call recorded.

        If the server is unreachable, a held message is recalled once its deadline has passed.
        """
        with suppress(redis.RedisError):
            for entry in reversed(taken):
                if type(entry) is list:
                    if entry:
                        self._run("LPUSH", self._items, *reversed(entry))
                else:
                    self.end_hold(entry, b"", True)

    def end_hold(
        self,
        consumer: bytes,
        item: bytes,
        goes_back: bool,
        taken: list[Any] | None = None,
    ) -> bool:
        """End a hold. Return whether the message was still held."""
        if taken is not None:
            taken.clear()
        if not consumer:
            # The message was removed without being held.
            if goes_back:
                self._run("LPUSH", self._items, item)
            return True
        held = self._held + consumer
        if goes_back:
            end: tuple[Any, ...] = ("LMOVE", held, self._items, "RIGHT", "LEFT")
        else:
            end = ("LREM", held, 1, item)
        ended, _ = self._together(end, ("ZREM", self._consumers, consumer))
        return bool(ended)

    def _now(self) -> float:
        """Return the server's time in milliseconds."""
        if self._offset is None:
            seconds, micros = map(int, self._run("TIME"))
            self._offset = seconds + micros / 1e6 - time.time()
        return (time.time() + self._offset) * 1000

    def _deadline(self) -> str:
        return str(int(self._now() + (self._visibility + _SLICE) * 1000))

    def _recall_at_times(self) -> None:
        now = time.monotonic()
        if now - self._recalled >= _RECALL:
            self._recalled = now
            self.recall()

    def recall(self) -> int:
        """Put the messages of holders past their deadline back into the channel; return how many.

        Consumers in the store's own processes are exempt, because only those processes can tell
        whether a holder is alive.
        """
        if not self._run("EXISTS", self._consumers):
            return 0
        now = int(self._now())
        late = self._run("ZRANGEBYSCORE", self._consumers, "-inf", f"({now}")
        return sum(self._put_back(consumer, now) for consumer in late)

    def _put_back(self, consumer: bytes, now: int) -> int:
        held = self._held + consumer
        with self._client.pipeline(transaction=True) as pipe:
            try:
                pipe.watch(held)
                until = pipe.zscore(self._consumers, consumer)
                count = pipe.llen(held)
                if until is None or float(until) >= now:
                    return 0
                pipe.multi()
                for _ in range(count):
                    pipe.lmove(held, self._items, "RIGHT", "LEFT")
                pipe.zrem(self._consumers, consumer)
                pipe.execute()
            except redis.WatchError:
                # Another client recalled the messages first, or the hold has just ended.
                return 0
        return int(count)

    def close(self) -> None:
        """Close the channel for all processes."""
        self._run("SET", self._closed, "1")
        self.wake()

    def wake(self) -> None:
        """Wake waiting consumers, so that they notice that the channel is closed."""
        self._together(
            ("DEL", self._wake), ("RPUSH", self._wake, "1"), ("PEXPIRE", self._wake, 10_000)
        )


def _until(block: bool, timeout: float | None) -> float:
    if not block:
        return 0.0
    if timeout is None:
        return float("inf")
    if timeout < 0:
        raise ValueError(f"expected a timeout of at least 0 seconds, got {timeout}")
    return time.monotonic() + timeout
