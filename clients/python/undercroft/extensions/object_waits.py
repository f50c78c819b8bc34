"""Waiting for objects: their ids are known before they are there.

Who puts or seals one publishes on the channel that has its key's name. Who waits subscribes first,
then looks, then waits for a message: so none is missed. It looks again at times, as a process may
die between the store of an object and the message.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from undercroft._native import Subscription
from undercroft.green import read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from undercroft.objects import Objects

# For more keys than this one pattern is subscribed to.
_CHANNELS_MAX = 512
# Seconds until those who wait look again: in a store, and on a server.
LOOK_EMBEDDED, LOOK_REMOTE = 0.1, 1.0
# Looking takes no more than such a part of the time.
_LOOKING = 10


class Waiting:
    """What is waited for, and until when."""

    def __init__(
        self,
        objects: Objects,
        ids: Iterable[bytes],
        timeout: float | None,
        count: int | None,
        interval: float,
    ) -> None:
        """Wait for ``count`` of the objects with these ids, and look again after each interval."""
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"expected a timeout of at least 0 seconds, got {timeout!r}")
        self._ids = list(dict.fromkeys(ids))
        self._prefix = objects._prefix
        # The keys that are not there, in the order given.
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
        """Whether enough of them are there."""
        return len(self.missing) <= self._enough

    def look(self, exists: Callable[[bytes], int]) -> None:
        """Look whether those are there that were not, by a function of a key."""
        begun = time.monotonic()
        self.found(key for key in list(self.missing) if exists(key))
        self.looked(begun)

    def found(self, keys: Iterable[bytes]) -> None:
        """Take note of keys that are there."""
        for key in keys:
            self.missing.pop(key, None)

    def looked(self, begun: float) -> None:
        """Take note of a look that began then, which says when the next one is due."""
        now = time.monotonic()
        self._next_look = now + max(self._interval, _LOOKING * (now - begun))

    @property
    def is_late(self) -> bool:
        """Whether time is up."""
        return self._until is not None and time.monotonic() >= self._until

    @property
    def is_due(self) -> bool:
        """Whether to look again."""
        return time.monotonic() >= self._next_look

    @property
    def pause(self) -> float:
        """The seconds that a message may be waited for."""
        now = time.monotonic()
        end = self._next_look if self._until is None else min(self._next_look, self._until)
        return max(0.0, end - now)

    def subscribing(self) -> tuple[Any, ...]:
        """Return the command that lets messages come, all of which are to be looked at."""
        if len(self.missing) <= _CHANNELS_MAX:
            return "SUBSCRIBE", *self.missing
        return "PSUBSCRIBE", re.sub(rb"([*?\[\]\\])", rb"\\\1", self._prefix) + b"*"

    def meant(self, message: Any) -> bytes | None:
        """Return the key that a message says is there, if it is waited for."""
        if not message or message[0] not in (b"message", b"pmessage", "message", "pmessage"):
            return None
        key = message[-2]
        key = key.encode() if isinstance(key, str) else key
        return key if key in self.missing else None

    def result(self) -> tuple[list[bytes], list[bytes]]:
        """Return the ids of those that are there, and of those that are not."""
        missing = {key[len(self._prefix) :] for key in self.missing}
        ready = [id for id in self._ids if id not in missing]
        return ready, [id for id in self._ids if id in missing]


def wait_in_place(
    objects: Objects, ids: Iterable[bytes], timeout: float | None, count: int | None
) -> tuple[list[bytes], list[bytes]]:
    """Wait for objects of a store in this process."""
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
