"""Waits for objects that do not exist yet, by their ids.

A process that puts or seals an object publishes a message on the channel named after the object's
key. A waiter first subscribes, and checks whether the object exists before it waits for a message,
so it misses no object. It also checks periodically, because a process may die after it stores an
object and before it publishes the message.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from undercroft._native import Subscription
from undercroft.frameworks.green import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from undercroft.objects.embedded import Objects

# A waiter for more keys than this subscribes to one pattern instead of separate channels.
_CHANNELS_MAX = 512
# The number of seconds between a waiter's periodic checks, in a store and on a server.
LOOK_EMBEDDED, LOOK_REMOTE = 0.1, 1.0
# The minimum ratio of the pause between checks to a check's duration.
_LOOKING = 10


class Waiting:
    """The state of a wait: the missing keys and the deadline."""

    def __init__(
        self,
        objects: Objects,
        ids: Iterable[bytes],
        timeout: float | None,
        count: int | None,
        interval: float,
    ) -> None:
        """Create a wait for ``count`` of these ids, with a check every ``interval`` seconds."""
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"expected a timeout of at least 0 seconds, got {timeout!r}")
        self._ids = list(dict.fromkeys(ids))
        self._prefix = objects._prefix
        # The keys of objects that do not exist yet, in the order of the ids.
        self.missing = {objects._key(id): None for id in self._ids}
        total = len(self._ids)
        if count is not None and not 0 < count <= total:
            raise ValueError(
                f"expected a count of 1 to the {total} ids that are given, got {count!r}"
            )
        self._enough = 0 if count is None else total - count
        self.is_single_look = timeout == 0
        self._until = None if timeout is None else time.monotonic() + timeout
        self._interval, self._next_look = interval, 0.0

    @property
    def is_over(self) -> bool:
        """Whether enough of the objects exist."""
        return len(self.missing) <= self._enough

    def look(self, exists: Callable[[bytes], int]) -> None:
        """Check with ``exists`` which of the missing keys now exist."""
        begun = time.monotonic()
        self.found(key for key in list(self.missing) if exists(key))
        self.looked(begun)

    def found(self, keys: Iterable[bytes]) -> None:
        """Record that keys exist."""
        for key in keys:
            self.missing.pop(key, None)

    def looked(self, begun: float) -> None:
        """Schedule the next check, given the start time of the last one."""
        now = time.monotonic()
        self._next_look = now + max(self._interval, _LOOKING * (now - begun))

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self._until is not None and time.monotonic() >= self._until

    @property
    def is_due(self) -> bool:
        """Whether the next check is due."""
        return time.monotonic() >= self._next_look

    @property
    def pause(self) -> float:
        """The maximum number of seconds to wait for a message."""
        now = time.monotonic()
        end = self._next_look if self._until is None else min(self._next_look, self._until)
        return max(0.0, end - now)

    def subscribing(self) -> tuple[Any, ...]:
        """Return the command that subscribes to messages about the missing objects."""
        if len(self.missing) <= _CHANNELS_MAX:
            return "SUBSCRIBE", *self.missing
        return "PSUBSCRIBE", re.sub(rb"([*?\[\]\\])", rb"\\\1", self._prefix) + b"*"

    def meant(self, message: Any) -> bytes | None:
        """Return the key of a message's object if this wait needs the object, or None."""
        if not message or message[0] not in (b"message", b"pmessage", "message", "pmessage"):
            return None
        key = message[-2]
        key = key.encode() if isinstance(key, str) else key
        return key if key in self.missing else None

    def result(self) -> tuple[list[bytes], list[bytes]]:
        """Return the ids of existing objects and the ids of missing objects."""
        missing = {key[len(self._prefix) :] for key in self.missing}
        ready = [id for id in self._ids if id not in missing]
        return ready, [id for id in self._ids if id in missing]


def wait_in_place(
    objects: Objects, ids: Iterable[bytes], timeout: float | None, count: int | None
) -> tuple[list[bytes], list[bytes]]:
    """Wait for objects in a store in this process."""
    exists = objects._client.exists
    waiting = Waiting(objects, ids, timeout, count, LOOK_EMBEDDED)
    waiting.look(exists)
    if waiting.is_over or waiting.is_single_look:
        return waiting.result()
    messages = Subscription(objects._client)
    try:
        messages.command(waiting.subscribing())
        waiting.look(exists)
        while not waiting.is_over and not waiting.is_late:
            key = waiting.meant(read(messages, waiting.pause, decode=False))
            if key is not None and exists(key):
                waiting.found([key])
            if waiting.is_due:
                waiting.look(exists)
    finally:
        messages.close()
    return waiting.result()
