"""Locks of a store in this process: redis-py's, which tell each other when they are released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.lock import Lock as RemoteLock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from undercroft.client import EmbeddedRedis


class _Known:
    """A script that every store knows: compare and delete, or compare and expire."""

    def __init__(self, sha: str) -> None:
        self._sha = sha

    def __call__(self, keys: Sequence[Any], args: Sequence[Any], client: Any) -> Any:
        return client.evalsha(self._sha, len(keys), *keys, *args)


# By what redis-py's texts are called.
RELEASE = _Known("c3f8721cbb97f72bc19e972846bd7aaf91901658")
EXTEND = _Known("a4e8783852e6b949f9ef3a97212805108459a890")
REACQUIRE = _Known("1cac51482acf5858da00f6d685d68f886cd6b6b2")


def channel(client: EmbeddedRedis, name: Any) -> bytes:
    """Return the channel on which the release of a lock is told."""
    return b"undercroft:released:%d:%b" % (client.db, client.get_encoder().encode(name))


class Locks:
    """What gives out the locks of a store in this process."""

    _lock_class: Any

    def lock(
        self,
        name: str | bytes,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        lock_class: Any = None,
        thread_local: bool = True,
        **options: Any,
    ) -> Any:
        """Return redis-py's lock of this name, with its arguments."""
        kind: Any = lock_class or self._lock_class
        return kind(self, name, timeout, sleep, blocking, blocking_timeout, thread_local, **options)


class Lock(RemoteLock):
    """redis-py's lock, each of whose scripts is one native call."""

    lua_release: Any = RELEASE
    lua_extend: Any = EXTEND
    lua_reacquire: Any = REACQUIRE

    def register_scripts(self) -> None:
        """Do nothing: they are known."""

    def do_release(self, expected_token: Any) -> None:
        """Release the lock, and tell the tasks that wait for it."""
        super().do_release(expected_token)
        self.redis.publish(channel(self.redis, self.name), b"")
