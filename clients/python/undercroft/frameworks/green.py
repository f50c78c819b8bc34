"""Waits that allow other greenlets to run in a process patched by gevent or eventlet.

A native wait blocks the entire thread, including the hub and every greenlet. With patched sockets,
Python code therefore reads connections through the patched socket. To wait for a store in this
process, a nonblocking native call is followed by a wait in the hub for a file descriptor.
"""

from __future__ import annotations

import sys
import time

from undercroft.embedded.address import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The number of seconds before a retry if the time is up but a lock delays the reply.
_RETRY = 0.1
# The maximum number of seconds between checks of a channel.
_SLICE = 1.0
# The longest timeout, in seconds, that all patched functions accept.
_LONGEST = 86400.0


def is_patched() -> bool:
    """Return whether gevent or eventlet has patched sockets, so that waits must not block."""
    # A program that has not imported socket cannot have patched it.
    module = sys.modules.get("socket")
    return module is not None and module.socket.__module__ != "socket"


def readable(descriptors: list[Any], seconds: float | None) -> bool:
    """Return whether any of the descriptors becomes readable within ``seconds`` seconds."""
    import select

    if not descriptors:
        time.sleep(_LONGEST if seconds is None else seconds)
        return False
    if not hasattr(select, "poll"):
        # eventlet removes poll, because only its select allows other greenlets to run.
        return bool(select.select(descriptors, [], [], seconds)[0])
    poller = select.poll()
    for each in descriptors:
        poller.register(each, select.POLLIN)
    return bool(poller.poll(None if seconds is None else min(seconds, _LONGEST) * 1000))


def adapt(client: Any, **methods: Any) -> None:
    """Make a client for a store in this process wait in the hub.

    ``methods`` are redis-py's methods, which replace native methods that can block.
    """
    from types import MethodType

    from undercroft._native import waits
    from undercroft.embedded.taking import through

    native = client._execute

    def execute(args: tuple[Any, ...], options: dict[str, Any], taken: list[Any]) -> Any:
        if waits(args[0]):
            return run(client, args, "NEVER_DECODE" not in options, taken), True
        return native(args, options, taken)

    client._execute = execute
    for name, method in methods.items():
        setattr(client, name, MethodType(through(method), client))


def run(client: Any, args: tuple[Any, ...], decode: bool, taken: list[Any]) -> Any:
    """Run a command that can wait for keys in a store in this process, and return its reply."""
    from undercroft._native import Wait, Waiters

    waiters = Waiters(client)
    wait = waiters.begin(client, args, decode, taken)
    if type(wait) is not Wait:
        return wait
    try:
        seconds = wait.seconds
        while True:
            readable([waiters.fileno()], seconds)
            waiters.look()
            reply = waiters.finish(wait, taken)
            if reply is not wait:
                return reply
            seconds = _RETRY if wait.seconds == 0 else wait.seconds
    finally:
        waiters.give_up(wait)


def read(subscription: Any, seconds: float | None, **options: Any) -> Any:
    """Return a subscription's next message, or None if none arrives within ``seconds`` seconds."""
    if not is_patched():
        return subscription.read(seconds, **options)
    until = None if seconds is None else time.monotonic() + seconds
    while (message := subscription.read(0, **options)) is None:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return None
        readable([subscription.fileno()], left)
    return message


def wait(peer: Any, timeout: float | None) -> bool:
    """Return whether an in-process peer has a reply, waiting for it until the timeout."""
    if not is_patched():
        return bool(peer.wait(timeout))
    until = None if timeout is None else time.monotonic() + timeout
    while not peer.ready():
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return False
        descriptors, soon = peer.watched()
        readable(
            descriptors, min((each for each in (left, soon) if each is not None), default=None)
        )
    return True


class GreenLink:
    """A channel link whose calls wait without blocking other greenlets."""

    def __init__(self, client: Any, link: Any) -> None:
        """Wrap the native link of a client's channel."""
        from queue import Empty, Full

        self._client, self._link = client, link
        self._empty, self._full = Empty, Full

    def __getattr__(self, name: str) -> Any:
        """Return the link's attribute."""
        return getattr(self._link, name)

    def put(self, value: Any, block: bool, timeout: float | None) -> Any:
        """Put a value if it is bytes or text; return False for any other type."""
        return self._until(lambda: self._link.put(value, False, None), self._full, block, timeout)

    def put_item(self, item: bytes, block: bool, timeout: float | None, *within: Any) -> Any:
        """Put an item."""
        call = self._link.put_item
        return self._until(lambda: call(item, False, None, *within), self._full, block, timeout)

    def put_items(self, items: Any, block: bool, timeout: float | None, *within: Any) -> Any:
        """Put items, and return the number that were put before the timeout."""
        until = None if timeout is None else time.monotonic() + timeout
        sent: int = self._link.put_items(items, False, None, *within)
        while block and sent < len(items):
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                break
            self._look(True, left)
            sent += self._link.put_items(items[sent:], False, None, *within)
        return sent

    def get(self, taken: list[Any], block: bool, timeout: float | None) -> Any:
        """Remove and return the first item."""
        return self._until(lambda: self._link.get(taken, False, None), self._empty, block, timeout)

    def hold(self, taken: list[Any], block: bool, timeout: float | None) -> Any:
        """Hold the first item and return it."""
        return self._until(lambda: self._link.hold(taken, False, None), self._empty, block, timeout)

    def get_items(self, taken: list[Any], count: int, block: bool, timeout: float | None) -> Any:
        """Remove and return several items."""
        call = self._link.get_items
        return self._until(lambda: call(taken, count, False, None), self._empty, block, timeout)

    def _until(
        self,
        call: Callable[[], Any],
        missing: type[Exception],
        block: bool,
        timeout: float | None,
    ) -> Any:
        """Retry a call while it raises ``missing``, and return its result."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return call()
            except missing:
                left = None if until is None else until - time.monotonic()
                if not block or (left is not None and left <= 0):
                    raise
            self._look(missing is self._full, left)

    def _look(self, for_room: bool, left: float | None) -> None:
        """Wait until the channel may have a message, or room for a message."""
        from undercroft._native import Waiters

        seconds = _SLICE if left is None else min(_SLICE, left)
        waiters = Waiters(self._client)
        wait = waiters.begin_look(self._client, self._link, for_room, seconds)
        if wait is None:
            return
        try:
            readable([waiters.fileno()], seconds)
        finally:
            waiters.give_up(wait)
