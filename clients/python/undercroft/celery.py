"""A result backend for Celery on a store in shared memory, which all of a machine's processes map.

    app = Celery("tasks", broker="redis://localhost", backend="undercroft://results")

Whoever waits for a result is woken by a message when it is there, without polling.
"""

from __future__ import annotations

import time
from typing import Any

from celery import states  # type: ignore[import-untyped]
from celery.backends.base import KeyValueStoreBackend  # type: ignore[import-untyped]
from celery.exceptions import TimeoutError  # type: ignore[import-untyped]

import undercroft

__all__ = ["Backend"]

# Between two looks at many results at once, in seconds: a look is an MGET in mapped memory.
_PAUSE = 0.005


class Backend(KeyValueStoreBackend):  # type: ignore[misc]
    """Results of tasks as keys that expire, groups and chords included."""

    supports_autoexpire = True
    supports_native_join = True
    implements_incr = True

    def __init__(self, app: Any = None, url: str = "undercroft://celery", **options: Any) -> None:
        """Open the store of a URL, or create it, at the first use."""
        super().__init__(app=app, url=url, expires_type=int, **options)
        self.url = url
        self._store: undercroft.Redis | None = None

    @property
    def client(self) -> undercroft.Redis:
        """The client of the store."""
        if self._store is None:
            self._store = undercroft.Redis.from_url(self.url)
        return self._store

    def get(self, key: Any) -> Any:
        """Return what is stored, or None."""
        return self.client.get(key)

    def mget(self, keys: Any) -> Any:
        """Return what is stored under each of the keys."""
        return self.client.mget(keys)

    def set(self, key: Any, value: Any) -> None:
        """Store a value for as long as results are kept, and wake those who wait for it."""
        with self.client.pipeline() as pipe:
            pipe.set(key, value, ex=self.expires or None)
            pipe.publish(key, b"")
            pipe.execute()

    def delete(self, key: Any) -> None:
        """Forget a value."""
        self.client.delete(key)

    def incr(self, key: Any) -> Any:
        """Count one more of a chord's tasks as done."""
        return self.client.incr(key)

    def expire(self, key: Any, value: Any) -> Any:
        """Let a key live so many seconds from now; for ever with 0 or None, as Celery says it."""
        return self.client.expire(key, value) if value else self.client.persist(key)

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,  # noqa: ARG002
        on_interval: Any = None,
    ) -> Any:
        """Wait for a task's message, and return its result with what belongs to it.

        ``on_interval`` is called every ``interval`` seconds meanwhile.
        """
        self._ensure_not_eager()
        until = None if timeout is None else time.monotonic() + timeout
        with self.client.pubsub(ignore_subscribe_messages=True) as messages:
            messages.subscribe(self.get_key_for_task(task_id))
            while True:
                # Subscribed before the look: what comes after it is told.
                meta = self.get_task_meta(task_id)
                if meta["status"] in states.READY_STATES:
                    return meta
                if on_interval:
                    on_interval()
                left = interval if until is None else min(interval, until - time.monotonic())
                if left <= 0:
                    raise TimeoutError("The operation timed out.")
                messages.get_message(timeout=left)

    def get_many(self, task_ids: Any, timeout: Any = None, interval: Any = None, **kw: Any) -> Any:
        """Yield the results of many tasks as they come."""
        interval = min(interval or _PAUSE, _PAUSE)
        return super().get_many(task_ids, timeout=timeout, interval=interval, **kw)

    def __reduce__(self, args: Any = (), kwargs: Any = None) -> Any:
        """Return what another process needs to make it anew: the URL."""
        return super().__reduce__(args, {**(kwargs or {}), "url": self.url})
