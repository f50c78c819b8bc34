"""Channels by way of a server, whose commands are any Redis server's.

What :class:`undercroft.channel.Channel` asks of the native ``ChannelLink`` is made of commands
here, on the same keys. A producer adds and looks how many there are then: one too many, or one
behind a close, it takes back, unless somebody was faster. Who waits sleeps for a moment at most
before it looks again, so that nothing depends on a wake.
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
from undercroft.channel import keys

# Seconds that a consumer sleeps, and a producer, before they look again.
_SLICE = 1.0
_ROOM_SLICE = 0.1
_RECALL = 1.0
# For how many milliseconds producers that wait are known to.
_WANTED = 2000
_TOKENS = 64


def client_of(store: Any, options: dict[str, Any]) -> Any:
    """Return a client of the server that is meant, which gives replies as they are."""
    if isinstance(store, str):
        client = redis.Redis.from_url(store, **options)
    else:
        if options:
            raise TypeError("expected no options beside a client that is there already")
        pool = store.connection_pool
        settings = pool.connection_kwargs | {"decode_responses": False}
        made = redis.ConnectionPool(connection_class=pool.connection_class, **settings)
        client = redis.Redis(connection_pool=made)
    client.response_callbacks.clear()
    return client


class RemoteLink:
    """One client's use of a channel, by commands."""

    def __init__(
        self, client: Any, name: bytes, most: int, pickles: bool, visibility: float
    ) -> None:
        """Begin nothing yet."""
        self._client, self._most, self._pickles = client, most, pickles
        self._visibility = visibility
        self._items, self._closed, self._consumers, self._held = keys(name)
        # Tokens that wake producers and consumers, and whether a producer waits.
        self._room, self._wake = self._items + b":room", self._items + b":wake"
        self._wanted = self._items + b":wanted"
        self._start, self._numbers = b"~" + token_urlsafe(9).encode(), itertools.count()
        self._offset: float | None = None
        self._recalled = 0.0

    def _run(self, *words: Any) -> Any:
        return self._client.execute_command(*words)

    def _together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Run commands as one change."""
        with self._client.pipeline(transaction=True) as pipe:
            for words in commands:
                pipe.execute_command(*words)
            results: list[Any] = pipe.execute()
        return results

    def put(self, value: Any, block: bool = True, timeout: float | None = None) -> bool:
        """Put a value, if it is short and bytes or text. Return whether it is."""
        item = ChannelLink.pack(value)
        if item is None:
            return False
        self.put_item(item, block, timeout)
        return True

    def put_item(self, item: bytes, block: bool, timeout: float | None) -> None:
        """Put what a value was made into."""
        until = _until(block, timeout)
        while not self._add(item):
            if not self._wait_for_room(until):
                raise Full

    def _add(self, item: bytes) -> bool:
        length, closed = self._together(("RPUSH", self._items, item), ("EXISTS", self._closed))
        if length <= self._most and not closed:
            return True
        # Whoever has taken it was given it.
        if not self._run("LREM", self._items, -1, item):
            return True
        if closed:
            raise ChannelClosed("the channel is closed")
        return False

    def put_items(self, items: list[bytes], block: bool, timeout: float | None) -> int:
        """Put several, in their order; return how many were put in time."""
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
        """Sleep until there may be room. Return False where time is up."""
        left = until - time.monotonic()
        if left <= 0:
            return False
        self._run("SET", self._wanted, "1", "PX", _WANTED)
        # Whoever takes a message from now on leaves a token.
        self._run("BLPOP", self._room, max(0.001, min(left, _ROOM_SLICE)))
        return True

    def _taken(self, wanted: Any) -> None:
        """Wake a producer, if one waits."""
        if wanted:
            self._together(
                ("RPUSH", self._room, "1"),
                ("LTRIM", self._room, 0, _TOKENS - 1),
                ("PEXPIRE", self._room, _WANTED),
            )

    def get(self, taken: list[Any], block: bool = True, timeout: float | None = None) -> Any:
        """Take a message: its value where that is bytes or text, its item otherwise."""
        found = self.get_items(taken, 1, block, timeout)
        return found[0] if type(found) is list else found

    def get_items(self, taken: list[Any], count: int, block: bool, timeout: float | None) -> Any:
        """Take up to so many messages; those of long values and pickles by themselves.

        What has come from the server is kept on the list, for :meth:`give_back`.
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
                    # Others wait for it, too.
                    self.wake()
            elif found is not None:
                taken.append([found[1]])
                return self._given(taken)

    def _given(self, taken: list[Any]) -> Any:
        """Return values; what is by itself only if it is the first. What is behind it goes back."""
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
                # It is nobody's any more: its value is taken at once.
                return (b"", item) if keep else None
        return [ChannelLink.unpack(item) for item in items]

    def _refuses(self, item: bytes) -> bool:
        return not self._pickles and item[:4] == b"\xc1UOp"

    def hold(self, taken: list[Any], block: bool = True, timeout: float | None = None) -> Any:
        """Take a message to be held: the name of its holder, and the item."""
        until = _until(block, timeout)
        consumer = b"%b%x" % (self._start, next(self._numbers))
        held = self._held + consumer
        # Whatever comes between, it is known where the message went.
        taken.append(consumer)
        try:
            while True:
                self._recall_at_times()
                # Known before there is something to be given back, and in time for this sleep.
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
        """Give back what is on the list of a call that was interrupted.

        A server that cannot be reached gives it to another one when its time is up.
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
        """End a hold. Return whether it was one."""
        if taken is not None:
            taken.clear()
        if not consumer:
            # It was taken without being held.
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
        """Return the server's time, in milliseconds."""
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
        """Put back what those hold whose time is up. Return how many messages.

        Of consumers in the store's own processes only these know whether they live.
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
                # Somebody was faster, or it has just ended.
                return 0
        return int(count)

    def close(self) -> None:
        """Close the channel for all processes."""
        self._run("SET", self._closed, "1")
        self.wake()

    def wake(self) -> None:
        """Let those look who wait for a message: the channel is closed."""
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
