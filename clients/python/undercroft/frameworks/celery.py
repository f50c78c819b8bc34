"""A Celery result backend that stores results in shared memory.

    app = Celery("tasks", broker="redis://localhost", backend="undercroft://results")

All processes on the machine map the store. A published message wakes the processes that wait for a
result.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from celery import states  # type: ignore[import-untyped]
from celery.backends.base import KeyValueStoreBackend  # type: ignore[import-untyped]
from celery.exceptions import TimeoutError  # type: ignore[import-untyped]

import undercroft

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Backend"]

# The number of seconds between polls if the caller's interval is 0.
_PAUSE = 0.005


class Backend(KeyValueStoreBackend):  # type: ignore[misc]
    """A result backend that stores task results in expiring keys, including groups and chords."""

    supports_autoexpire = True
    supports_native_join = True
    implements_incr = True

    def __init__(self, app: Any = None, url: str = "undercroft://celery", **options: Any) -> None:
        """Set the URL of the store, which is opened or created on first use."""
        super().__init__(app=app, url=url, expires_type=int, **options)
        self.url = url
        self._store: undercroft.Redis | None = None

    @property
    def client(self) -> undercroft.Redis:
        """The client for the store."""
        if self._store is None:
            self._store = undercroft.Redis.from_url(self.url)
        return self._store

    def get(self, key: Any) -> Any:
        """Return the value stored under a key, or None."""
        return self.client.get(key)

    def mget(self, keys: Any) -> Any:
        """Return the values stored under several keys."""
        return self.client.mget(keys)

    def set(self, key: Any, value: Any) -> None:
        """Store a value with the results' expiry, and wake the processes that wait for it."""
        with self.client.pipeline() as pipe:
            pipe.set(key, value, ex=self.expires or None)
            pipe.publish(key, b"")
            pipe.execute()

    def delete(self, key: Any) -> None:
        """Delete a value."""
        self.client.delete(key)

    def incr(self, key: Any) -> Any:
        """Count another finished task in a chord."""
        return self.client.incr(key)

    def expire(self, key: Any, value: Any) -> Any:
        """Set a key's expiry in seconds. As in Celery, 0 or None removes the expiry."""
        return self.client.expire(key, value) if value else self.client.persist(key)

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,  # noqa: ARG002
        on_interval: Any = None,
    ) -> Any:
        """Wait for a task to finish, and return its metadata, which includes the result.

        While the task runs, ``on_interval`` is called every ``interval`` seconds.
        """
        self._ensure_not_eager()
        until = None if timeout is None else time.monotonic() + timeout
        with self.client.pubsub(ignore_subscribe_messages=True) as messages:
            messages.subscribe(self.get_key_for_task(task_id))
            messages.get_message()  # the subscription's confirmation
            while True:
                # Read after subscribing, so that a message announces any later result.
                meta = self.get_task_meta(task_id)
                if meta["status"] in states.READY_STATES:
                    return meta
                if on_interval:
                    on_interval()
                messages.get_message(timeout=_left(interval or _PAUSE, until))

    def get_many(
        self,
        task_ids: Iterable[Any],
        timeout: float | None = None,
        interval: float | None = None,
        no_ack: bool = True,  # noqa: ARG002
        on_message: Any = None,
        on_interval: Any = None,
        max_iterations: int | None = None,
        READY_STATES: Any = states.READY_STATES,  # noqa: N803
    ) -> Iterator[Any]:
        """Wait for many tasks to finish, and yield their results as they arrive.

        Every ``interval`` seconds, at most ``max_iterations`` times, ``on_interval`` is called and
        all missing results are read again.
        """
        interval = 0.5 if interval is None else interval or _PAUSE
        until = None if timeout is None else time.monotonic() + timeout
        missing = {self._channel(each): each for each in task_ids}
        told = set(missing)
        due, iterations = 0.0, 0
        with self.client.pubsub(ignore_subscribe_messages=True) as messages:
            while True:
                # Run Celery's own polling for one pass without a pause.
                found = super().get_many(
                    [missing[channel] for channel in told if channel in missing],
                    interval=0,
                    max_iterations=1,
                    on_message=on_message,
                    READY_STATES=READY_STATES,
                )
                for task_id, meta in found:
                    missing.pop(self._channel(task_id), None)
                    yield task_id, meta
                if not missing:
                    return
                if not messages.subscribed:
                    # Subscribe and then read again, so that messages announce any later results.
                    messages.subscribe(*missing)
                    for _ in missing:
                        messages.get_message()  # the subscription's confirmation
                    told = set(missing)
                    continue
                if (now := time.monotonic()) >= due:
                    if max_iterations and iterations >= max_iterations:
                        return
                    iterations += 1
                    due = now + interval
                    if on_interval:
                        on_interval()
                left = _left(max(due - time.monotonic(), 0), until)
                told = _told(messages, left) or set(missing)

    def _channel(self, task_id: Any) -> str:
        """Return the channel that announces a task's result."""
        return _text(self.get_key_for_task(task_id))

    def __reduce__(self, args: Any = (), kwargs: Any = None) -> Any:
        """Return the pickle reduction, which recreates the backend from its URL."""
        return super().__reduce__(args, {**(kwargs or {}), "url": self.url})


def _text(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode()


def _left(pause: float, until: float | None) -> float:
    """Return the seconds to wait for a message, or raise TimeoutError if the time is up."""
    if until is None:
        return pause
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("The operation timed out.")
    return min(pause, left)


def _told(messages: Any, timeout: float) -> set[str]:
    """Return the channels of the messages that arrive within ``timeout`` seconds."""
    told = set()
    message = messages.get_message(timeout=timeout)
    while message is not None and message["type"] == "message":
        told.add(_text(message["channel"]))
        message = messages.get_message()
    # If messages were lost, their channels are unknown. An empty set makes the caller read all
    # results.
    return set() if message is not None else told
